import type { Log } from "../../log.ts"
import { InterruptibleWait } from "../interruptible-wait.ts"
import { RedisAwayError } from "./client/connection.ts"
import { isNoGroup, type Link, makeGroups, removeEntries } from "./client/link.ts"
import { type Keys, OWNERS, WORKERS } from "./keys.ts"
import { decodeReport, type Fields, type Report, type Sender } from "./wire.ts"

export interface ResultsParts {
  readonly link: Link
  readonly engine: string
  readonly blockMs: number
  /** The maximum number of entries read and not yet in the journal; no more are read beyond it. */
  readonly maxUnsettled: number
  readonly deliver: (report: Report, from: Sender) => void
  /**
   * Resolves when everything that was delivered for the partition is durable; rejects if this engine no
   * longer owns the partition.
   */
  readonly durable: (partition: number) => Promise<void>
  readonly log: Log
}

/**
 * What was read of one partition at once; `ended`: the entries of the tasks that these reports end, by
 * handler.
 */
interface Taken {
  readonly partition: number
  readonly entries: readonly Entry[]
  readonly ended: ReadonlyMap<string, readonly string[]>
}

type Entry = readonly [id: string, fields: Fields]

/**
 * Reads, in order, what workers report for the partitions that this engine owns.
 *
 * 1. A report, and the task that it ends, are removed from Redis only when the report is in the journal.
 * 2. Reports that another engine had read and not removed are read here once this engine owns the partition.
 * 3. While the journal accepts nothing, nothing more is read.
 */
export class Results {
  readonly #parts: ResultsParts
  readonly #partitions = new Set<number>()
  /** Callbacks that wait until every entry present at the time of their call has been delivered. */
  #waiters: ((isDelivered: boolean) => void)[] = []
  /**
   * Entries whose reports are not in the journal yet. While the journal accepts nothing their idle time
   * grows, and they would be claimed again.
   */
  readonly #unsettled = new Set<string>()
  readonly #pause = new InterruptibleWait()
  #isStopped = false
  readonly #reading: Promise<void>

  constructor(parts: ResultsParts) {
    this.#parts = parts
    this.#reading = this.#read()
  }

  has(partition: number): boolean {
    return this.#partitions.has(partition)
  }

  get partitions(): readonly number[] {
    return [...this.#partitions]
  }

  partitionsTaken(partitions: readonly number[]): void {
    for (const partition of partitions) this.#partitions.add(partition)
    this.wake()
  }

  partitionsReleased(partitions: readonly number[]): void {
    for (const partition of partitions) this.#partitions.delete(partition)
  }

  /** Something may have changed: the connection is back, or a partition was added. */
  wake(): void {
    this.#pause.end()
    this.#parts.link.unblock()
  }

  /**
   * Resolves when all entries present now have been delivered; with false if nothing can be read at the
   * moment.
   */
  delivered(): Promise<boolean> {
    if (this.#partitions.size === 0) return Promise.resolve(true)
    return new Promise(resolve => {
      this.#waiters.push(resolve)
      this.wake()
    })
  }

  /**
   * Claims the entries of these partitions that an earlier owner had read, and that have been pending for
   * this long.
   */
  async claim(partitions: Iterable<number>, idleMs: number): Promise<void> {
    const { link, engine } = this.#parts
    for (const partition of partitions) {
      for (let from = "0-0"; ; ) {
        const { keys } = link
        if (keys === null || !this.#partitions.has(partition)) break
        const stream = keys.results(partition)
        const claimed = await link
          .send(["XAUTOCLAIM", stream, OWNERS, engine, String(idleMs), from, "COUNT", String(READ_AT_ONCE)])
          .catch(error => (isNoGroup(error) ? ["0-0", []] : Promise.reject(error)))
        const [next, entries] = claimed as [string, readonly Entry[]]
        this.#take(keys, partition, entries)
        if (next === "0-0") break
        from = next
      }
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.wake()
    await this.#reading
  }

  async #read(): Promise<void> {
    while (!this.#isStopped) {
      const { keys } = this.#parts.link
      if (keys === null || this.#partitions.size === 0 || this.#isFull) {
        this.#notifyWaiters(this.#partitions.size === 0)
        await this.#pause.wait(this.#parts.blockMs)
        continue
      }
      try {
        await this.#readOnce(keys)
      } catch (error) {
        await this.#mend(keys, error)
      }
    }
    this.#notifyWaiters(false)
  }

  get #isFull(): boolean {
    return this.#unsettled.size >= this.#parts.maxUnsettled
  }

  /** Nothing may wait for a store that is unavailable: reconciliation has more to do than results. */
  #notifyWaiters(isDelivered: boolean): void {
    for (const resolve of this.#waiters.splice(0)) resolve(isDelivered)
  }

  async #readOnce(keys: Keys): Promise<void> {
    const { link, engine, blockMs } = this.#parts
    const waiters = this.#waiters
    this.#waiters = []
    const partitions = [...this.#partitions]
    const block = waiters.length > 0 ? [] : ["BLOCK", String(blockMs)]
    const ends = partitions.map(() => ">")
    const streams = partitions.map(partition => keys.results(partition))
    try {
      const read = await link.wait(
        ["XREADGROUP", "GROUP", OWNERS, engine, "COUNT", String(READ_AT_ONCE), ...block, "STREAMS"].concat(
          streams,
          ends,
        ),
      )
      const found = (read ?? []) as [string, Entry[]][]
      for (const [stream, entries] of found) this.#take(keys, partitions[streams.indexOf(stream)]!, entries)
      // Not until the streams are empty: a busy fleet never pauses.
      if (found.every(([, entries]) => entries.length < READ_AT_ONCE))
        for (const resolve of waiters.splice(0)) resolve(true)
    } finally {
      this.#waiters.push(...waiters)
    }
  }

  #take(keys: Keys, partition: number, read: readonly Entry[]): void {
    const entries = read.filter(([id]) => !this.#unsettled.has(`${partition}/${id}`))
    if (entries.length === 0) return
    const ended = new Map<string, string[]>()
    for (const [, fields] of entries)
      for (let i = 0; i < fields.length; i += 2) this.#deliverReports(fields[i]!, fields[i + 1]!, ended)
    void this.#settle(keys, { partition, entries, ended })
  }

  #deliverReports(encoded: string, text: string, ended: Map<string, string[]>): void {
    try {
      const { report, from } = decodeReport(encoded, text)
      this.#parts.deliver(report, from)
      if (report.kind !== "finished" && report.kind !== "returned") return
      const tasks = ended.get(from.handler)
      if (tasks === undefined) ended.set(from.handler, [from.entry])
      else tasks.push(from.entry)
    } catch (error) {
      this.#parts.log.error(
        { report: encoded, error: String(error) },
        "a report cannot be read and is dropped",
      )
    }
  }

  /**
   * Invariant 1. Reports that stay in Redis are read again later, by this engine or by the next owner, and
   * change nothing then.
   */
  async #settle(keys: Keys, taken: Taken): Promise<void> {
    const { durable, log } = this.#parts
    const places = taken.entries.map(([id]) => `${taken.partition}/${id}`)
    for (const place of places) this.#unsettled.add(place)
    try {
      const isStored = await durable(taken.partition).then(
        () => true,
        () => false,
      )
      await (isStored ? this.#remove(keys, taken) : this.#putBack(keys, taken))
    } catch (error) {
      log.debug(
        { partition: taken.partition, error: String(error) },
        "could not remove reports that were read; they stay in Redis, and are read again",
      )
    } finally {
      for (const place of places) this.#unsettled.delete(place)
      this.#pause.end()
    }
  }

  async #remove(keys: Keys, { partition, entries, ended }: Taken): Promise<void> {
    const { link } = this.#parts
    const reports = entries.map(([id]) => id)
    await Promise.all([
      removeEntries(link, keys.results(partition), OWNERS, reports),
      ...[...ended].map(([handler, tasks]) => removeEntries(link, keys.tasks(handler), WORKERS, tasks)),
    ])
  }

  /**
   * The entries belong to the next owner, which would otherwise have to wait until their idle time has
   * passed.
   */
  async #putBack(keys: Keys, { partition, entries }: Taken): Promise<void> {
    const { link } = this.#parts
    const stream = keys.results(partition)
    for (const [id, fields] of entries) {
      await link.send(["XADD", stream, "*", ...fields])
      await removeEntries(link, stream, OWNERS, [id])
    }
  }

  async #mend(keys: Keys, error: unknown): Promise<void> {
    const { link, log, blockMs } = this.#parts
    try {
      if (isNoGroup(error)) {
        const streams = [...this.#partitions].map(partition => keys.results(partition))
        await makeGroups(link, streams, OWNERS)
        return
      }
    } catch {
      // As below: the loop waits for the connection.
    }
    const isAway = error instanceof RedisAwayError
    if (!isAway) log.warn({ error: String(error) }, "could not read results from Redis")
    await this.#pause.wait(isAway ? MEND_MS : blockMs)
  }
}

const READ_AT_ONCE = 500
const MEND_MS = 50
