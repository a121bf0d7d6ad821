import type { AttemptRef } from "../../core/commands.ts"
import type { Effects } from "../../core/effects.ts"
import type { Fact } from "../../core/facts.ts"
import { findTask } from "../../core/item-list.ts"
import { failpoint } from "../../failpoints.ts"
import type { Clock } from "../clock.ts"
import { encodeFact, type LiveJob } from "../owner/live-job.ts"
import { ABORT, Batch, type ClosedBatch, DISPATCH, END, without, withoutPartition } from "./batch.ts"
import type { EarlyDispatch } from "./early-dispatch.ts"
import { OperationRows } from "./operation-rows.ts"
import { type OwnedPartition, partitionMoved } from "./owned-partition.ts"
import { type AppendOutcome, AppendSender, type AppendSenderParts } from "./sender.ts"

/**
 * Group commit for some partitions. While one append is in flight the next batch collects: under light load one commit
 * per fact with no added wait, under heavy load a thousand facts per commit. There is no timer and no setting.
 *
 * 1. One append is in flight: within a partition seq order is commit order.
 * 2. Effects and answers of a batch are performed after it is durable, in the order of their causes. Until the outcome
 *    of an append is known (`sender.ts`) none of them is performed. Nodes that only compute have no effect (`early-dispatch.ts`).
 */
export interface LaneEvents {
  /** Does this node only compute, in this process? */
  isPure(job: LiveJob, node: number): boolean
  dispatch(job: LiveJob, attemptRef: AttemptRef): void
  /** Is the attempt with a worker, or on its way to one? */
  isDispatched(job: LiveJob, attemptRef: AttemptRef): boolean
  /** How long the row of an abandoned submission counts as a slot of its provider. */
  readonly slotLeaseMs: number
  abort(job: LiveJob, attemptRef: AttemptRef): void
  ended(job: LiveJob): void
  /** All facts of these jobs so far are durable. */
  durable(jobs: Iterable<LiveJob>): void
  /** Operations at providers began and ended, durably. */
  operations(rows: OperationRows): void
  /** Another engine owns this partition. Its jobs are already marked as evicted. */
  fenced(partition: number): void
  /** The database rejects the facts of this job. */
  refused(job: LiveJob, error: unknown): void
}

/** A batch is encoded in one piece: larger batches gain nothing and delay all batches behind them. */
const BATCH_BYTES = 2 * 1024 * 1024
const BATCH_FACTS = 5000
const FACT_OVERHEAD = 100

export class AppendLane {
  readonly #clock: Clock
  readonly #events: LaneEvents
  readonly #owned: ReadonlyMap<number, OwnedPartition>
  readonly #sender: AppendSender
  readonly #earlyDispatch: EarlyDispatch
  #open = new Batch()
  readonly #closed: { readonly batch: Batch; stored: ClosedBatch }[] = []
  #inFlight: Batch | null = null
  #scheduled = false

  constructor(
    parts: AppendSenderParts & {
      events: LaneEvents
      owned: ReadonlyMap<number, OwnedPartition>
      earlyDispatch: EarlyDispatch
    },
  ) {
    this.#clock = parts.clock
    this.#events = parts.events
    this.#owned = parts.owned
    this.#sender = new AppendSender(parts)
    this.#earlyDispatch = parts.earlyDispatch
  }

  /** For `apply`: the effects of a fact of this job wait in the open batch, except dispatches that may begin early. */
  effectsFor(job: LiveJob): Effects {
    this.#sink.job = job
    return this.#sink
  }

  readonly #sink: Effects & { job: LiveJob } = {
    job: null as unknown as LiveJob,
    dispatch: (node, attempt, item) => {
      const { job } = this.#sink
      if (this.#mayBeginEarly(job, node, attempt))
        this.#dispatchSoon(job, { node, attempt, ...itemField(item) })
      else this.#open.effect(DISPATCH, job, node, attempt, item)
    },
    abort: (node, attempt, item) => this.#open.effect(ABORT, this.#sink.job, node, attempt, item),
    unanswered: (node, attempt, item) => {
      const { job } = this.#sink
      const attemptRef = { node, attempt, ...itemField(item) }
      if (hasNoAnswer(job, attemptRef) || this.#events.isDispatched(job, attemptRef))
        this.#operations().unseen(job, attemptRef, this.#clock.now())
    },
    abandon: (node, _, item) =>
      this.#operations().abandon(this.#sink.job, { node, ...itemField(item) }, this.#clock.now()),
    operationFailed: (node, item) =>
      this.#operations().failed(this.#sink.job, { node, ...itemField(item) }, this.#clock.now()),
    end: () => {
      this.#open.effect(END, this.#sink.job, -1, 0)
      // The row of a job that has ended repeats its output.
      this.#open.bytes += this.#sink.job.size
    },
  }

  #mayBeginEarly(job: LiveJob, node: number, attempt: number): boolean {
    // The abort of the earlier attempt waits in a batch and must be performed first.
    if (attempt > 1) return false
    // A closed batch is waiting for the append in flight: the store is the bottleneck, so do not add to it.
    return this.#closed.length === 0 && this.#events.isPure(job, node) && this.#earlyDispatch.take()
  }

  /** Deferred to a microtask: the facts that make the node ready are still being applied. */
  #dispatchSoon(job: LiveJob, attemptRef: AttemptRef): void {
    queueMicrotask(() => this.#events.dispatch(job, attemptRef))
  }

  record(job: LiveJob, fact: Fact, outputText?: string): void {
    const owned = this.#owned.get(job.partition)
    if (owned === undefined || job.evicted) throw partitionMoved(job.partition)
    const batch = this.#open
    const data = encodeFact(fact, outputText)
    job.seq = owned.nextSeq++
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
    if (job.plan.providers.length > 0) this.#operations().addFact(job, fact)
    this.#schedule()
  }

  #operations(): OperationRows {
    this.#open.operations ??= new OperationRows(this.#events.slotLeaseMs)
    return this.#open.operations
  }

  /** Called before the facts of a command: its facts and the answer to its sender are one commit. */
  closeIfFull(): void {
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
    const batch = this.#open.isEmpty ? (this.#closed.at(-1)?.batch ?? this.#inFlight) : this.#open
    if (batch === null) return Promise.resolve()
    const epoch = this.#owned.get(job.partition)?.epoch
    return new Promise((resolve, reject) =>
      batch.waiters.push({ partition: job.partition, epoch, jobId: job.id, resolve, reject }),
    )
  }

  /**
   * The memory of this partition is discarded: decisions made on it must never be stored. They carry the old epoch,
   * but this engine may take the partition again before the batch is outcome.
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

  #schedule(): void {
    if (this.#scheduled || this.#inFlight !== null) return
    this.#scheduled = true
    // Deferred, so that other facts of this turn of the event loop join the same commit.
    setImmediate(() => {
      this.#scheduled = false
      void this.#sendNext()
    })
  }

  #closeOpen(): void {
    const batch = this.#open
    this.#open = new Batch()
    this.#closed.push({ batch, stored: batch.close(this.#clock.now()) })
  }

  async #sendNext(): Promise<void> {
    if (this.#inFlight !== null) return
    if (this.#closed.length === 0) {
      if (this.#open.isEmpty) return
      this.#closeOpen()
    }
    const { batch, stored } = this.#closed.shift()!
    this.#inFlight = batch
    failpoint("append.before")
    let outcome: AppendOutcome
    try {
      outcome = await this.#sender.send(stored)
    } catch (error) {
      const batches = [batch, ...this.#closed.map(closed => closed.batch), this.#open]
      for (const waiter of batches.flatMap(({ waiters }) => waiters)) waiter.reject(error)
      return
    }
    failpoint("append.after")
    this.#settleOutcome(batch, outcome)
    this.#inFlight = null
    failpoint("ack.before")
    this.#performEffects(batch)
    failpoint("ack.after")
    if (this.#closed.length > 0 || !this.#open.isEmpty) this.#schedule()
  }

  /** Discards fenced partitions and rejected jobs before any effect of the batch is performed. */
  #settleOutcome(batch: Batch, outcome: AppendOutcome): void {
    for (const job of batch.jobs) job.pendingBatches--
    for (const [partition, epoch] of batch.epochs)
      if (!outcome.held.has(partition) && this.#owned.get(partition)?.epoch === epoch)
        this.#events.fenced(partition)
    for (const { jobId, error } of outcome.refused) this.#dropRefused(batch, jobId, error)
  }

  /** The database will never accept this job's facts: facts that build on them must not be sent either. */
  #dropRefused(batch: Batch, jobId: string, error: unknown): void {
    for (const { waiters } of [batch, ...this.#closed.map(closed => closed.batch), this.#open])
      for (const waiter of waiters) if (waiter.jobId === jobId) waiter.reject(error)
    this.#open.drop(jobId)
    for (const closed of this.#closed) closed.stored = without(closed.stored, jobId)
    for (const job of batch.jobs) if (job.id === jobId) this.#events.refused(job, error)
  }

  #performEffects(batch: Batch): void {
    for (const waiter of batch.waiters) {
      const epoch = this.#owned.get(waiter.partition)?.epoch
      if (epoch !== undefined && epoch === waiter.epoch) waiter.resolve()
      else waiter.reject(partitionMoved(waiter.partition))
    }
    const { effectKinds, effectJobs } = batch
    for (let i = 0; i < effectKinds.length; i++) {
      const job = effectJobs[i]!
      if (job.evicted) continue
      if (effectKinds[i] === DISPATCH) this.#events.dispatch(job, batch.attemptRef(i))
      else if (effectKinds[i] === ABORT) this.#events.abort(job, batch.attemptRef(i))
      else this.#events.ended(job)
    }
    this.#events.durable(batch.jobs)
    if (batch.operations !== null) this.#events.operations(batch.operations)
  }
}

/** Did an earlier attempt end without an answer from the provider? */
function hasNoAnswer({ state }: LiveJob, attemptRef: AttemptRef): boolean {
  const place = findTask(state, attemptRef)
  return place?.state.unfollowed.get(place.position) === null
}

function itemField(item: number | undefined): { readonly item?: number } {
  return item === undefined ? {} : { item }
}
