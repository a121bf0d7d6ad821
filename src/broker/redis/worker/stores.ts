import { UmbraError } from "../../../errors.ts"
import type { Log } from "../../../log.ts"
import type { Reply } from "../client/connection.ts"
import { type Link, runIdIn } from "../client/link.ts"
import { type Keys, oldEpochsKey, storesKey } from "../keys.ts"

/**
 * The stores whose engines use a Redis. A worker has no database and cannot know the store that it works for:
 * engines announce theirs under one key for all stores of a prefix.
 */

/** A store, as `--store` names it. */
interface AnnouncedStore {
  readonly id: string
  /** The display name, without credentials. */
  readonly label: string
}

type Send = (args: readonly string[]) => Promise<Reply>

/** The part of a store's id that is in the names of its keys, and that people see. */
export function shortStoreId(id: string): string {
  return id.replaceAll("-", "").slice(0, STORE_LENGTH)
}

/** Announces the store of an engine, and removes announcements that have not been repeated for a long time. */
export async function announceStore(
  send: Send,
  key: string,
  { id, label, engine }: AnnouncedStore & { readonly engine: string },
): Promise<void> {
  const now = await redisSeconds(send)
  await send(["HSET", key, announcementField(id, engine), JSON.stringify({ label, seen: now })])
  const gone = (await readAll(send, key)).filter(({ seen }) => now - seen > FORGET_SECONDS)
  if (gone.length > 0) await send(["HDEL", key, ...gone.map(({ field }) => field)])
}

/** Each engine announces its store by itself: a store is live as long as one of its engines is. */
export function announcementField(store: string, engine: string): string {
  return `${store}/${engine}`
}

/** Announces repeatedly, while the process runs, that the engine's store is live. */
export class StoreAnnouncer {
  readonly #announce: () => Promise<void>
  #at = Number.NEGATIVE_INFINITY
  #announced: Promise<void> | null = null

  constructor(announce: () => Promise<void>) {
    this.#announce = announce
  }

  /** Resolves when no announcement is in flight and none follows; false: there was none. */
  async stop(): Promise<boolean> {
    this.#at = Number.POSITIVE_INFINITY
    await this.#announced
    return this.#announced !== null
  }

  /** Redis may have lost the announcement: the next call of `repeat` announces again. */
  reset(): void {
    if (this.#at !== Number.POSITIVE_INFINITY) this.#at = Number.NEGATIVE_INFINITY
  }

  /** Call this often: it announces only when the interval has passed. */
  repeat(): void {
    if (performance.now() - this.#at < ANNOUNCE_MS) return
    this.#at = performance.now()
    this.#announced = this.#announce().catch(() => this.reset())
  }
}

/** The stores that were announced recently. */
async function liveStores(send: Send, key: string): Promise<AnnouncedStore[]> {
  const [now, all] = [await redisSeconds(send), await readAll(send, key)]
  const live = all.filter(({ seen }) => now - seen <= LIVE_SECONDS)
  return [...new Map(live.map(({ id, label }) => [id, { id, label }])).values()]
}

interface Announcement extends AnnouncedStore {
  readonly field: string
  readonly seen: number
}

async function readAll(send: Send, key: string): Promise<Announcement[]> {
  const row = (await send(["HGETALL", key])) as string[]
  const found: Announcement[] = []
  for (let i = 0; i < row.length; i += 2) {
    const field = row[i]!
    const id = FIELD.exec(field)?.[1]
    const said = parseAnnouncement(row[i + 1]!)
    if (said !== null && id !== undefined) found.push({ field, id, ...said })
  }
  return found
}

/** null: not in the format that engines write. */
function parseAnnouncement(text: string): { readonly label: string; readonly seen: number } | null {
  try {
    const { label, seen } = JSON.parse(text) as { label: unknown; seen: unknown }
    return typeof label === "string" && typeof seen === "number" ? { label, seen } : null
  } catch {
    return null
  }
}

async function redisSeconds(send: Send): Promise<number> {
  const [seconds] = (await send(["TIME"])) as [string]
  return Number(seconds)
}

/** The interval between two announcements of an engine. */
const ANNOUNCE_MS = 5000
const LIVE_SECONDS = 30
const FORGET_SECONDS = 300
const STORE_LENGTH = 12
const FIELD = /^([0-9a-f]{12})\//

/**
 * Engines of release 0.1 announce nothing, and write tasks under names that this release does not read. What they have
 * written remains until Redis is restarted, so they may be gone. Empty: there were none.
 */
async function oldEngines(send: Send, prefix: string): Promise<string> {
  const key = oldEpochsKey(prefix, runIdIn(await send(["INFO", "server"])))
  if ((await send(["EXISTS", key])) !== 1) return ""
  return " (engines of release 0.1 have used it; they send no tasks to this worker: replace them)"
}

interface WorkerStoreParts {
  /** Empty: the only live store. */
  readonly given: string
  readonly prefix: string
  /** false: the worker is stopping. */
  readonly isWanted: () => boolean
  readonly log: Log
}

/**
 * The store that a worker works for. A worker without a configured store finds it from the announcements of
 * engines (`stores.ts`).
 */
export class WorkerStore {
  readonly #bound: Promise<string>
  readonly #parts: WorkerStoreParts
  #id: string | null
  /** Why no store is available; null: an engine has announced the store. */
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
    // A caller that does not use this promise must not crash on its rejection.
    this.#bound.catch(() => {})
  }

  /** Resolves with the store's id; rejects with E620 if none was configured and several are live. */
  get bound(): Promise<string> {
    this.#isAsked = true
    return this.#bound
  }

  /** Why no engine can have tasks for this worker; null: an engine has announced its store. */
  get problem(): string | null {
    return this.#problem
  }

  /**
   * Called with each connection. null: the worker is stopping. Rejects while several stores are live and none
   * is configured.
   */
  async bind(send: Send): Promise<string | null> {
    if (this.#parts.given === "") {
      this.#id ??= await this.#find(send)
      if (this.#id !== null) this.#problem = null
    } else if (!(await this.#isAnnounced(send))) this.#watch(send)
    if (this.#id !== null) this.#resolve(this.#id)
    return this.#id
  }

  /** Is the configured store known to be live? Checked only until it is: engines may stop and return. */
  async #isAnnounced(send: Send): Promise<boolean> {
    if (this.#problem === null) return true
    const { prefix, log } = this.#parts
    const stores = await liveStores(send, storesKey(prefix))
    const isThere = stores.some(({ id }) => id === this.#id)
    const problem = `no engine has announced store ${this.#id} on this Redis yet${await oldEngines(send, prefix)}`
    if (isThere) log.info({ store: this.#id }, "an engine has announced the store of this worker")
    else if (problem !== this.#problem)
      log.warn(
        { announced: stores.map(({ id, label }) => `${id} ${label}`) },
        `${problem}; this worker waits for one`,
      )
    this.#problem = isThere ? null : problem
    return isThere
  }

  /** Polls until the store is announced, or the connection is lost: the next connection checks again. */
  #watch(send: Send): void {
    const timer = setTimeout(async () => {
      if (!this.#parts.isWanted()) return
      const isThere = await this.#isAnnounced(send).catch(() => true)
      if (!isThere) this.#watch(send)
    }, POLL_MS)
    timer.unref()
  }

  /** A caller of `bound` receives the error there. */
  #refuse(stores: readonly AnnouncedStore[]): UmbraError {
    const error = severalStores(stores)
    this.#problem = error.message.split("\n")[0]!
    if (!this.#isAsked)
      this.#parts.log.error(
        { stores: stores.map(({ id, label }) => `${id} ${label}`) },
        "engines of several stores use this Redis; this worker takes no tasks until it is started with one of them (--store)",
      )
    this.#isAsked = true
    this.#reject(error)
    return error
  }

  async #find(send: Send): Promise<string | null> {
    const { prefix, isWanted, log } = this.#parts
    while (isWanted()) {
      const stores = await liveStores(send, storesKey(prefix))
      if (stores.length > 1) throw this.#refuse(stores)
      if (stores.length === 1) return stores[0]!.id
      const problem = `no engine has announced its store on this Redis yet${await oldEngines(send, prefix)}`
      if (problem !== this.#problem) log.warn({}, `${problem}; this worker waits for one`)
      this.#problem = problem
      await new Promise(resolve => setTimeout(resolve, POLL_MS))
    }
    return null
  }

  /**
   * The engines of a store that was found may be gone for good, replaced by engines of another store: a
   * database that was recreated has another id. Returns true if the worker switches to the only live store.
   */
  async hasMoved(send: Send): Promise<boolean> {
    const { given, prefix, log } = this.#parts
    if (given !== "" || this.#id === null) return false
    const [only, ...others] = await liveStores(send, storesKey(prefix))
    if (only === undefined || others.length > 0 || only.id === this.#id) return false
    log.warn(
      { from: this.#id, to: only.id, label: only.label },
      "this worker switches to the only live store",
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

/** The epochs under which partitions of a store are owned, as far as a worker knows. An epoch only rises. */
export class OwnerEpochs {
  readonly #epochs = new Map<number, number>()

  async read(link: Link, keys: Keys): Promise<void> {
    const row = (await link.send(["ZRANGE", keys.epochs, "0", "-1", "WITHSCORES"])) as string[]
    const epochs: [number, number][] = []
    for (let i = 0; i < row.length; i += 2) epochs.push([Number(row[i]), Number(row[i + 1])])
    this.changed(epochs)
  }

  changed(epochs: readonly (readonly [partition: number, epoch: number])[]): void {
    for (const [partition, epoch] of epochs)
      if (epoch > (this.#epochs.get(partition) ?? 0)) this.#epochs.set(partition, epoch)
  }

  /** The worker switches to another store, which has epochs of its own. */
  clear(): void {
    this.#epochs.clear()
  }

  /** The epoch of the partition's current owner. */
  current(partition: number): number {
    return this.#epochs.get(partition) ?? 0
  }
}
