import { jobHasEnded } from "../core/states.ts"
import type { EngineObserver } from "../engine/engine.ts"
import { jobPartition } from "../engine/ids.ts"
import type { LiveJob } from "../engine/owner/live-job.ts"
import { endSnapshot, type JobSnapshot } from "../engine/owner/snapshot.ts"

/** A longer setTimeout fires at once; no caller waits for weeks without a change. */
const LONGEST_TIMER_MS = 2 ** 31

/** `ended`: the final snapshot of the job; null: it changed, or may have ended, and the caller reads it. */
type Notify = (ended: JobSnapshot | null) => void

/** A caller that waits for the end of a job that this process owns. */
interface EndWaiter {
  readonly notify: Notify
  /** The sweep before which the first one for this job was added. */
  readonly sweep: number
  /** The next one for the same job. */
  readonly next: EndWaiter | undefined
}

/** Callers that wait for changes of jobs. Jobs owned here notify; for others the watcher polls after a moment. */
export class Watchers implements Pick<EngineObserver, "changed" | "ended" | "lost" | "progressed"> {
  readonly #byJob = new Map<string, Set<Notify>>()
  /** A hundred thousand callers may wait for the jobs of a bulk: each costs one entry, and all share one timer. */
  readonly #ends = new Map<string, EndWaiter>()
  #sweeps = 0
  #timer: NodeJS.Timeout | null = null

  changed(job: Pick<LiveJob, "id"> & Partial<Pick<LiveJob, "evicted" | "state">>): void {
    if (this.#byJob.size > 0) this.#notifyWatchers(job.id, null)
    const isOver = job.evicted === true || (job.state !== undefined && job.state.finishedAt !== null)
    if (isOver && this.#ends.size > 0) this.#notifyEnd(job.id, null)
  }

  ended(job: LiveJob): void {
    const { id } = job
    if (!this.#ends.has(id) && !this.#byJob.has(id)) return
    this.notify(id, job.evicted ? null : endSnapshot(job))
  }

  progressed(job: LiveJob): void {
    if (this.#byJob.size > 0) this.#notifyWatchers(job.id, null)
  }

  /**
   * Calls `notify` once, when the job, which this process owns, has ended; with null if the caller must read it, at the
   * latest after two minutes.
   */
  whenEnded(jobId: string, notify: Notify): void {
    const next = this.#ends.get(jobId)
    this.#ends.set(jobId, { notify, sweep: next?.sweep ?? this.#sweeps, next })
    this.#timer ??= setInterval(() => this.#sweep(), MAX_OWN_SILENCE_MS)
  }

  /** A query makes up for a lost notification. */
  #sweep(): void {
    const before = this.#sweeps++
    for (const [jobId, { sweep }] of this.#ends) if (sweep < before) this.#notifyEnd(jobId, null)
    this.#stopIfIdle()
  }

  #notifyEnd(jobId: string, ended: JobSnapshot | null): void {
    const first = this.#ends.get(jobId)
    if (first === undefined) return
    this.#ends.delete(jobId)
    for (let waiter: EndWaiter | undefined = first; waiter !== undefined; waiter = waiter.next)
      waiter.notify(ended)
    this.#stopIfIdle()
  }

  /** The timer keeps the process alive while a caller waits. */
  #stopIfIdle(): void {
    if (this.#ends.size > 0 || this.#timer === null) return
    clearInterval(this.#timer)
    this.#timer = null
  }

  /**
   * Settles at the next change of the job, or after `timeoutMs`: with its final snapshot if it ended here, else null. Call
   * this before reading the job, so that no change is missed in between.
   */
  next(jobId: string, timeoutMs: number): { readonly settled: Promise<JobSnapshot | null>; cancel(): void } {
    let settle: Notify = () => {}
    const settled = new Promise<JobSnapshot | null>(resolve => {
      settle = resolve
    })
    const waiting = this.#byJob.get(jobId) ?? new Set()
    this.#byJob.set(jobId, waiting)
    let timer: NodeJS.Timeout | undefined
    const done = (ended: JobSnapshot | null) => {
      clearTimeout(timer)
      waiting.delete(done)
      if (waiting.size === 0 && this.#byJob.get(jobId) === waiting) this.#byJob.delete(jobId)
      settle(ended)
    }
    if (timeoutMs < LONGEST_TIMER_MS) timer = setTimeout(done, Math.max(timeoutMs, 0), null)
    waiting.add(done)
    return { settled, cancel: () => done(null) }
  }

  /** This process does not own the partition any more: callers must query another process. */
  lost(partition: number): void {
    this.#notifyAll(jobId => jobPartition(jobId) === partition)
  }

  close(): void {
    this.#notifyAll(() => true)
  }

  #notifyAll(isMeant: (jobId: string) => boolean): void {
    for (const jobId of [...this.#byJob.keys(), ...this.#ends.keys()])
      if (isMeant(jobId)) this.notify(jobId, null)
  }

  /** `ended`: its final snapshot; null: the watcher reads the job. */
  notify(jobId: string, ended: JobSnapshot | null): void {
    this.#notifyWatchers(jobId, ended)
    this.#notifyEnd(jobId, ended)
  }

  #notifyWatchers(jobId: string, ended: JobSnapshot | null): void {
    const waiting = this.#byJob.get(jobId)
    if (waiting !== undefined) for (const done of [...waiting]) done(ended)
  }
}

/** Changes are notified, wherever the job runs; after this time a query makes up for a lost notification. */
const MAX_SILENCE_MS = 5000
/** The same for a job of this process that is not in memory: a hundred thousand callers may wait for such jobs. */
const MAX_OWN_SILENCE_MS = 60_000

export interface Waiting {
  readonly watchers: Watchers
  /** Is the job in this process's memory? */
  isHere(jobId: string): boolean
  /** Does this process own the job's partition? Then it is notified of the job's end, and of the loss of the partition. */
  isOwned(jobId: string): boolean
  /** It is in this process's memory and has ended: the notification of its end may have been sent. */
  isEnded(jobId: string): boolean
  /** false: it waits in this process's queue. */
  mayHaveEnded(jobId: string): boolean
  /** Notifies `watchers` if the job has ended already. */
  findEnd(jobId: string): void
  read(jobId: string): Promise<JobSnapshot>
  /** Notifies `watchers` of the job's end also when another process runs it; the returned function stops that. */
  awaitRemoteEnd(jobId: string): () => void
  /** A promise only if something must be read. */
  withDetails(job: JobSnapshot): JobSnapshot | Promise<JobSnapshot>
}

/** Resolves when the job has ended, or at the latest after `timeoutMs`, with its snapshot at that time. */
export function waitForEnd(jobId: string, timeoutMs: number, waiting: Waiting): Promise<JobSnapshot> {
  // One promise and one closure: a caller may wait for each of a hundred thousand jobs.
  return new Promise(resolve => {
    const isNotified = timeoutMs >= LONGEST_TIMER_MS && waiting.isOwned(jobId) && !waiting.isEnded(jobId)
    if (!isNotified) {
      resolve(untilEnd(jobId, timeoutMs, waiting))
      return
    }
    waiting.watchers.whenEnded(jobId, ended =>
      resolve(ended === null ? readOrWait(jobId, waiting) : waiting.withDetails(ended)),
    )
    // One query answers for all callers of this moment.
    if (!waiting.isHere(jobId) && waiting.mayHaveEnded(jobId)) waiting.findEnd(jobId)
  })
}

/** The job has changed, or has ended with an output that is too large for that query. */
async function readOrWait(jobId: string, waiting: Waiting): Promise<JobSnapshot> {
  const job = await waiting.read(jobId)
  if (jobHasEnded(job.status)) return waiting.withDetails(job)
  return waitForEnd(jobId, Number.POSITIVE_INFINITY, waiting)
}

/** With a time limit, or for a job of another process. */
async function untilEnd(jobId: string, timeoutMs: number, waiting: Waiting): Promise<JobSnapshot> {
  const deadline = performance.now() + timeoutMs
  let leave: (() => void) | null = null
  try {
    for (;;) {
      const left = deadline - performance.now()
      const isHere = waiting.isHere(jobId)
      const isQueued = !isHere && left > 0 && waiting.isOwned(jobId)
      const silence = isQueued ? MAX_OWN_SILENCE_MS : MAX_SILENCE_MS
      const change = waiting.watchers.next(jobId, Math.min(left, silence))
      if (isQueued) {
        waiting.findEnd(jobId)
        const ended = await change.settled
        if (ended !== null) return await waiting.withDetails(ended)
        const job = await waiting.read(jobId)
        if (jobHasEnded(job.status)) return await waiting.withDetails(job)
        continue
      }
      if (!isHere && left > 0) leave ??= waiting.awaitRemoteEnd(jobId)
      if (!isHere || left <= 0) {
        const job = await waiting.read(jobId)
        if (jobHasEnded(job.status) || left <= 0) {
          change.cancel()
          return await waiting.withDetails(job)
        }
      }
      const ended = await change.settled
      if (ended !== null) return await waiting.withDetails(ended)
    }
  } finally {
    leave?.()
  }
}
