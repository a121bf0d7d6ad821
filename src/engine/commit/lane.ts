import type { AttemptRef } from "../../core/commands.ts"
import type { Effects } from "../../core/effects.ts"
import type { Fact } from "../../core/facts.ts"
import { placeOf } from "../../core/item-list.ts"
import { failpoint } from "../../failpoints.ts"
import type { Clock } from "../clock.ts"
import { encodeFact, type LiveJob } from "../owner/live-job.ts"
import { ABORT, Batch, type ClosedBatch, DISPATCH, END, without, withoutPartition } from "./batch.ts"
import type { EarlyDispatch } from "./early-dispatch.ts"
import { OperationRows } from "./operation-rows.ts"
import { type OwnedPartition, partitionMoved } from "./owned-partition.ts"
import { type AppendOutcome, AppendSender, type SendingParts } from "./sender.ts"

/**
 * Group commit for some partitions. While one append is in flight the next batch collects: under light load one commit
 * per fact with no added wait, under heavy load a thousand facts per commit. No timer, no knob.
 *
 * 1. One append in flight: within a partition seq order is commit order.
 * 2. Effects and answers of a batch happen after it is durable, in the order they were caused. Until the outcome of an
 *    append is known (`sender.ts`) nothing is acted on. Nodes that only compute have no effect (`early-dispatch.ts`).
 */
export interface LaneEvents {
  /** Does this node only compute, in this process? */
  isPure(job: LiveJob, node: number): boolean
  dispatch(job: LiveJob, attempted: AttemptRef): void
  /** Is the attempt with a worker, or on its way to one? */
  isHandedOut(job: LiveJob, attempted: AttemptRef): boolean
  /** How long what is left of an operation counts as a slot of its provider. */
  readonly slotLeaseMs: number
  abort(job: LiveJob, attempted: AttemptRef): void
  ended(job: LiveJob): void
  /** All facts of these jobs so far are durable. */
  durable(jobs: Iterable<LiveJob>): void
  /** Operations at providers began and ended, durably. */
  operations(rows: OperationRows): void
  /** Another engine has this partition. Its jobs are already marked gone. */
  fenced(partition: number): void
  /** The database refuses what this job wants to store. */
  refused(job: LiveJob, error: unknown): void
}

/** Larger batches gain nothing and hold up everybody behind them: they are encoded in one piece. */
const BATCH_BYTES = 2 * 1024 * 1024
const BATCH_FACTS = 5000
const FACT_OVERHEAD = 100

export class AppendLane {
  readonly #clock: Clock
  readonly #events: LaneEvents
  readonly #holdings: ReadonlyMap<number, OwnedPartition>
  readonly #sending: AppendSender
  readonly #headStart: EarlyDispatch
  #open = new Batch()
  readonly #closed: { readonly batch: Batch; stored: ClosedBatch }[] = []
  #flight: Batch | null = null
  #scheduled = false

  constructor(
    parts: SendingParts & {
      events: LaneEvents
      holdings: ReadonlyMap<number, OwnedPartition>
      headStart: EarlyDispatch
    },
  ) {
    this.#clock = parts.clock
    this.#events = parts.events
    this.#holdings = parts.holdings
    this.#sending = new AppendSender(parts)
    this.#headStart = parts.headStart
  }

  /** For `apply`: what follows from a fact of this job waits in the open batch, unless it may begin early. */
  effectsFor(job: LiveJob): Effects {
    this.#sink.job = job
    return this.#sink
  }

  readonly #sink: Effects & { job: LiveJob } = {
    job: null as unknown as LiveJob,
    dispatch: (node, attempt, item) => {
      const { job } = this.#sink
      if (this.#beginsEarly(job, node, attempt)) this.#dispatchSoon(job, { node, attempt, ...itemOf(item) })
      else this.#open.effect(DISPATCH, job, node, attempt, item)
    },
    abort: (node, attempt, item) => this.#open.effect(ABORT, this.#sink.job, node, attempt, item),
    unanswered: (node, attempt, item) => {
      const { job } = this.#sink
      const attempted = { node, attempt, ...itemOf(item) }
      if (hasNoAnswer(job, attempted) || this.#events.isHandedOut(job, attempted))
        this.#operations().unseen(job, attempted, this.#clock.now())
    },
    abandon: (node, _, item) =>
      this.#operations().abandon(this.#sink.job, { node, ...itemOf(item) }, this.#clock.now()),
    operationFailed: (node, item) =>
      this.#operations().failed(this.#sink.job, { node, ...itemOf(item) }, this.#clock.now()),
    end: () => {
      this.#open.effect(END, this.#sink.job, -1, 0)
      // The row of a job that has ended repeats its output.
      this.#open.bytes += this.#sink.job.size
    },
  }

  #beginsEarly(job: LiveJob, node: number, attempt: number): boolean {
    // The word that takes an earlier attempt back waits in a batch, and goes first.
    if (attempt > 1) return false
    // With a batch that waits for its turn there is more to store than the store can take.
    return this.#closed.length === 0 && this.#events.isPure(job, node) && this.#headStart.take()
  }

  /** Not now: the facts that make it ready are being applied. */
  #dispatchSoon(job: LiveJob, attempted: AttemptRef): void {
    queueMicrotask(() => this.#events.dispatch(job, attempted))
  }

  record(job: LiveJob, fact: Fact, outputText?: string): void {
    const holding = this.#holdings.get(job.partition)
    if (holding === undefined || job.evicted) throw partitionMoved(job.partition)
    const batch = this.#open
    const data = encodeFact(fact, outputText)
    job.seq = holding.nextSeq++
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
    batch.epochs.set(job.partition, holding.epoch)
    batch.bytes += data.length + FACT_OVERHEAD
    if (!batch.jobs.has(job)) {
      batch.jobs.add(job)
      job.pendingBatches++
    }
    if (job.plan.providers.length > 0) this.#operations().note(job, fact)
    this.#schedule()
  }

  #operations(): OperationRows {
    this.#open.operations ??= new OperationRows(this.#events.slotLeaseMs)
    return this.#open.operations
  }

  /** Called before a command's facts: they, and the answer to whoever sent it, are one commit. */
  closeIfFull(): void {
    const { bytes, facts } = this.#open
    if (bytes > BATCH_BYTES || facts.length >= BATCH_FACTS) this.#closeOpen()
  }

  answer(job: { partition: number; jobId: string }, messageId: number, answer: string): void {
    const holding = this.#holdings.get(job.partition)
    if (holding === undefined) return
    this.#open.answers.push({ messageId, answer, ...job })
    this.#open.epochs.set(job.partition, holding.epoch)
    this.#schedule()
  }

  /** Resolves when everything recorded so far is durable; at once if it is. Rejects if the partition is lost meanwhile. */
  durable(job: { readonly partition: number; readonly id: string }): Promise<void> {
    const batch = this.#open.isEmpty ? (this.#closed.at(-1)?.batch ?? this.#flight) : this.#open
    if (batch === null) return Promise.resolve()
    const epoch = this.#holdings.get(job.partition)?.epoch
    return new Promise((resolve, reject) =>
      batch.waiters.push({ partition: job.partition, epoch, jobId: job.id, resolve, reject }),
    )
  }

  /**
   * The memory of this partition is thrown away: what was decided on it must never be stored. It carries the epoch of
   * that time, but this engine may take the partition again before the batch is sent.
   */
  forget(partition: number): void {
    this.#open.forget(partition, partitionMoved(partition))
    for (const closed of this.#closed) {
      closed.batch.forget(partition, partitionMoved(partition))
      closed.stored = withoutPartition(closed.stored, partition)
    }
  }

  /**
   * Writes the job's row with the next batch, even if no fact of it follows. `error`: the job is quarantined, and its
   * row says why; null: the row says what its state is.
   */
  writeRow(job: LiveJob, error: string | null): void {
    const holding = this.#holdings.get(job.partition)
    if (holding === undefined) return
    const batch = this.#open
    // A row is written only with a higher seq than it has.
    job.seq = holding.nextSeq++
    batch.rows.set(job, error)
    batch.epochs.set(job.partition, holding.epoch)
    if (error === null && !batch.jobs.has(job)) {
      batch.jobs.add(job)
      job.pendingBatches++
    }
    this.#schedule()
  }

  /** A new job that cannot go on, and was not sent to the store yet, has never been; whoever waits for it is told why. */
  withdraw(job: LiveJob, error: unknown): void {
    this.#open.drop(job.id)
    for (const waiter of this.#open.waiters) if (waiter.jobId === job.id) waiter.reject(error)
  }

  get isIdle(): boolean {
    return this.#flight === null && this.#closed.length === 0 && this.#open.isEmpty
  }

  /** Gives up on appends that do not come through. */
  stop(): void {
    this.#sending.stop()
  }

  /** Others get through: no need to wait any longer. */
  hurry(): void {
    this.#sending.hurry()
  }

  #schedule(): void {
    if (this.#scheduled || this.#flight !== null) return
    this.#scheduled = true
    // Not now: whatever else this turn of the loop brings joins the same commit.
    setImmediate(() => {
      this.#scheduled = false
      void this.#fly()
    })
  }

  #closeOpen(): void {
    const batch = this.#open
    this.#open = new Batch()
    this.#closed.push({ batch, stored: batch.close(this.#clock.now()) })
  }

  async #fly(): Promise<void> {
    if (this.#flight !== null) return
    if (this.#closed.length === 0) {
      if (this.#open.isEmpty) return
      this.#closeOpen()
    }
    const { batch, stored } = this.#closed.shift()!
    this.#flight = batch
    failpoint("append.before")
    let sent: AppendOutcome
    try {
      sent = await this.#sending.send(stored)
    } catch (error) {
      const given = [batch, ...this.#closed.map(closed => closed.batch), this.#open]
      for (const waiter of given.flatMap(({ waiters }) => waiters)) waiter.reject(error)
      return
    }
    failpoint("append.after")
    this.#settle(batch, sent)
    this.#flight = null
    failpoint("ack.before")
    this.#act(batch)
    failpoint("ack.after")
    if (this.#closed.length > 0 || !this.#open.isEmpty) this.#schedule()
  }

  /** What was fenced or refused is given up before anybody acts on it. */
  #settle(batch: Batch, sent: AppendOutcome): void {
    for (const job of batch.jobs) job.pendingBatches--
    for (const [partition, epoch] of batch.epochs)
      if (!sent.held.has(partition) && this.#holdings.get(partition)?.epoch === epoch)
        this.#events.fenced(partition)
    for (const { jobId, error } of sent.refused) this.#giveUp(batch, jobId, error)
  }

  /** The database will never take this job's facts: those that build on them must not be sent either. */
  #giveUp(batch: Batch, jobId: string, error: unknown): void {
    for (const { waiters } of [batch, ...this.#closed.map(closed => closed.batch), this.#open])
      for (const waiter of waiters) if (waiter.jobId === jobId) waiter.reject(error)
    this.#open.drop(jobId)
    for (const closed of this.#closed) closed.stored = without(closed.stored, jobId)
    for (const job of batch.jobs) if (job.id === jobId) this.#events.refused(job, error)
  }

  #act(batch: Batch): void {
    for (const waiter of batch.waiters) {
      const epoch = this.#holdings.get(waiter.partition)?.epoch
      if (epoch !== undefined && epoch === waiter.epoch) waiter.resolve()
      else waiter.reject(partitionMoved(waiter.partition))
    }
    const { effectKinds, effectJobs } = batch
    for (let i = 0; i < effectKinds.length; i++) {
      const job = effectJobs[i]!
      if (job.evicted) continue
      if (effectKinds[i] === DISPATCH) this.#events.dispatch(job, batch.attempted(i))
      else if (effectKinds[i] === ABORT) this.#events.abort(job, batch.attempted(i))
      else this.#events.ended(job)
    }
    this.#events.durable(batch.jobs)
    if (batch.operations !== null) this.#events.operations(batch.operations)
  }
}

/** Did an attempt before this one end without an answer of the provider? */
function hasNoAnswer({ state }: LiveJob, attempted: AttemptRef): boolean {
  const place = placeOf(state, attempted)
  return place?.state.unfollowed.get(place.position) === null
}

function itemOf(item: number | undefined): { readonly item?: number } {
  return item === undefined ? {} : { item }
}
