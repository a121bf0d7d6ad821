import type { JobSubmitted } from "../../core/facts.ts"
import {
  FIRST_QUEUE_KEY,
  keyIn,
  LAST_QUEUE_KEY,
  parseQueueKey,
  type QueuedJob,
  queueBase,
} from "../../core/timers.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { Log } from "../../log.ts"
import { atTime, type Clock } from "../clock.ts"
import type { QueuedRow } from "../commit/batch.ts"
import { idTime, jobPartition } from "../ids.ts"
import type { ReadyPartitions } from "../partitions/ready-partitions.ts"
import type { LiveJob } from "./live-job.ts"
import type { QueuedFacts } from "./queued-facts.ts"

/** Jobs of a queue in memory of which nothing has happened yet: at least this many, whatever the workers can run. */
const LEAST_WINDOW = 1000
/** Ids read at once from one partition; jobs loaded at once. */
const PAGE = 500
const RETRY_MS = 1000
/** While a bulk is accepted, no page is loaded for so long at most. */
const HOLD_MS = 1000
/** Queues without jobs that are remembered. */
const MANY = 1000
const FIRST_ID = "00000000-0000-0000-0000-000000000000"
const SECOND_ID = "00000000-0000-0000-0000-000000000001"
const LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"

export interface JobQueueParts {
  readonly journal: Pick<Journal, "dueJobs" | "readFacts">
  readonly clock: Clock
  readonly log: Log
  readonly partitions: Pick<ReadyPartitions, "ready" | "owns">
  readonly facts: QueuedFacts
  /** How many attempts the live workers can run at once. */
  readonly capacity: () => number
  readonly liveJobs: () => number
  readonly maxLiveJobs: number
  /** Do closed batches wait for an append? Then `wake` is called after each append. */
  readonly isBehind: () => boolean
  /** Loads these jobs and dispatches them. Returns those that left memory meanwhile and must be read again. */
  begin(ids: readonly string[], queue: Queue): Promise<readonly string[]>
}

/**
 * Which jobs are in memory to begin, and which wait as rows.
 *
 * 1. The jobs of one owner, workflow and time to live are a queue. It has a window of jobs in memory of which nothing has
 *    happened yet; the others are QUEUED: a fact and a row, and nothing in memory. Every queue has a window, so the broker
 *    chooses among all owners and workflows as if all jobs were in memory (`broker/fair-queue.ts`).
 * 2. A queue is read in pages, by priority and then in the order of ids. A job goes directly to memory only if no job of
 *    its priority or a higher one waits in its queue.
 * 3. That a job was loaded is not recorded. The next owner of the partition reads its row again; the first window of each
 *    queue may have been dispatched before, and is recovered like other jobs in flight.
 * 4. The first jobs of a priority are the first to expire. They are loaded in time even if the window is full.
 * 5. A bulk is accepted before its jobs are loaded, within limits (`bulkBegan`).
 */
export class JobQueue {
  readonly facts: QueuedFacts
  readonly #parts: JobQueueParts
  readonly #queues = new Map<number, Queue>()
  /** Queues by owner, workflow and time to live: hashing their names for every job shows in profiles. */
  readonly #byName = new Map<string, Map<string, Queue>>()
  /** Queues with rows. */
  readonly waiting: Set<Queue> = new Set()
  /** Partitions whose queues are not known yet. */
  readonly #unread = new Set<number>()
  #running: Promise<void> | null = null
  #runAgain = false
  #timer: { readonly at: number; readonly cancel: () => void } | null = null
  #window = LEAST_WINDOW
  #stopped = false
  /** Bulks that are being accepted, and the time in which that comes first. */
  #bulks = 0
  #hold = { from: 0, until: 0 }

  constructor(parts: JobQueueParts) {
    this.#parts = parts
    this.facts = parts.facts
  }

  /**
   * A bulk is being accepted, until the returned function is called. What is decided and stored for jobs meanwhile slows
   * that down, so no page is loaded. This time is limited, and followed by as much time without: under a steady stream of
   * bulks jobs get half of the time.
   */
  bulkBegan(): () => void {
    const now = this.#parts.clock.now()
    const { from, until } = this.#hold
    if (this.#bulks++ === 0 && now >= until + (until - from)) {
      this.#hold = { from: now, until: now + HOLD_MS }
      this.#arm(this.#hold.until)
    }
    return () => {
      if (--this.#bulks > 0) return
      this.#hold = { from: this.#hold.from, until: Math.min(this.#hold.until, this.#parts.clock.now()) }
      this.wake()
    }
  }

  /** May a new job begin at once? Otherwise it waits as a row. */
  mayBegin(job: QueuedJob): boolean {
    const queue = this.#ensureQueue(job)
    const [first] = queue.levels
    if (first !== undefined && first.priority >= job.priority) return false
    return queue.inWindow(job.priority) < this.#limit
  }

  /** The job is in memory, and nothing has happened to it. */
  entered(job: LiveJob): void {
    job.place = this.#ensureQueue(job.state).place(job.state.priority)
    job.place.count++
  }

  /** A place of a queue with rows is free. */
  freed(queue: Queue): void {
    if (queue.levels.length > 0 && this.#isLow(queue)) this.wake()
  }

  /** Is there room for a page of the highest priority that waits? */
  #isLow(queue: Queue): boolean {
    return queue.inWindow(queue.levels[0]!.priority) * 2 <= this.#window
  }

  /** A job that waits as a row is about to be stored. Returns the `wakeAt` of the row. */
  recorded(job: QueuedJob): number {
    return this.#level(this.#ensureQueue(job), job.priority).key
  }

  /** The row of a new job is stored, or was rejected. false: the job does not wait for a place. */
  settled(job: QueuedRow, isRefused: boolean): boolean {
    const waits = job.wakeAt !== null && job.wakeAt < 0
    this.facts.settled(job.id, waits && !isRefused ? job.fact : null)
    if (waits) this.stored(job)
    return waits
  }

  /** A row that waits for a place is stored. */
  stored(job: QueuedJob & { readonly id: string; readonly partition: number }): void {
    const queue = this.#ensureQueue(job)
    this.#level(queue, job.priority).rows(job.partition).added(job.id)
    if (this.#isLow(queue)) this.wake()
    else this.#armFor(queue, idTime(job.id))
  }

  /** This engine took these partitions. */
  partitionsAdded(partitions: Iterable<number>): void {
    for (const partition of partitions) this.#unread.add(partition)
    this.wake()
  }

  /** A place may be free, or a partition may be ready again. */
  wake(): void {
    this.#runAgain = true
    if (this.#stopped || this.#running !== null) return
    if (this.#unread.size === 0 && this.waiting.size === 0) return
    this.#running = this.#run().finally(() => {
      this.#running = null
      if (this.#runAgain) this.wake()
    })
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#timer?.cancel()
    await this.#running
  }

  #level(queue: Queue, priority: number): PriorityRows {
    this.waiting.add(queue)
    return queue.level(priority)
  }

  /** With too many jobs in memory every queue still has one: none waits for the jobs of another. */
  get #limit(): number {
    const { liveJobs, maxLiveJobs } = this.#parts
    return liveJobs() < maxLiveJobs ? this.#window : 1
  }

  #ensureQueue(job: QueuedJob): Queue {
    let ofOwner = this.#byName.get(job.owner)
    if (ofOwner === undefined) {
      ofOwner = new Map()
      this.#byName.set(job.owner, ofOwner)
    }
    const name = `${job.workflow}\n${job.ttlSeconds}`
    let queue = ofOwner.get(name)
    if (queue === undefined) {
      if (this.#queues.size >= MANY) this.#forgetIdle()
      queue = this.#queue(queueBase(job))
      queue.ttlSeconds = job.ttlSeconds
      ofOwner.set(name, queue)
    }
    return queue
  }

  #queue(base: number): Queue {
    const known = this.#queues.get(base)
    if (known !== undefined) return known
    const made = new Queue(base)
    this.#queues.set(base, made)
    return made
  }

  #forgetIdle(): void {
    for (const [base, queue] of this.#queues) if (queue.isIdle) this.#queues.delete(base)
    for (const [owner, queues] of this.#byName) {
      for (const [name, queue] of queues) if (queue.isIdle) queues.delete(name)
      if (queues.size === 0) this.#byName.delete(owner)
    }
  }

  async #run(): Promise<void> {
    try {
      do {
        this.#runAgain = false
        this.#window = Math.max(LEAST_WINDOW, 2 * this.#parts.capacity())
        if (this.#unread.size > 0) await this.#discover([...this.#unread])
        // Queues take turns, a page each.
        for (const queue of [...this.waiting]) await this.#fill(queue)
      } while (this.#runAgain && !this.#stopped)
    } catch (error) {
      this.#parts.log.warn({ error: String(error) }, "could not read queued jobs; retrying")
      for (const queue of this.waiting) for (const level of queue.levels) level.reset()
      this.#runAgain = false
      this.#arm(this.#parts.clock.now() + RETRY_MS)
    }
  }

  /** Finds the queues of partitions that were taken over: one query for each priority of each of them. */
  async #discover(partitions: readonly number[]): Promise<void> {
    const { journal } = this.#parts
    let after = { wakeAt: FIRST_QUEUE_KEY - 1, id: LAST_ID }
    for (;;) {
      const { jobs } = await journal.dueJobs({ partitions, after, at: LAST_QUEUE_KEY, limit: 1 })
      const [first] = jobs
      if (first === undefined) break
      after = { wakeAt: first.wakeAt, id: LAST_ID }
      const { base, priority } = parseQueueKey(first.wakeAt)
      const queue = this.#queue(base)
      if (queue.ttlSeconds === undefined) queue.ttlSeconds = await this.#readTtl(first.id)
      queue.mayHaveBegun = this.#window
      const level = this.#level(queue, priority)
      for (const partition of partitions) level.byPartition.set(partition, new PartitionRows())
    }
    for (const partition of partitions) this.#unread.delete(partition)
  }

  async #readTtl(id: string): Promise<number | null | undefined> {
    const [row] = await this.#parts.journal.readFacts([id])
    return row?.data == null ? undefined : (JSON.parse(row.data) as JobSubmitted).ttl_seconds
  }

  async #fill(queue: Queue): Promise<void> {
    if (this.#stopped) return
    const overdueBefore = this.#overdueBefore(queue)
    const ids: string[] = []
    for (const level of [...queue.levels]) {
      const room = this.#room(queue, level.priority)
      if (room > 0 && ids.length < PAGE) await this.#take(level, ids, room, null)
      else if (overdueBefore !== null) await this.#take(level, ids, PAGE, overdueBefore)
      if (level.isRead) queue.levels.splice(queue.levels.indexOf(level), 1)
    }
    if (queue.levels.length === 0) this.waiting.delete(queue)
    this.#armFor(queue, queue.oldest(this.#parts.partitions.ready))
    if (ids.length === 0) return
    this.#runAgain = true
    // Rows that were reset meanwhile return again what was taken from them.
    const missed = await this.#parts.begin([...new Set(ids)], queue)
    for (const id of missed)
      for (const level of queue.levels) level.byPartition.get(jobPartition(id))?.reset()
  }

  /** How many jobs of this priority may be loaded now. None while the store is the bottleneck: they would end in memory. */
  #room(queue: Queue, priority: number): number {
    if (this.#parts.isBehind() || this.#parts.clock.now() < this.#hold.until) return 0
    const limit = this.#limit
    const size = queue.inWindow(priority)
    return size * 2 <= limit ? Math.min(limit - size, PAGE) : 0
  }

  /** Ids with an earlier time belong to jobs that have expired. */
  #overdueBefore({ ttlSeconds }: Queue): number | null {
    return typeof ttlSeconds === "number" ? this.#parts.clock.now() - ttlSeconds * 1000 : null
  }

  /** Takes up to `count` ids in order; `before`: only those with an earlier time. */
  async #take(level: PriorityRows, ids: string[], count: number, before: number | null): Promise<void> {
    const end = ids.length + count
    while (ids.length < end) {
      await this.#readEmpty(level)
      const [first, second] = level.firstTwo(this.#parts.partitions.ready)
      if (first === null) return
      const until = second?.first ?? LAST_ID
      // A partition without ids is read before the others continue.
      while (ids.length < end && first.first !== undefined && first.first <= until) {
        if (before !== null && idTime(first.first) >= before) return
        ids.push(first.take())
      }
    }
  }

  async #readEmpty(level: PriorityRows): Promise<void> {
    const { journal, partitions } = this.#parts
    await Promise.all(
      [...level.byPartition].map(async ([partition, rows]) => {
        if (!partitions.owns(partition)) level.byPartition.delete(partition)
        if (!partitions.ready.has(partition)) return
        while (rows.first === undefined && !rows.isRead) {
          const { after } = rows
          rows.beginPage()
          const query = { partitions: [partition], after: { wakeAt: level.key, id: after }, at: level.key }
          const { jobs } = await journal.dueJobs({ ...query, limit: PAGE })
          // Reset meanwhile: there are rows before these.
          if (rows.after !== after) continue
          if (jobs.length === PAGE) rows.isRead = false
          rows.append(jobs.map(({ id }) => id))
        }
      }),
    )
  }

  #armFor({ ttlSeconds }: Queue, oldest: number | null): void {
    if (typeof ttlSeconds === "number" && oldest !== null) this.#arm(oldest + ttlSeconds * 1000 + 1)
  }

  #arm(at: number): void {
    if (this.#stopped || (this.#timer !== null && this.#timer.at <= at)) return
    this.#timer?.cancel()
    const cancel = atTime(this.#parts.clock, at, () => {
      this.#timer = null
      this.wake()
    })
    this.#timer = { at, cancel }
  }
}

/** How many jobs with one priority are in the window of a queue. */
export interface Place {
  readonly queue: Queue
  count: number
}

/** The jobs of one owner, workflow and time to live. */
export class Queue {
  readonly base: number
  /** Priorities with rows, highest first. */
  readonly levels: PriorityRows[] = []
  /** undefined: not known. */
  ttlSeconds: number | null | undefined
  /** So many of the rows that are read next may have been dispatched by an earlier owner of their partition. */
  mayHaveBegun = 0
  readonly #places = new Map<number, Place>()

  constructor(base: number) {
    this.base = base
  }

  get isIdle(): boolean {
    return this.levels.length === 0 && this.inWindow(Number.NEGATIVE_INFINITY) === 0
  }

  place(priority: number): Place {
    const known = this.#places.get(priority)
    if (known !== undefined) return known
    const made = { queue: this, count: 0 }
    this.#places.set(priority, made)
    return made
  }

  /** The jobs in the window with at least this priority. */
  inWindow(priority: number): number {
    let count = 0
    for (const [other, place] of this.#places) if (other >= priority) count += place.count
    return count
  }

  level(priority: number): PriorityRows {
    const at = this.levels.findIndex(level => level.priority <= priority)
    const found = this.levels[at]
    if (found?.priority === priority) return found
    const made = new PriorityRows(keyIn(this.base, priority), priority)
    this.levels.splice(at < 0 ? this.levels.length : at, 0, made)
    return made
  }

  /** When the first of the rows that were read was created; null: there is none. */
  oldest(ready: ReadonlySet<number>): number | null {
    let oldest: string | null = null
    for (const { byPartition } of this.levels)
      for (const [partition, { first }] of byPartition)
        if (first !== undefined && ready.has(partition) && (oldest === null || first < oldest)) oldest = first
    return oldest === null ? null : idTime(oldest)
  }
}

/** The rows of a queue with one priority. */
class PriorityRows {
  readonly key: number
  readonly priority: number
  /** By partition. */
  readonly byPartition = new Map<number, PartitionRows>()

  constructor(key: number, priority: number) {
    this.key = key
    this.priority = priority
  }

  /** Every row was taken. */
  get isRead(): boolean {
    for (const rows of this.byPartition.values()) if (!rows.isRead || rows.first !== undefined) return false
    return true
  }

  rows(partition: number): PartitionRows {
    const known = this.byPartition.get(partition)
    if (known !== undefined) return known
    const made = new PartitionRows()
    this.byPartition.set(partition, made)
    return made
  }

  /** Of the two partitions whose next ids are the lowest. */
  firstTwo(ready: ReadonlySet<number>): [PartitionRows | null, PartitionRows | null] {
    let [first, second]: [PartitionRows | null, PartitionRows | null] = [null, null]
    for (const [partition, rows] of this.byPartition) {
      if (rows.first === undefined || !ready.has(partition)) continue
      if (first === null || rows.first < first.first!) [first, second] = [rows, first]
      else if (second === null || rows.first < second.first!) second = rows
    }
    return [first, second]
  }

  reset(): void {
    for (const rows of this.byPartition.values()) rows.reset()
  }
}

/** The rows of a level in one partition: the ids of the next page, and how far they were read. */
class PartitionRows {
  after = FIRST_ID
  /** There is nothing more in the store after `after`. */
  isRead = false
  #ids: readonly string[] = []
  #next = 0
  /** Rows that were stored while a page is being read: the page may lack them and contain later ones. null: no page is being read. */
  #storedSince: string[] | null = null

  get first(): string | undefined {
    return this.#ids[this.#next]
  }

  take(): string {
    return this.#ids[this.#next++]!
  }

  beginPage(): void {
    this.isRead = true
    this.#storedSince = []
  }

  append(ids: readonly string[]): void {
    this.#ids = ids
    this.#next = 0
    this.after = ids.at(-1) ?? this.after
    const storedSince = this.#storedSince ?? []
    this.#storedSince = null
    for (const id of storedSince) this.added(id)
  }

  /**
   * A row was stored. It may have been read already, as soon as the store had it. Ids of other processes, and of jobs that
   * were paused, are not in order: if one was not read, all is read again.
   */
  added(id: string): void {
    this.#storedSince?.push(id)
    if (id > this.after) this.isRead = false
    else if (!this.#ids.includes(id)) this.reset()
  }

  reset(): void {
    this.#ids = []
    this.#next = 0
    this.#storedSince = null
    // A value of its own each time: a read that is in flight must notice.
    this.after = this.after === FIRST_ID ? SECOND_ID : FIRST_ID
    this.isRead = false
  }
}
