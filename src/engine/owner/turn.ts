import { addJobResult, apply } from "../../core/apply/apply.ts"
import type { AttemptRef, Command, DecisionContext, Refusal } from "../../core/commands.ts"
import { decide } from "../../core/decide/decide.ts"
import type { Effect } from "../../core/effects.ts"
import type { Fact } from "../../core/facts.ts"
import { attemptRef } from "../../core/state.ts"
import type { Limits } from "../../template/types.ts"
import type { Clock } from "../clock.ts"
import { type Batch, partitionMoved } from "../commit/batch.ts"
import type { AppendLane, Committer } from "../commit/committer.ts"
import type { Dispatcher } from "../dispatch/dispatcher.ts"
import { nothingRead, type ReadOutputs, renderJobOutput, unreadOutputs } from "../dispatch/render.ts"
import type { LiveJob } from "./live-job.ts"

export type Decided = readonly Fact[] | Refusal

export interface TurnParts {
  readonly clock: Clock
  readonly committer: Committer
  readonly dispatcher: Dispatcher
  readonly templateLimits: Limits
  readonly owner: TurnOwner
}

/** The owner of the jobs, which knows what they do at workers and providers. */
export interface TurnOwner {
  contextFor(job: LiveJob, command: Command): DecisionContext
  /** Is the attempt with a worker, or on its way to one or back? */
  isDispatched(job: LiveJob, attemptRef: AttemptRef): boolean
  abort(job: LiveJob, attemptRef: AttemptRef): void
  ended(job: LiveJob): void
  /** The facts of the command are applied and recorded. */
  decided(job: LiveJob, command: Command, outputText: string | undefined): void
  /** The job's state is half changed. */
  quarantine(job: LiveJob, error: unknown): void
}

/**
 * The turn of a command: decide → append → act.
 *
 * 1. Facts are applied when decided; effects wait until the batch with their facts is durable. A node that only computes
 *    has no effect outside, and may begin before (`Dispatcher.dispatchEarly`).
 * 2. Between a decision and its record nothing else acts on the job. The output of a job is rendered in between, from the
 *    state that shows the job's end; outputs that are not in memory are read before, and the command is decided again.
 */
export class Turns {
  readonly #parts: TurnParts

  constructor(parts: TurnParts) {
    this.#parts = parts
  }

  /** Returns a promise only if outputs must be read first. */
  execute(
    job: LiveJob,
    command: Command,
    outputText: string | undefined,
    read: ReadOutputs = nothingRead,
  ): Decided | Promise<Decided> {
    const { committer, dispatcher, owner } = this.#parts
    if (job.evicted) throw partitionMoved(job.partition)
    const facts = decide(job.state, command, owner.contextFor(job, command))
    if ("refused" in facts) return facts
    const unread = unreadOutputs(job, facts, read)
    if (unread.length > 0)
      return dispatcher
        .readOutputs(job, unread)
        .then(more => this.execute(job, command, outputText, new Map([...read, ...more])))
    const lane = committer.lane(job.partition)
    lane.closeIfFull()
    try {
      for (const fact of facts) {
        const wasOpen = job.state.finishedAt === null
        lane.record(job, this.#apply(lane, job, fact, read), outputText)
        if (wasOpen && job.state.finishedAt !== null) lane.recordEnd(job)
      }
    } catch (error) {
      owner.quarantine(job, error)
      throw error
    }
    owner.decided(job, command, outputText)
    return facts
  }

  /** Returns the fact to record: the one that completes a job carries the job's output. */
  #apply(lane: AppendLane, job: LiveJob, fact: Fact, read: ReadOutputs): Fact {
    const effects: Effect[] = []
    const wasOpen = job.state.finishedAt === null
    apply(job.state, fact, effects)
    for (const effect of effects) this.#add(lane, job, effect)
    if (job.plan.output === null || !wasOpen || job.state.status !== "COMPLETED") return fact
    // A fork that has nothing to run: its submission was made with the result.
    if (fact.type === "job_submitted") return fact
    return addJobResult(job.state, fact, renderJobOutput(job, read, this.#parts.templateLimits))
  }

  /** Rows for operations at providers join the commit; everything else is performed when the commit is durable. */
  #add(lane: AppendLane, job: LiveJob, effect: Effect): void {
    switch (effect.type) {
      case "dispatch":
        if (lane.isBehind || !this.#parts.dispatcher.dispatchEarly(job, attemptRef(effect)))
          lane.addEffect(job, effect)
        break
      case "hold":
        break
      case "abort":
      case "end":
        lane.addEffect(job, effect)
        break
      case "unanswered":
        if (!effect.isSubmitted && !this.#parts.owner.isDispatched(job, attemptRef(effect))) break
        lane.operations.addEffect(job, effect, this.#parts.clock.now())
        break
      default:
        lane.operations.addEffect(job, effect, this.#parts.clock.now())
    }
  }

  /** Performs the effects of a batch that is durable. */
  perform({ effects, effectJobs }: Batch): void {
    const { dispatcher, owner } = this.#parts
    for (let i = 0; i < effects.length; i++) {
      const [job, effect] = [effectJobs[i]!, effects[i]!]
      if (job.evicted) continue
      if (effect.type === "dispatch") dispatcher.dispatch(job, attemptRef(effect))
      else if (effect.type === "abort") owner.abort(job, attemptRef(effect))
      else owner.ended(job)
    }
  }
}

type CommandTypes = ReadonlySet<Command["type"]>

/** Commands that change what people see of a job in lists, besides its state. */
export const ABOUT_JOB: CommandTypes = new Set(["pause", "resume", "reschedule", "describe"] as const)

/** Commands that may end attempts other than their own. A plain completion never does, and skips this work. */
export const MAY_END_ATTEMPTS: CommandTypes = new Set([
  ...(["failed", "external", "wake", "recover", "hand_over", "fail_job", "cancel"] as const),
])
