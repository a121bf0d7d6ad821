import { UmbraError } from "../../../errors.ts"
import type { Log } from "../../../log.ts"
import { storesKey } from "../keys.ts"
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
  readonly #bound: Promise<string>
  readonly #parts: WorkerStoreParts
  #id: string | null
  /** Why there is nothing to work for; null: an engine has announced the store. */
  #problem: string | null = "Redis cannot be reached"
  #isAsked = false
  #resolve: (id: string) => void = () => {}
  #reject: (error: Error) => void = () => {}

  constructor(parts: WorkerStoreParts) {
    this.#parts = parts
    this.#id = parts.given === "" ? null : shortStoreId(parts.given)
    this.#bound = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    // A caller that does not ask for it must not end with it.
    this.#bound.catch(() => {})
  }

  /** Resolves with its id; rejects with E620 if none was given and several are live. */
  get bound(): Promise<string> {
    this.#isAsked = true
    return this.#bound
  }

  /** Why no engine can have work for this worker; null: one has announced its store. */
  get problem(): string | null {
    return this.#problem
  }

  /** With each connection. null: the worker stops. Rejects while several stores are live, and nothing says which is meant. */
  async bind(send: Send): Promise<string | null> {
    if (this.#parts.given === "") {
      this.#id ??= await this.#find(send)
      if (this.#id !== null) this.#problem = null
    } else if (!(await this.#isAnnounced(send))) this.#watch(send)
    if (this.#id !== null) this.#resolve(this.#id)
    return this.#id
  }

  /** Is the store that was given known to be live? Once is enough: engines may stop and come back. */
  async #isAnnounced(send: Send): Promise<boolean> {
    if (this.#problem === null) return true
    const { prefix, log } = this.#parts
    const stores = await liveStores(send, storesKey(prefix))
    const isThere = stores.some(({ id }) => id === this.#id)
    const problem = `no engine has announced store ${this.#id} on this Redis yet`
    if (isThere) log.info({ store: this.#id }, "an engine has announced the store of this worker")
    else if (problem !== this.#problem)
      log.warn(
        { announced: stores.map(({ id, label }) => `${id} ${label}`) },
        `${problem}; this worker waits for one`,
      )
    this.#problem = isThere ? null : problem
    return isThere
  }

  /** Until it is announced, or the connection is lost: the next one begins with a look of its own. */
  #watch(send: Send): void {
    const timer = setTimeout(async () => {
      if (!this.#parts.isWanted()) return
      const isThere = await this.#isAnnounced(send).catch(() => true)
      if (!isThere) this.#watch(send)
    }, POLL_MS)
    timer.unref()
  }

  /** A caller that has asked for `bound` learns it there. */
  #refuse(stores: readonly AnnouncedStore[]): UmbraError {
    const error = severalStores(stores)
    this.#problem = error.message.split("\n")[0]!
    if (!this.#isAsked)
      this.#parts.log.error(
        { stores: stores.map(({ id, label }) => `${id} ${label}`) },
        "engines of several stores use this Redis; this worker takes no tasks unless it is given one of them (--store)",
      )
    this.#isAsked = true
    this.#reject(error)
    return error
  }

  async #find(send: Send): Promise<string | null> {
    const { prefix, isWanted, log } = this.#parts
    let isTold = false
    while (isWanted()) {
      const stores = await liveStores(send, storesKey(prefix))
      if (stores.length > 1) throw this.#refuse(stores)
      if (stores.length === 1) return stores[0]!.id
      if (!isTold)
        log.warn({}, "no engine has announced its store on this Redis yet; this worker waits for one")
      isTold = true
      this.#problem = "no engine has announced its store on this Redis yet"
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
