import { attemptName, type Broker, type Outcome, type Task, type TaskName } from "../../broker/port.ts"
import type { AttemptRef } from "../../core/commands.ts"
import { isRateLimited } from "../../core/faults.ts"
import { attemptRef } from "../../core/state.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { SlotKey, UnseenSubmission } from "../../journal/port/providers.ts"
import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import type { Dispatcher } from "../dispatch/dispatcher.ts"
import type { JobOwner, LiveJob } from "../owner/live-job.ts"
import type { OwnerEngine } from "../owner/owner-parts.ts"
import type { JobLoader } from "../recovery/loader.ts"
import type { Capacity } from "./capacity.ts"
import type { Providers } from "./providers.ts"

export interface LeftSubmissionsParts {
  readonly journal: Journal
  readonly clock: Clock
  readonly log: Log
  readonly providers: Providers
  readonly capacity: Pick<Capacity, "rate" | "claimOperation">
  readonly owner: JobOwner
  readonly broker: Broker
  readonly loader: JobLoader
  readonly dispatcher: Dispatcher
  readonly engine: Pick<OwnerEngine, "submissionSettled">
}

interface Awaited {
  readonly provider: string
  /** The owner of the job. */
  readonly owner: string
  /** Does the handler do nothing but submit? For other handlers an abort is the end. */
  readonly isSubmission: boolean
  readonly stopTimer: () => void
}

/**
 * Submissions to providers whose job ended, or continued without them, while they were in flight.
 *
 * 1. Each is a row of `operations` with `unseen`, written in the append that ended the job. The row counts as a slot of the
 *    provider until the outcome is known, at the latest until its lease ends.
 * 2. The submission is not aborted before the provider's timeout. If it is answered, the operation is cancelled.
 * 3. Without an answer it is repeated under its idempotency key where the provider honours keys, and only there: a second
 *    operation is never begun. Otherwise an operation may be running unnoticed, and that is all that can be reported.
 */
export class LeftSubmissions {
  readonly #parts: LeftSubmissionsParts
  readonly #awaited = new Map<string, Awaited>()
  /** By submission: how often this process has repeated it; and the submissions that were reported as unseen. */
  readonly #repeats = new Map<string, { tries: number; stopTimer: () => void }>()
  readonly #reported = new Set<string>()
  /** Names of submissions whose outcome has arrived, and is not stored yet. */
  readonly #settling = new Set<string>()
  #isStopped = false

  constructor(parts: LeftSubmissionsParts) {
    this.#parts = parts
  }

  stop(): void {
    this.#isStopped = true
    for (const { stopTimer } of [...this.#awaited.values(), ...this.#repeats.values()]) stopTimer()
  }

  /** The attempt is no longer wanted, and that is durable. */
  abandoned(job: LiveJob, attemptRef: AttemptRef): void {
    const task = { jobId: job.id, ...attemptRef }
    const { broker } = this.#parts
    // Its outcome arrived before that was durable: `finished` handles it.
    if (!broker.has(task)) return
    const { handler, provider } = job.plan.nodes[attemptRef.node]!
    if (broker.withdraw(task)) {
      this.#settling.add(attemptName(task))
      void this.#settle(task, null).finally(() => this.#settling.delete(attemptName(task)))
    } else
      this.#await(task, {
        provider: provider!,
        owner: job.state.owner,
        isSubmission: submitting.has(handler),
      })
  }

  /** A submission whose outcome is wanted although its job has left it; `isRepeated`: this engine has repeated it. */
  awaited(task: TaskName): { provider: string; owner: string; isRepeated: boolean } | null {
    const found = this.#awaited.get(attemptName(task))
    if (found === undefined) return null
    const { provider, owner } = found
    return { provider, owner, isRepeated: task.attempt >= REPEATED }
  }

  /** The row of a submission is durable. If no answer is expected for it, an earlier attempt made it. */
  recorded({ jobId, node, item, attempt }: SlotKey & { readonly attempt: number }): void {
    const task = { jobId, node, item, attempt }
    const name = attemptName(task)
    if (!this.#awaited.has(name) && !this.#settling.has(name)) void this.#unanswered(task)
  }

  /** The outcome of an attempt that its job no longer wants. `job`: it is in memory. */
  async finished(job: LiveJob | null, task: TaskName, outcome: Outcome): Promise<void> {
    const isAwaited = this.#forget(task)
    // A submission that was answered before the end of its job was durable is not awaited yet, but its job is in memory.
    if (!isAwaited && job === null && outcome.type !== "submitted") return
    if (job !== null && job.plan.nodes[task.node]!.provider === null) return
    const act = () => {
      if (outcome.type === "submitted") return this.#settle(task, outcome.externalId)
      const isUnanswered =
        outcome.type === "failed" && outcome.fault.retryable && !isRateLimited(outcome.fault)
      return isUnanswered ? this.#unanswered(task) : this.#settle(task, null)
    }
    // The row is written by the append that ended the job. If that append is lost, another owner has the job.
    this.#settling.add(attemptName(task))
    const isDurable = job === null || (await this.#parts.owner.durable(job).then(yes, no))
    if (isDurable) await act()
    this.#settling.delete(attemptName(task))
  }

  /** The process that had the task has died, or does not run it. */
  lost(task: TaskName): void {
    if (this.#forget(task)) void this.#unanswered(task)
  }

  /** Handles submissions that another process, or this one before a restart, left behind. */
  async sweep(partitions: readonly number[]): Promise<void> {
    const { journal, clock } = this.#parts
    const at = clock.now()
    const awaited = new Set([...this.#awaited.keys()].map(name => name.slice(0, name.lastIndexOf("/"))))
    for (const submission of await journal.providers.unseenSubmissions({ partitions, at })) {
      const key = submissionKey(submission)
      const isInFlight = awaited.has(
        attemptName(submission).slice(0, attemptName(submission).lastIndexOf("/")),
      )
      if (isInFlight || this.#repeats.has(key)) continue
      // Until then it may be in flight in another process.
      if (at >= submission.since + this.#timeoutMs(submission.provider) + MARGIN_MS) this.#proceed(submission)
    }
  }

  #timeoutMs(provider: string): number {
    return (this.#parts.providers.terms(provider)?.timeoutSeconds ?? 30) * 1000
  }

  #await(task: TaskName, of: Omit<Awaited, "stopTimer">): void {
    const { clock, broker } = this.#parts
    const stopTimer = clock.after(this.#timeoutMs(of.provider), () => {
      if (!this.#forget(task)) return
      broker.cancel(task, "The job has ended, and its provider has not answered in time.")
      void (of.isSubmission ? this.#unanswered(task) : this.#settle(task, null))
    })
    this.#awaited.set(attemptName(task), { ...of, stopTimer })
  }

  #forget(task: TaskName): boolean {
    const awaited = this.#awaited.get(attemptName(task))
    awaited?.stopTimer()
    return this.#awaited.delete(attemptName(task))
  }

  async #settle(task: TaskName, externalId: string | null): Promise<void> {
    const { journal, clock, engine, log } = this.#parts
    const { jobId, node, item } = task
    const of: SlotKey = { jobId, node, item }
    const attempt = task.attempt % REPEATED
    const key = submissionKey({ ...of, attempt })
    this.#repeats.get(key)?.stopTimer()
    this.#repeats.delete(key)
    try {
      const isOwn = externalId === null || (await this.#isOwn(task, externalId))
      const outcome = { ...of, attempt, externalId: isOwn ? externalId : null, at: clock.now() }
      const found = await journal.providers.settleSubmission(outcome)
      if (found !== null) engine.submissionSettled(found.provider, found.isToCancel)
    } catch (error) {
      // The row stays, and with it the slot: the sweep proceeds as if there were no answer.
      log.warn({ job_id: jobId, error: String(error) }, "could not store the outcome of a submission")
    }
  }

  /** Storing the outcome claims the operation for its definition; this checks other definitions of the same account, if there are any. */
  async #isOwn(task: TaskName, externalId: string): Promise<boolean> {
    const { providers, capacity } = this.#parts
    if (providers.names().every(name => providers.terms(name)?.sameAccount === undefined)) return true
    const submission = await this.#unseen(task)
    if (submission === undefined) return true
    const { provider, owner } = submission
    return capacity.claimOperation(owner, { provider, externalId })
  }

  async #unseen({ jobId, node, item, attempt }: TaskName): Promise<UnseenSubmission | undefined> {
    const all = await this.#parts.journal.providers.unseenSubmissions({ jobId })
    return all.find(each => each.node === node && each.item === item && each.attempt === attempt % REPEATED)
  }

  async #unanswered(task: TaskName): Promise<void> {
    const { log } = this.#parts
    try {
      const submission = await this.#unseen(task)
      if (submission !== undefined) this.#proceed(submission)
    } catch (error) {
      log.warn({ job_id: task.jobId, error: String(error) }, "could not read a submission; the sweep retries")
    }
  }

  #proceed(submission: UnseenSubmission): void {
    const { clock, providers } = this.#parts
    if (this.#isStopped || clock.now() >= submission.slotUntil) return
    const key = submissionKey(submission)
    if (providers.terms(submission.provider)?.honoursKeys !== true) {
      this.#report(key, submission)
      return
    }
    const tries = (this.#repeats.get(key)?.tries ?? 0) + 1
    const wait = Math.min(MAX_WAIT_MS, MIN_WAIT_MS * 2 ** (tries - 1))
    const stopTimer = clock.after(wait, () => void this.#repeat(submission, tries))
    this.#repeats.set(key, { tries, stopTimer })
  }

  async #repeat(submission: UnseenSubmission, tries: number): Promise<void> {
    const { capacity, broker, providers, clock, log } = this.#parts
    const { provider, owner, attempt, operation } = submission
    const terms = providers.terms(provider)
    if (this.#isStopped || terms === undefined || clock.now() >= submission.slotUntil) return
    try {
      const task = await this.#rebuildTask(submission)
      if (task === null || !submitting.has(task.handler))
        return this.#report(submissionKey(submission), submission)
      await capacity.rate.waitForPlace({ provider, owner, ...terms })
      if (this.#isStopped) return
      // With its own name: a worker answers a task name that it knows with its earlier report.
      const { isolation: _, ...plain } = task
      const repeated = { ...plain, attempt: attempt + tries * REPEATED, operation, announce: false }
      this.#await(repeated, { provider, owner, isSubmission: true })
      broker.dispatch(repeated)
    } catch (error) {
      this.#repeats.delete(submissionKey(submission))
      log.warn({ provider, error: String(error) }, "could not repeat a submission; the sweep retries")
    }
  }

  /** Builds the task again from the facts of its job; null: that is not possible. */
  async #rebuildTask(submission: UnseenSubmission): Promise<Task | null> {
    const job = await this.#parts.loader.read(submission.jobId)
    return job === null ? null : this.#parts.dispatcher.buildTask(job, attemptRef(submission))
  }

  #report(key: string, { provider, jobId, node, slotUntil }: UnseenSubmission): void {
    if (this.#reported.has(key)) return
    this.#reported.add(key)
    this.#parts.log.warn(
      { provider, job_id: jobId, node, slot_until: new Date(slotUntil).toISOString() },
      "no answer to a submission of a job that has ended: an operation may be running unnoticed, and holds its slot until the lease ends",
    )
  }
}

const yes = () => true
const no = () => false

/** Handlers that do nothing but submit, where the node has a provider. */
const submitting = new Set(["external", "call_external_service"])
/** Higher than every attempt number. */
const REPEATED = 1_000_000
const MARGIN_MS = 5000
const MIN_WAIT_MS = 500
const MAX_WAIT_MS = 60_000

function submissionKey({ jobId, node, item, attempt }: SlotKey & { readonly attempt: number }): string {
  return `${jobId}/${node}/${item}/${attempt}`
}
