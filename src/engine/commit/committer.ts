import { ARTIFACT_MARK, artifactsInText, heldArtifact } from "../../core/artifacts.ts"
import type { Effect } from "../../core/effects.ts"
import type { Fact } from "../../core/facts.ts"
import { jobPhase } from "../../core/state.ts"
import { encodeMetrics, jobMetrics } from "../../core/statistics/job-metrics.ts"
import { failpoint } from "../../failpoints.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { NewFire, ScheduleChange } from "../../journal/port/schedules.ts"
import type { Clock } from "../clock.ts"
import { EngineMetrics } from "../metrics.ts"
import type { LiveJob } from "../owner/live-job.ts"
import {
  Batch,
  type ClosedBatch,
  encodeFact,
  type Holds,
  type OwnedPartition,
  partitionMoved,
  type QueuedSubmission,
  queuedRow,
  type Waiter,
  without,
  withoutPartition,
} from "./batch.ts"
import { OperationRows } from "./operation-rows.ts"
import { type AppendOutcome, AppendSender, type AppendSenderParts, type Availability } from "./sender.ts"

/**
 * Every partition commits in one lane, and each lane has one append in flight. With two lanes this process decides for
 * one half of the partitions while the database commits the other half; with one lane they would alternate. Order and
 * durability are guaranteed within a partition only, which is all that the engine needs.
 */
export class Committer {
  readonly lanes: readonly AppendLane[]
  readonly #store: Availability
  /** Lanes whose append fails because the store is unavailable. */
  readonly #unavailableLanes = new Set<number>()

  constructor(parts: {
    journal: Journal
    clock: Clock
    store: Availability
    owned: ReadonlyMap<number, OwnedPartition>
    slotLeaseMs: number
    metrics?: EngineMetrics
  }) {
    const { appendLanes } = parts.journal.capabilities
    const metrics = parts.metrics ?? new EngineMetrics()
    this.#store = parts.store
    this.lanes = Array.from({ length: appendLanes }, (_, lane) => {
      const store = {
        unavailable: (error: unknown, tries: number) => this.#laneUnavailable(lane, error, tries),
        available: () => this.#laneAvailable(lane),
      }
      return new AppendLane({ ...parts, store, metrics })
    })
  }

  lane(partition: number): AppendLane {
    return this.lanes[partition % this.lanes.length]!
  }

  /** Resolves when everything recorded of the job is durable. Rejects if this engine loses the partition before that. */
  durable(job: { readonly partition: number; readonly id: string }): Promise<void> {
    return this.lane(job.partition).durable(job)
  }

  /** Resolves when nothing waits to be stored. */
  async whenIdle(): Promise<void> {
    for (let busy = this.#busyLanes(); busy.length > 0; busy = this.#busyLanes())
      await Promise.allSettled(busy.map(lane => lane.durable({ partition: -1, id: "" })))
  }

  #busyLanes(): readonly AppendLane[] {
    return this.lanes.filter(lane => !lane.isIdle)
  }

  /** Stops retrying appends that fail. */
  stop(): void {
    for (const lane of this.lanes) lane.stop()
  }

  /** The store has answered something else: appends that wait for their next try are sent now. */
  retryNow(): void {
    for (const lane of this.#unavailableLanes) this.lanes[lane]!.retryNow()
  }

  /** Reports one outage of the store once, not once per lane. */
  #laneUnavailable(lane: number, error: unknown, tries: number): void {
    this.#unavailableLanes.add(lane)
    if (lane === Math.min(...this.#unavailableLanes)) this.#store.unavailable(error, tries)
  }

  #laneAvailable(lane: number): void {
    this.#unavailableLanes.delete(lane)
    if (this.#unavailableLanes.size === 0) this.#store.available()
    this.retryNow()
  }
}

/** A batch is encoded in one piece: larger batches gain nothing and delay all batches behind them. */
const BATCH_BYTES = 2 * 1024 * 1024
const BATCH_FACTS = 5000
const FACT_OVERHEAD = 100

/** Were the references of the fact checked before it was decided on? Lists of `for_each` and inputs of ticks are rendered without a check. */
function isChecked(fact: Fact): boolean {
  return fact.type !== "node_expanded" && (fact.type !== "job_submitted" || fact.schedule === undefined)
}

/** A batch whose append has an outcome. */
export interface CommittedBatch {
  readonly batch: Batch
  /** Partitions that another engine owns now: nothing of them was stored. */
  readonly fenced: readonly number[]
  /** Jobs whose facts the database rejects: nothing of them was stored. */
  readonly refused: readonly { readonly job: LiveJob; readonly error: unknown }[]
}

/**
 * Group commit for some partitions. While one append is in flight the next batch collects: under light load one commit
 * per fact with no added wait, under heavy load a thousand facts per commit. There is no timer and no setting.
 *
 * 1. One append is in flight: within a partition seq order is commit order.
 * 2. `next` returns a batch once the outcome of its append is known (`sender.ts`). Only then its waiters are answered and
 *    its effects performed, in the order of their causes.
 */
export class AppendLane {
  readonly #clock: Clock
  readonly #owned: ReadonlyMap<number, OwnedPartition>
  readonly #sender: AppendSender
  readonly #slotLeaseMs: number
  #open = new Batch()
  readonly #closed: { readonly batch: Batch; stored: ClosedBatch }[] = []
  #inFlight: Batch | null = null
  #isInOneCommit = false
  /** Ends the wait of `next` for work; null: `next` does not wait. */
  #start: (() => void) | null = null

  constructor(
    parts: AppendSenderParts & { owned: ReadonlyMap<number, OwnedPartition>; slotLeaseMs: number },
  ) {
    this.#clock = parts.clock
    this.#owned = parts.owned
    this.#slotLeaseMs = parts.slotLeaseMs
    this.#sender = new AppendSender(parts)
  }

  /** A closed batch waits for the append in flight: the store is the bottleneck. */
  get isBehind(): boolean {
    return this.#closed.length > 0
  }

  /** The effect is performed once the open batch is durable. */
  addEffect(job: LiveJob, effect: Effect): void {
    this.#open.effects.push(effect)
    this.#open.effectJobs.push(job)
    // The row of a job that has ended repeats its output.
    if (effect.type === "end") this.#open.bytes += job.size
  }

  /** The rows of the open batch for operations at providers. */
  get operations(): OperationRows {
    this.#open.operations ??= new OperationRows(this.#slotLeaseMs)
    return this.#open.operations
  }

  record(job: LiveJob, fact: Fact, outputText?: string): void {
    const owned = this.#owned.get(job.partition)
    if (owned === undefined || job.evicted) throw partitionMoved(job.partition)
    const batch = this.#open
    const data = encodeFact(fact, outputText)
    if (data.includes(ARTIFACT_MARK)) this.#holdNew(job, data, isChecked(fact))
    job.seq = owned.nextSeq++
    const phase = jobPhase(job.state)
    if (phase !== job.phase || job.turnSeq === 0) {
      job.turnSeq = job.seq
      job.phase = phase
    }
    job.at = fact.at
    job.size += data.length
    batch.facts.push({
      partition: job.partition,
      seq: job.seq,
      jobId: job.id,
      at: fact.at,
      type: fact.type,
      data,
    })
    batch.epochs.set(job.partition, owned.epoch)
    batch.bytes += data.length + FACT_OVERHEAD
    if (!batch.jobs.has(job)) {
      batch.jobs.add(job)
      job.pendingBatches++
    }
    if (job.plan.providers.length > 0) this.operations.addFact(job, fact)
    this.#schedule()
  }

  /** The fact recorded last has ended the job. */
  recordEnd(job: LiveJob): void {
    const { state, partition, seq } = job
    const { owner, workflow, workflowVersion: version } = state
    const metrics = jobMetrics(state)
    job.stats = encodeMetrics(metrics, seq)
    this.#open.ends.push({
      jobId: job.id,
      partition,
      owner,
      workflow,
      version,
      at: state.finishedAt!,
      metrics,
    })
  }

  /** A new job that waits as a row: no state of it is in memory. */
  recordQueued(job: QueuedSubmission): void {
    const { id: jobId, partition, fact } = job
    const owned = this.#owned.get(partition)
    if (owned === undefined) throw partitionMoved(partition)
    const batch = this.#open
    const data = encodeFact(fact)
    if (data.includes(ARTIFACT_MARK))
      this.#holdArtifacts({ id: jobId, partition }, fact.owner, artifactsInText(data))
    const stored = { partition, seq: owned.nextSeq++, jobId, at: fact.at, type: fact.type, data }
    batch.facts.push(stored)
    batch.queued.push(queuedRow(job, stored))
    batch.epochs.set(partition, owned.epoch)
    batch.bytes += data.length + FACT_OVERHEAD
    this.#schedule()
  }

  /**
   * What an earlier fact refers to is held already: jobs pass references on. A fact that was not checked may refer to content that
   * is not there, or not the owner's: a later fact with the same reference is checked, and holds it.
   */
  #holdNew(job: LiveJob, data: string, wasChecked: boolean): void {
    const found = artifactsInText(data)
    if (found.length === 0) return
    job.artifacts ??= new Set()
    const known = job.artifacts
    this.#holdArtifacts(
      job,
      job.state.owner,
      found.filter(hash => !known.has(hash)),
    )
    if (wasChecked) for (const hash of found) known.add(hash)
  }

  /** The job holds the artifacts that its facts refer to. */
  #holdArtifacts(
    { id: by, partition }: Pick<LiveJob, "id" | "partition">,
    owner: string,
    hashes: readonly string[],
  ): void {
    if (hashes.length === 0) return
    const held = hashes.map(hash => ({ partition, by, held: heldArtifact(owner, hash) }))
    this.hold({ held, definitions: [] })
  }

  /** What the fork refers to is stored with its first fact, which was recorded just before. */
  hold({ held, definitions }: Holds): void {
    this.#open.holds ??= { held: [], definitions: [] }
    this.#open.holds.held.push(...held)
    this.#open.holds.definitions.push(...definitions)
    for (const { definition } of definitions) this.#open.bytes += definition.length
  }

  /** Ticks of a schedule that were decided; the jobs that they start were recorded just before. */
  recordTicks(change: ScheduleChange, fires: readonly NewFire[]): void {
    const { partition } = change
    const owned = this.#owned.get(partition)
    if (owned === undefined) throw partitionMoved(partition)
    const batch = this.#open
    batch.ticks ??= { schedules: [], fires: [] }
    batch.ticks.schedules.push(change)
    batch.ticks.fires.push(...fires)
    batch.epochs.set(partition, owned.epoch)
    batch.bytes += FACT_OVERHEAD * (1 + fires.length)
    this.#schedule()
  }

  /** Stores everything that `decide` does to jobs of this lane together or not at all. */
  inOneCommit(decide: () => void): void {
    this.closeIfFull()
    this.#isInOneCommit = true
    try {
      decide()
    } finally {
      this.#isInOneCommit = false
    }
  }

  /** Called before the facts of a command: its facts and the answer to its sender are one commit. */
  closeIfFull(): void {
    if (this.#isInOneCommit) return
    const { bytes, facts } = this.#open
    if (bytes > BATCH_BYTES || facts.length >= BATCH_FACTS) this.#closeOpen()
  }

  answer(job: { partition: number; jobId: string }, messageId: number, answer: string): void {
    const owned = this.#owned.get(job.partition)
    if (owned === undefined) return
    this.#open.answers.push({ messageId, answer, ...job })
    this.#open.epochs.set(job.partition, owned.epoch)
    this.#schedule()
  }

  /** Resolves when everything recorded so far is durable. Rejects if this engine loses the partition before that. */
  durable(job: { readonly partition: number; readonly id: string }): Promise<void> {
    return new Promise((resolve, reject) => this.whenDurable(job, { resolve, reject }))
  }

  /** The same with a callback. */
  whenDurable(
    { partition, id: jobId }: { readonly partition: number; readonly id: string },
    { resolve, reject }: Pick<Waiter, "resolve" | "reject">,
  ): void {
    const batch = this.#open.isEmpty ? (this.#closed.at(-1)?.batch ?? this.#inFlight) : this.#open
    if (batch === null) resolve()
    else batch.waiters.push({ partition, epoch: this.#owned.get(partition)?.epoch, jobId, resolve, reject })
  }

  /**
   * The memory of this partition is discarded: decisions made on it must never be stored. They carry the old epoch, but
   * this engine may take the partition again before the outcome of the batch is known.
   */
  forget(partition: number): void {
    this.#open.forget(partition, partitionMoved(partition))
    for (const closed of this.#closed) {
      closed.batch.forget(partition, partitionMoved(partition))
      closed.stored = withoutPartition(closed.stored, partition)
    }
  }

  /**
   * Writes the job's row with the next batch, even if no fact of the job follows. With `error` the job is quarantined and
   * the row stores the reason; with null the row stores the job's state.
   */
  writeRow(job: LiveJob, error: string | null): void {
    const owned = this.#owned.get(job.partition)
    if (owned === undefined) return
    const batch = this.#open
    // The store ignores a row unless its seq is higher than the stored one.
    job.seq = owned.nextSeq++
    batch.rows.set(job, error)
    batch.epochs.set(job.partition, owned.epoch)
    if (error === null && !batch.jobs.has(job)) {
      batch.jobs.add(job)
      job.pendingBatches++
    }
    this.#schedule()
  }

  /** Removes a new job that was never sent to the store and cannot continue. Its waiters are rejected with the error. */
  withdraw(job: LiveJob, error: unknown): void {
    this.#open.drop(job.id)
    for (const waiter of this.#open.waiters) if (waiter.jobId === job.id) waiter.reject(error)
  }

  get isIdle(): boolean {
    return this.#inFlight === null && this.#closed.length === 0 && this.#open.isEmpty
  }

  /** Stops retrying appends that fail. */
  stop(): void {
    this.#sender.stop()
  }

  /** Another lane reached the store: retry now. */
  retryNow(): void {
    this.#sender.retryNow()
  }

  /** Deferred, so that other facts of this turn of the event loop join the same commit. */
  #schedule(): void {
    if (this.#start === null) return
    setImmediate(this.#start)
    this.#start = null
  }

  async #whenWork(): Promise<void> {
    do
      await new Promise<void>(resolve => {
        this.#start = resolve
        if (!this.#open.isEmpty || this.isBehind) this.#schedule()
      })
    while (this.#open.isEmpty && !this.isBehind)
  }

  #closeOpen(): void {
    const batch = this.#open
    this.#open = new Batch()
    this.#closed.push({ batch, stored: batch.close(this.#clock.now()) })
  }

  /**
   * Sends the next batch, as soon as there is one; resolves when its outcome is known. The caller discards what was not
   * stored, then calls `release`. null: the lane is stopped.
   */
  async next(): Promise<CommittedBatch | null> {
    await this.#whenWork()
    if (!this.isBehind) this.#closeOpen()
    const { batch, stored } = this.#closed.shift()!
    this.#inFlight = batch
    failpoint("append.before")
    let outcome: AppendOutcome
    try {
      outcome = await this.#sender.send(stored)
    } catch (error) {
      const batches = [batch, ...this.#closed.map(closed => closed.batch), this.#open]
      for (const waiter of batches.flatMap(({ waiters }) => waiters)) waiter.reject(error)
      return null
    }
    failpoint("append.after")
    return this.#settle(batch, outcome)
  }

  #settle(batch: Batch, { held, refused }: AppendOutcome): CommittedBatch {
    for (const job of batch.jobs) job.pendingBatches--
    const fenced: number[] = []
    for (const [partition, epoch] of batch.epochs)
      if (!held.has(partition) && this.#owned.get(partition)?.epoch === epoch) fenced.push(partition)
    for (const { jobId, error } of refused) this.#dropRefused(batch, jobId, error)
    const errors = new Map(refused.map(({ jobId, error }) => [jobId, error]))
    const jobs = errors.size === 0 ? [] : [...batch.jobs].filter(({ id }) => errors.has(id))
    return { batch, fenced, refused: jobs.map(job => ({ job, error: errors.get(job.id) })) }
  }

  /** The database will never accept this job's facts: facts that build on them must not be sent either. */
  #dropRefused(batch: Batch, jobId: string, error: unknown): void {
    batch.refused.add(jobId)
    for (const { waiters } of [batch, ...this.#closed.map(closed => closed.batch), this.#open])
      for (const waiter of waiters) if (waiter.jobId === jobId) waiter.reject(error)
    this.#open.drop(jobId)
    for (const closed of this.#closed) {
      closed.stored = without(closed.stored, jobId)
      closed.batch.dropEnds(jobId)
    }
  }

  /** Answers the waiters of the batch that `next` returned. From now on it counts as durable. */
  release({ waiters }: Batch): void {
    this.#inFlight = null
    for (const waiter of waiters) {
      const epoch = this.#owned.get(waiter.partition)?.epoch
      if (epoch !== undefined && epoch === waiter.epoch) waiter.resolve()
      else waiter.reject(partitionMoved(waiter.partition))
    }
  }
}
