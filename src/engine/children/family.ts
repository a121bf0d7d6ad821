import type { ChildRequest } from "../../broker/port.ts"
import { uncountedOfChildren } from "../../core/attempt-times.ts"
import type { Command, Reported } from "../../core/commands.ts"
import type { ChildUsage } from "../../core/facts.ts"
import type { Fault } from "../../core/faults.ts"
import { findTask, hasCompleted, type JobState } from "../../core/state.ts"
import { jobHasEnded } from "../../core/states.ts"
import { parentReason } from "../../core/view/reasons.ts"
import { UmbraError } from "../../errors.ts"
import type { Log } from "../../log.ts"
import { sleep, untilStoreAnswers } from "../clock.ts"
import type { LiveJob } from "../owner/live-job.ts"
import { type ExecutionQueue, NoPlaceError } from "../pipeline-places.ts"
import { type ChildResult, childFault, childResult, totalUsage, usageFor } from "./result.ts"
import { ChildStarts, type ChildStartsParts, isWanted } from "./start.ts"

export interface FamilyParts extends ChildStartsParts {
  readonly log: Log
  readonly executions: ExecutionQueue
}

type DeleteCommand = Extract<Command, { type: "delete" }>

/**
 * Jobs that run for a node of another job (J14). All jobs of a family are in one partition: they have one owner, and
 * changes to two of them can be one commit.
 *
 * 1. A node waits for a child that exists and has not ended, or has ended and is `unsettled`.
 * 2. A job that ends commits its end first, and then notifies: a child its parent, a parent its orphans. Until
 *    `job_settled` is durable too, its `wake_at` is 0, so its next owner notifies again; a relative that was notified
 *    before refuses the command.
 */
export class Family {
  readonly #parts: FamilyParts
  readonly #starts: ChildStarts
  /** Not by id: a job that was discarded and loaded again must notify its relatives, even while the earlier instance still does. */
  readonly #settling = new Set<LiveJob>()

  constructor(parts: FamilyParts) {
    this.#parts = parts
    this.#starts = new ChildStarts(parts)
  }

  childRequested(job: LiveJob, at: Reported, request: ChildRequest): Promise<void> {
    return this.#untilStoreAnswers(job, () => this.#starts.start(job, at, request))
      .catch(error => this.#notStarted(job, at, error))
      .catch(error => this.#logError(job, error, "could not fail a node that starts a child job"))
  }

  #notStarted(job: LiveJob, at: Reported, error: unknown): void {
    if (!isWanted(job, at) || isMoved(error)) return
    if (!(error instanceof UmbraError)) {
      this.#parts.partitionOwner.quarantine(job, error)
      return
    }
    if (error instanceof NoPlaceError) {
      void this.#parts.partitionOwner.execute(job, {
        type: "failed",
        ...at,
        fault: error.fault,
        hasNoPlace: true,
      })
      this.#parts.executions.add(job.id, at, error)
      return
    }
    const { code, message, retryable } = error
    void this.#parts.partitionOwner.execute(job, {
      type: "failed",
      ...at,
      fault: { code, message, retryable },
    })
  }

  settle(job: LiveJob): void {
    if (this.#settling.has(job)) return
    this.#settling.add(job)
    this.#untilStoreAnswers(job, () => this.#settle(job))
      .catch(error =>
        this.#logError(job, error, "could not notify the parent or the children of a job of its end"),
      )
      .finally(() => this.#settling.delete(job))
  }

  /**
   * Fails a job whose facts the store will never accept, from its state in the journal. One that was never stored is
   * dropped: its parent must not wait for it.
   */
  async failRefused(refused: LiveJob, error: unknown): Promise<void> {
    const { partitionOwner, log } = this.#parts
    const { code, message } = error instanceof UmbraError ? error : { code: "E502", message: String(error) }
    const fault: Fault = { code, message, retryable: false }
    try {
      const decided = await partitionOwner.withJob(refused.id, job =>
        partitionOwner.execute(job, { type: "fail_job", fault }),
      )
      if (decided === null) await this.#notifyParent(refused, async () => ({ type: "failed", fault }))
    } catch (failure) {
      log.error(
        { job_id: refused.id, error: String(failure) },
        "job quarantined: its failure could not be stored either",
      )
    }
  }

  /**
   * Deleting a job deletes its children too. They are deleted first: an interruption leaves a parent that can be deleted
   * again. For a job that has not ended, is deleted or does not meet the command's condition, nothing is hidden: the
   * command will be refused.
   */
  async hideChildren(jobId: string, { onlyIf }: DeleteCommand = { type: "delete" }): Promise<void> {
    const last = onlyIf?.seq ?? Number.POSITIVE_INFINITY
    await this.#parts.partitionOwner.withJob(jobId, async job => {
      if (job.turnSeq <= last) await this.#hideChildrenWith(job)
    })
  }

  async #hideChildrenWith({ id, state }: LiveJob): Promise<void> {
    if (!jobHasEnded(state.status) || state.status === "DELETED") return
    // The child's parent has ended; the child may just not have been notified yet.
    const reason = parentReason(id, state)
    const { partitionOwner } = this.#parts
    const parents: string[] = []
    await this.#withJobs(childIds(state), child => {
      void partitionOwner.execute(child, { type: "cancel", reason })
      if (childIds(child.state).length > 0) parents.push(child.id)
      else void partitionOwner.execute(child, { type: "delete" })
    })
    // In sequence: concurrently, a page of pages would be in memory.
    for (const child of parents) {
      await this.hideChildren(child)
      await partitionOwner.withJob(child, job => void partitionOwner.execute(job, { type: "delete" }))
    }
  }

  async #settle(job: LiveJob): Promise<void> {
    const { state } = job
    while (!job.evicted && state.unsettled) {
      const { seq } = job
      const isSame = () => !job.evicted && state.unsettled && job.seq === seq
      const reason = parentReason(job.id, state)
      const used: ChildUsage[] = []
      await this.#withJobs(state.orphans, child => {
        if (!isSame()) return
        void this.#parts.partitionOwner.execute(child, { type: "cancel", reason })
        used.push(...totalUsage(child))
      })
      await this.#notifyParent(job, () => this.#childResult(job), {
        ...{ isSame, used },
        // If the job was retried, and perhaps ended again, this starts over.
        notified: () => isSame() && void this.#parts.partitionOwner.execute(job, { type: "settle", used }),
      })
    }
  }

  async #childResult(child: LiveJob): Promise<Result> {
    if (!hasCompleted(child.state)) return { type: "failed", fault: childFault(child) }
    const { journal, maxOutputBytes } = this.#parts
    const { command, text } = await childResult(journal, child, maxOutputBytes)
    return text === undefined ? command : { ...command, text }
  }

  /** `notified`: called when the parent's facts are recorded, so that what it decides joins their commit. */
  async #notifyParent(
    child: LiveJob,
    readResult: () => Promise<Result>,
    { isSame = () => true, used = [], notified = () => {} }: NotifyOptions = {},
  ): Promise<void> {
    const link = child.state.parent
    if (link === null) return notified()
    const { partitionOwner, clock } = this.#parts
    const { text, ...result } = await readResult()
    const notify = async (parent: LiveJob) => {
      const { state } = parent
      // Both may have been due at the same moment: then the parent's own end counts.
      if (state.expiresAt !== null && state.expiresAt <= clock.now())
        await partitionOwner.execute(parent, { type: "wake" })
      const place = findTask(state, link)
      const waiting = place?.state.waiting.get(place.position)
      if (!isSame() || place === null) return
      if (waiting?.kind !== "child" || waiting.job_id !== child.id) {
        await partitionOwner.execute(parent, { type: "count_usage", used: totalUsage(child) })
        return
      }
      const at = { node: link.node, item: link.item, attempt: place.state.attempt[place.position]! }
      const ofOrphans = uncountedOfChildren(child.state, used)
      await partitionOwner.execute(
        parent,
        { ...at, ...result, ...usageFor(place.state, child, ofOrphans) },
        text,
      )
    }
    await partitionOwner.withJob<void>(link.job_id, parent => notify(parent).then(notified), notified)
  }

  /** One query for many jobs: there may be ten thousand. */
  async #withJobs(ids: readonly string[], use: (job: LiveJob) => void): Promise<void> {
    for (let from = 0; from < ids.length; from += PAGE) {
      const page = ids.slice(from, from + PAGE)
      this.#parts.partitionOwner.loader.prefetch(page)
      await Promise.all(page.map(id => this.#parts.partitionOwner.withJob(id, use)))
    }
  }

  /** Errors of jobs that moved to another engine are not logged: they continue there. */
  #logError(job: LiveJob, error: unknown, message: string): void {
    if (!job.evicted && !isMoved(error)) this.#parts.log.error({ job_id: job.id, error }, message)
  }

  #untilStoreAnswers(job: LiveJob, act: () => Promise<void>): Promise<void> {
    const { clock } = this.#parts
    return untilStoreAnswers(act, { pause: ms => sleep(clock, ms), isOver: () => job.evicted })
  }
}

interface NotifyOptions {
  readonly isSame?: () => boolean
  readonly used?: readonly ChildUsage[]
  readonly notified?: () => void
}

type Result = { readonly text?: string } & ChildResult["command"]

/** Children that are in memory at once to be notified of their parent's end. */
const PAGE = 250

function childIds({ children, lists }: JobState): string[] {
  return [...children.values(), ...[...lists.values()].flatMap(({ state }) => [...state.children.values()])]
}

function isMoved(error: unknown): boolean {
  return error instanceof UmbraError && error.code === "E610"
}
