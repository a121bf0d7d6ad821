import { jobHasEnded } from "../core/states.ts"
import type { EngineObserver } from "../engine/engine.ts"
import { partitionOf } from "../engine/ids.ts"
import type { LiveJob } from "../engine/owner/live-job.ts"
import { endSnapshot, type JobSnapshot } from "../engine/owner/snapshot.ts"

/** A longer setTimeout fires at once; no caller waits for weeks without a change. */
const LONGEST_TIMER_MS = 2 ** 31

/** Callers that wait for changes of jobs. Jobs owned here notify; for others the watcher polls after a moment. */
export class Watchers implements Pick<EngineObserver, "changed" | "ended" | "lost" | "progressed"> {
  readonly #byJob = new Map<string, Set<(ended: JobSnapshot | null) => void>>()

  changed(job: Pick<LiveJob, "id">): void {
    if (this.#byJob.size > 0 && this.#byJob.has(job.id)) this.notify(job.id, null)
  }

  ended(job: LiveJob): void {
    if (this.#byJob.size > 0 && this.#byJob.has(job.id))
      this.notify(job.id, job.evicted ? null : endSnapshot(job))
  }

  progressed(job: LiveJob): void {
    this.changed(job)
  }

  /**
   * Settles at the next change of the job, or after `timeoutMs`: with its final snapshot if it ended here, else null. Call
   * this before reading the job, so that no change is missed in between.
   */
  next(jobId: string, timeoutMs: number): { readonly settled: Promise<JobSnapshot | null>; cancel(): void } {
    let settle: (ended: JobSnapshot | null) => void = () => {}
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
    for (const jobId of [...this.#byJob.keys()])
      if (partitionOf(jobId) === partition) this.notify(jobId, null)
  }

  close(): void {
    for (const jobId of [...this.#byJob.keys()]) this.notify(jobId, null)
  }

  /** `ended`: its final snapshot; null: the watcher reads the job. */
  notify(jobId: string, ended: JobSnapshot | null): void {
    for (const done of [...(this.#byJob.get(jobId) ?? [])]) done(ended)
  }
}

/** Changes are notified, wherever the job runs; after this time a query makes up for a lost notification. */
const MAX_SILENCE_MS = 5000
/** The same for a job of this process that is not in memory: a hundred thousand callers may wait for such jobs. */
const MAX_OWN_SILENCE_MS = 60_000

export interface Waiting {
  readonly watchers: Watchers
  /** Is the job in this process's memory? */
  isHere(): boolean
  /** Does this process own the job's partition? Then it is notified of the job's end, and of the loss of the partition. */
  isOwned(): boolean
  /** Notifies `watchers` if the job has ended already. */
  findEnd(): void
  read(): Promise<JobSnapshot>
  /** Notifies `watchers` of the job's end also when another process runs it; the returned function stops that. */
  awaitRemoteEnd(): () => void
}

/** Resolves when the job has ended, or at the latest after `timeoutMs`, with its snapshot at that time. */
export async function waitForEnd(jobId: string, timeoutMs: number, waiting: Waiting): Promise<JobSnapshot> {
  const deadline = performance.now() + timeoutMs
  let leave: (() => void) | null = null
  try {
    for (;;) {
      const left = deadline - performance.now()
      const isHere = waiting.isHere()
      const isQueued = !isHere && left > 0 && waiting.isOwned()
      const silence = isQueued ? MAX_OWN_SILENCE_MS : MAX_SILENCE_MS
      const change = waiting.watchers.next(jobId, Math.min(left, silence))
      if (isQueued) {
        // It waits as a row, or has ended: one query answers for all callers of this moment.
        waiting.findEnd()
        const ended = await change.settled
        if (ended !== null) return ended
        // It has changed, or has ended with an output that is too large for that query.
        const job = await waiting.read()
        if (jobHasEnded(job.status)) return job
        continue
      }
      if (!isHere && left > 0) leave ??= waiting.awaitRemoteEnd()
      if (!isHere || left <= 0) {
        const job = await waiting.read()
        if (jobHasEnded(job.status) || left <= 0) {
          change.cancel()
          return job
        }
      }
      const ended = await change.settled
      if (ended !== null) return ended
    }
  } finally {
    leave?.()
  }
}
