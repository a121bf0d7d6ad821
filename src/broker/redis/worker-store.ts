import { UmbraError } from "../../errors.ts"
import type { Log } from "../../log.ts"
import { storesKey } from "./keys.ts"
import { type AnnouncedStore, liveStores, type Send, shortStoreId } from "./stores.ts"

export interface WorkerStoreParts {
  /** Empty: the only store that is live. */
  readonly given: string
  readonly prefix: string
  /** false: the worker stops. */
  readonly isWanted: () => boolean
  readonly log: Log
}

/** The store that a worker works for. A worker that was not given one finds it by what engines announce (`stores.ts`). */
export class WorkerStore {
  /** Resolves with its id; rejects with E620 if none was given and several are live. */
  readonly bound: Promise<string>
  readonly #parts: WorkerStoreParts
  #id: string | null
  #resolve: (id: string) => void = () => {}
  #reject: (error: Error) => void = () => {}

  constructor(parts: WorkerStoreParts) {
    this.#parts = parts
    this.#id = parts.given === "" ? null : shortStoreId(parts.given)
    this.bound = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    // A caller that does not ask for it must not end with it.
    this.bound.catch(() => {})
  }

  /** With each connection. null: the worker stops. Rejects while several stores are live, and nothing says which is meant. */
  async bind(send: Send): Promise<string | null> {
    try {
      this.#id ??= await this.#find(send)
    } catch (error) {
      if (error instanceof UmbraError) this.#reject(error)
      throw error
    }
    if (this.#id !== null) this.#resolve(this.#id)
    return this.#id
  }

  async #find(send: Send): Promise<string | null> {
    const { prefix, isWanted, log } = this.#parts
    let isTold = false
    while (isWanted()) {
      const stores = await liveStores(send, storesKey(prefix))
      if (stores.length > 1) throw severalStores(stores)
      if (stores.length === 1) return stores[0]!.id
      if (!isTold)
        log.warn({}, "no engine has announced its store on this Redis yet; this worker waits for one")
      isTold = true
      await new Promise(resolve => setTimeout(resolve, POLL_MS))
    }
    return null
  }

  /**
   * Engines of a store that was found may be gone for good, with others there instead: a database that was made anew has
   * another id. True: it goes over to the only one that is live.
   */
  async hasMoved(send: Send): Promise<boolean> {
    const { given, prefix, log } = this.#parts
    if (given !== "" || this.#id === null) return false
    const [only, ...others] = await liveStores(send, storesKey(prefix))
    if (only === undefined || others.length > 0 || only.id === this.#id) return false
    log.warn(
      { from: this.#id, to: only.id, label: only.label },
      "this worker goes over to the only live store",
    )
    this.#id = only.id
    return true
  }
}

function severalStores(stores: readonly AnnouncedStore[]): UmbraError {
  const list = stores.map(({ id, label }) => `  ${id}  ${label}`).join("\n")
  return new UmbraError(
    "E620",
    `Engines of ${stores.length} stores use this Redis, and a worker works for one store. Start it with --store ID (UMBRA_STORE), where ID is one of:\n${list}`,
  )
}

const POLL_MS = 500
