import type { Attempted } from "../core/commands.ts"
import type { Effects } from "../core/effects.ts"
import type { Fact } from "../core/facts.ts"
import { UmbraError } from "../errors.ts"
import { failpoint } from "../failpoints.ts"
import { JournalDataError } from "../journal/errors.ts"
import type { AppendResult, Journal } from "../journal/port.ts"
import { retryDelayMs } from "../journal/retry.ts"
import {
  ABORT,
  Batch,
  type ClosedBatch,
  DISPATCH,
  END,
  filtered,
  without,
  withoutPartition,
} from "./batch.ts"
import type { Clock } from "./clock.ts"
import { encodeFact, type LiveJob } from "./live-job.ts"
import type { EngineMeasures } from "./measures.ts"
import { OperationRows } from "./operation-rows.ts"

/**
 * Group commit for some partitions. While one append is in flight the next batch collects: under light load one commit
 * per fact with no added wait, under heavy load a thousand facts per commit. No timer, no knob.
 *
 * 1. One append in flight: within a partition seq order is commit order, also when the database refuses some of a
 *    batch: what is refused is found by trial, and the rest goes in whole.
 * 2. Effects and answers of a batch happen after it is durable, in the order they were caused.
 * 3. An append whose outcome is unknown is sent again, unchanged, until it is known. Meanwhile nothing is acted on.
 */
export interface LaneEvents {
  dispatch(job: LiveJob, attempted: Attempted): void
  abort(job: LiveJob, attempted: Attempted): void
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

/** Can the store be reached? */
export interface Availability {
  unavailable(error: unknown, tries: number): void
  available(): void
}

/** Larger batches gain nothing and hold up everybody behind them. */
const BATCH_BYTES = 4 * 1024 * 1024
const BATCH_FACTS = 5000
const FACT_OVERHEAD = 100

export interface Holding {
  readonly epoch: number
  nextSeq: number
}

export class AppendLane {
  readonly #journal: Journal
  readonly #clock: Clock
  readonly #events: LaneEvents
  readonly #store: Availability
  readonly #holdings: ReadonlyMap<number, Holding>
  readonly #measures: EngineMeasures
  #open = new Batch()
  readonly #closed: { readonly batch: Batch; stored: ClosedBatch }[] = []
  #flight: Batch | null = null
  #scheduled = false
  #stopped = false
  #endPause = () => {}

  constructor(parts: {
    journal: Journal
    clock: Clock
    events: LaneEvents
    store: Availability
    holdings: ReadonlyMap<number, Holding>
    measures: EngineMeasures
  }) {
    this.#journal = parts.journal
    this.#clock = parts.clock
    this.#events = parts.events
    this.#store = parts.store
    this.#holdings = parts.holdings
    this.#measures = parts.measures
  }

  /** For `apply`: what follows from a fact of this job waits in the open batch. */
  effectsFor(job: LiveJob): Effects {
    this.#sink.job = job
    return this.#sink
  }

  readonly #sink: Effects & { job: LiveJob } = {
    job: null as unknown as LiveJob,
    dispatch: (node, attempt, item) => this.#open.effect(DISPATCH, this.#sink.job, node, attempt, item),
    abort: (node, attempt, item) => this.#open.effect(ABORT, this.#sink.job, node, attempt, item),
    abandon: node => this.#operations().abandon(this.#sink.job, node, this.#clock.now()),
    operationFailed: node => this.#operations().failed(this.#sink.job, node, this.#clock.now()),
    end: () => this.#open.effect(END, this.#sink.job, -1, 0),
  }

  record(job: LiveJob, fact: Fact, outputText?: string): void {
    const holding = this.#holdings.get(job.partition)
    if (holding === undefined || job.gone) throw partitionMoved(job.partition)
    const batch = this.#open
    const data = encodeFact(fact, outputText)
    job.seq = holding.nextSeq++
    job.at = fact.at
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
      job.undurable++
    }
    if (job.plan.providers.length > 0) this.#operations().note(job, fact)
    this.#schedule()
  }

  #operations(): OperationRows {
    this.#open.operations ??= new OperationRows()
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

  get isIdle(): boolean {
    return this.#flight === null && this.#closed.length === 0 && this.#open.isEmpty
  }

  /** Gives up on appends that do not come through. */
  stop(): void {
    this.#stopped = true
    this.#endPause()
  }

  /** Others get through: no need to wait any longer. */
  hurry(): void {
    this.#endPause()
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
    let sent: Sent
    try {
      sent = await this.#send(stored)
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
  #settle(batch: Batch, sent: Sent): void {
    for (const job of batch.jobs) job.undurable--
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
      if (job.gone) continue
      if (effectKinds[i] === DISPATCH) this.#events.dispatch(job, batch.attempted(i))
      else if (effectKinds[i] === ABORT) this.#events.abort(job, batch.attempted(i))
      else this.#events.ended(job)
    }
    this.#events.durable(batch.jobs)
    if (batch.operations !== null) this.#events.operations(batch.operations)
  }

  async #send(stored: ClosedBatch): Promise<Sent> {
    if (stored.facts.length === 0 && stored.answers.length === 0 && stored.messages.length === 0)
      return { held: new Set(stored.fences.map(fence => fence.partition)), refused: [] }
    try {
      const { held } = await this.#untilKnown(() => this.#append(stored))
      return { held, refused: [] }
    } catch (error) {
      if (isOfTheData(error)) return this.#sendTheRest(stored, error)
      throw error
    }
  }

  async #append(stored: ClosedBatch): Promise<AppendResult> {
    const begun = performance.now()
    const result = await this.#journal.append(stored)
    this.#measures.appendSeconds.add((performance.now() - begun) / 1000)
    this.#measures.appendFacts.add(stored.facts.length)
    return result
  }

  /** Asks again until the store answers; what is wrong with the data is an answer. */
  async #untilKnown<T>(ask: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        const answer = await ask()
        if (tries > 1) this.#store.available()
        return answer
      } catch (error) {
        if (isOfTheData(error) || this.#stopped) throw error
        this.#store.unavailable(error, tries)
        await this.#pause(retryDelayMs(this.#journal.capabilities.retry, tries))
        if (this.#stopped) throw error
      }
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise(resolve => {
      const cancel = this.#clock.after(ms, resolve)
      this.#endPause = () => {
        cancel()
        resolve()
      }
    })
  }

  /** A data error fails only the jobs it belongs to. */
  async #sendTheRest(stored: ClosedBatch, error: unknown): Promise<Sent> {
    const refused = await this.#refusedOf(stored, error)
    const ids = new Set(refused.map(({ jobId }) => jobId))
    const { held, refused: more } = await this.#send(filtered(stored, jobId => !ids.has(jobId)))
    return { held, refused: [...refused, ...more] }
  }

  /** By halves, each tried without being kept. Jobs that are refused only together are all given up. */
  async #refusedOf(stored: ClosedBatch, error: unknown): Promise<Refused[]> {
    const ids = [...new Set([...stored.facts, ...stored.answers].map(row => row.jobId))]
    if (ids.length <= 1) return ids.map(jobId => ({ jobId, error }))
    const half = new Set(ids.slice(0, ids.length >> 1))
    const halves = [filtered(stored, id => half.has(id)), filtered(stored, id => !half.has(id))]
    const refused: Refused[] = []
    for (const part of halves) {
      const reason = await this.#untilKnown(() => this.#trial(part))
      if (reason !== null) refused.push(...(await this.#refusedOf(part, reason)))
    }
    return refused.length > 0 ? refused : ids.map(jobId => ({ jobId, error }))
  }

  /** null: the database would take it. */
  async #trial(stored: ClosedBatch): Promise<unknown> {
    try {
      await this.#journal.tryAppend(stored)
      return null
    } catch (error) {
      if (isOfTheData(error)) return error
      throw error
    }
  }
}

/** A statement that cannot even be made fails the same way for ever: the database is not away. */
function isOfTheData(error: unknown): boolean {
  return error instanceof JournalDataError || error instanceof TypeError || error instanceof RangeError
}

interface Refused {
  readonly jobId: string
  readonly error: unknown
}

interface Sent {
  readonly held: ReadonlySet<number>
  readonly refused: readonly Refused[]
}

export function partitionMoved(partition: number): UmbraError {
  return new UmbraError(
    "E610",
    `Partition ${partition} is owned by another engine now; send the command again.`,
  )
}
