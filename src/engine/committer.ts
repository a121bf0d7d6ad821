import type { Effects } from "../core/effects.ts"
import type { Fact } from "../core/facts.ts"
import { UmbraError } from "../errors.ts"
import { failpoint } from "../failpoints.ts"
import { JournalDataError } from "../journal/errors.ts"
import type { Journal } from "../journal/port.ts"
import { ABORT, Batch, type ClosedBatch, DISPATCH, END } from "./batch.ts"
import type { Clock } from "./clock.ts"
import { encodeFact, type LiveJob } from "./live-job.ts"
import { OperationRows } from "./operation-rows.ts"

/**
 * Group commit. While one append is in flight the next batch collects: under light load one commit per fact with no
 * added wait, under heavy load a thousand facts per commit. No timer, no knob.
 *
 * 1. One append in flight: seq order is commit order.
 * 2. Effects and answers of a batch happen after it is durable, in the order they were caused.
 * 3. An append whose outcome is unknown is sent again, unchanged, until it is known. Meanwhile nothing is acted on.
 */
export interface CommitterEvents {
  dispatch(job: LiveJob, node: number, attempt: number): void
  abort(job: LiveJob, node: number, attempt: number): void
  ended(job: LiveJob): void
  /** All facts of these jobs so far are durable. */
  durable(jobs: Iterable<LiveJob>): void
  /** Operations at providers began and ended, durably. */
  operations(rows: OperationRows): void
  /** Another engine has this partition. Its jobs are already marked gone. */
  fenced(partition: number): void
  /** The database refuses what this job wants to store. */
  refused(job: LiveJob, error: unknown): void
  unavailable(error: unknown, tries: number): void
  available(): void
}

/** Larger batches gain nothing and hold up everybody behind them. */
const BATCH_BYTES = 4 * 1024 * 1024
const BATCH_FACTS = 5000
const FACT_OVERHEAD = 100

/** X7: 1 s → 2 s → 4 s …, cap 30 s. */
const retryDelayMs = (tries: number) => Math.min(1000 * 2 ** (tries - 1), 30_000)

export interface Holding {
  readonly epoch: number
  nextSeq: number
}

export class Committer {
  readonly #journal: Journal
  readonly #clock: Clock
  readonly #events: CommitterEvents
  readonly #holdings: ReadonlyMap<number, Holding>
  #open = new Batch()
  readonly #closed: { readonly batch: Batch; stored: ClosedBatch }[] = []
  #flight: Batch | null = null
  #scheduled = false
  #stopped = false
  #endPause = () => {}

  constructor(parts: {
    journal: Journal
    clock: Clock
    events: CommitterEvents
    holdings: ReadonlyMap<number, Holding>
  }) {
    this.#journal = parts.journal
    this.#clock = parts.clock
    this.#events = parts.events
    this.#holdings = parts.holdings
  }

  /** For `apply`: what follows from a fact of this job waits in the open batch. */
  effectsFor(job: LiveJob): Effects {
    this.#sink.job = job
    return this.#sink
  }

  readonly #sink: Effects & { job: LiveJob } = {
    job: null as unknown as LiveJob,
    dispatch: (node, attempt) => this.#open.effect(DISPATCH, this.#sink.job, node, attempt),
    abort: (node, attempt) => this.#open.effect(ABORT, this.#sink.job, node, attempt),
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
    const { effectKinds, effectJobs, effectNodes, effectAttempts } = batch
    for (let i = 0; i < effectKinds.length; i++) {
      const job = effectJobs[i]!
      if (job.gone) continue
      if (effectKinds[i] === DISPATCH) this.#events.dispatch(job, effectNodes[i]!, effectAttempts[i]!)
      else if (effectKinds[i] === ABORT) this.#events.abort(job, effectNodes[i]!, effectAttempts[i]!)
      else this.#events.ended(job)
    }
    this.#events.durable(batch.jobs)
    if (batch.operations !== null) this.#events.operations(batch.operations)
  }

  async #send(stored: ClosedBatch): Promise<Sent> {
    if (stored.facts.length === 0 && stored.answers.length === 0 && stored.messages.length === 0)
      return { held: new Set(stored.fences.map(fence => fence.partition)), refused: [] }
    for (let tries = 1; ; tries++) {
      try {
        const { held } = await this.#journal.append(stored)
        if (tries > 1) this.#events.available()
        return { held, refused: [] }
      } catch (error) {
        if (isOfTheData(error)) return this.#bisect(stored, error)
        if (this.#stopped) throw error
        this.#events.unavailable(error, tries)
        await this.#pause(retryDelayMs(tries))
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

  /** A data error fails only the job it belongs to. */
  async #bisect(stored: ClosedBatch, error: unknown): Promise<Sent> {
    const ids = [...new Set([...stored.facts, ...stored.answers].map(row => row.jobId))]
    if (ids.length <= 1) {
      return {
        held: new Set(stored.fences.map(fence => fence.partition)),
        refused: ids.map(jobId => ({ jobId, error })),
      }
    }
    const half = new Set(ids.slice(0, ids.length >> 1))
    const first = await this.#send(filtered(stored, jobId => half.has(jobId)))
    const second = await this.#send(filtered(stored, jobId => !half.has(jobId)))
    const held = new Set([...first.held].filter(partition => second.held.has(partition)))
    return { held, refused: [...first.refused, ...second.refused] }
  }
}

/** A statement that cannot even be made fails the same way for ever: the database is not away. */
function isOfTheData(error: unknown): boolean {
  return error instanceof JournalDataError || error instanceof TypeError || error instanceof RangeError
}

interface Sent {
  readonly held: ReadonlySet<number>
  readonly refused: readonly { readonly jobId: string; readonly error: unknown }[]
}

function without(stored: ClosedBatch, jobId: string): ClosedBatch {
  return filtered(stored, id => id !== jobId)
}

function withoutPartition(stored: ClosedBatch, partition: number): ClosedBatch {
  const isOther = (row: { readonly partition: number }) => row.partition !== partition
  return {
    fences: stored.fences.filter(isOther),
    facts: stored.facts.filter(isOther),
    newJobs: stored.newJobs.filter(isOther),
    changedJobs: stored.changedJobs.filter(isOther),
    answers: stored.answers.filter(isOther),
    messages: stored.messages.filter(message => message.cause?.partition !== partition),
    begun: stored.begun?.filter(isOther) ?? [],
    left: stored.left?.filter(isOther) ?? [],
  }
}

function filtered(stored: ClosedBatch, keep: (jobId: string) => boolean): ClosedBatch {
  return {
    fences: stored.fences,
    facts: stored.facts.filter(fact => keep(fact.jobId)),
    newJobs: stored.newJobs.filter(job => keep(job.id)),
    changedJobs: stored.changedJobs.filter(job => keep(job.id)),
    answers: stored.answers.filter(answer => keep(answer.jobId)),
    messages: stored.messages.filter(message => keep(message.jobId)),
    begun: stored.begun?.filter(row => keep(row.jobId)) ?? [],
    left: stored.left?.filter(row => keep(row.jobId)) ?? [],
  }
}

export function partitionMoved(partition: number): UmbraError {
  return new UmbraError(
    "E610",
    `Partition ${partition} is owned by another engine now; send the command again.`,
  )
}
