import { apply } from "../../core/apply/apply.ts"
import type { ReusedValues } from "../../core/apply/fork.ts"
import type { JobResult, Submit } from "../../core/commands.ts"
import { submission } from "../../core/decide/decide.ts"
import { completedPart, jobResults } from "../../core/fork.ts"
import type { Json } from "../../core/json.ts"
import { type JobState, largeParts, newJobState } from "../../core/state.ts"
import { decideFork, recordFork } from "../../definition/fork.ts"
import type { Plan } from "../../definition/plan.ts"
import { defaultLimits } from "../../template/index.ts"
import { inTurns } from "../../turns.ts"
import type { Clock } from "../clock.ts"
import { partitionMoved } from "../commit/batch.ts"
import { renderJobOutput } from "../dispatch/render.ts"
import { newLiveJob } from "../owner/live-job.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import { foldJob, type LoadParts, readJobs, readOutput } from "../recovery/fold.ts"
import { readReused } from "./reused.ts"

export interface ForksParts {
  readonly partitionOwner: PartitionOwner
  readonly load: LoadParts
  readonly clock: Clock
  readonly maxOutputBytes: number
}

/** A fork that can be submitted now: everything that it takes over is there. */
export interface PreparedFork {
  readonly command: Submit
  readonly reused: ReusedValues
}

/**
 * Prepares forks for submission, in the process that owns their partition, which is that of their origin.
 *
 * 1. The origin is in memory until the fork is durable, so retention cannot remove it meanwhile; nor what the origin itself
 *    refers to, which is held as long as the origin exists.
 * 2. The fork is one append: its first fact, its row, and the rows that hold what it refers to.
 */
export class ForkPreparation {
  readonly #parts: ForksParts

  constructor(parts: ForksParts) {
    this.#parts = parts
  }

  /** Calls `submit` when all is read; it must submit without waiting. null: the origin does not exist any more. */
  submit<T>(id: string, plan: Plan, command: Submit, submit: (fork: PreparedFork) => T): Promise<T | null> {
    const { partitionOwner } = this.#parts
    return partitionOwner.withJob(command.fork!.job_id, async origin => {
      if (origin.state.status === "DELETED" || origin.state.owner !== command.owner) return null
      const prepared = await this.prepare(id, plan, command)
      if (origin.evicted) throw partitionMoved(origin.partition)
      return submit(prepared)
    })
  }

  /** Reads what the fork takes over. The caller keeps the origin in memory. */
  async prepare(id: string, plan: Plan, command: Submit): Promise<PreparedFork> {
    const { load, clock } = this.#parts
    const state = newJobState(plan)
    apply(state, submission(command, clock.now()))
    const reused = await readReused(load, state, command.fork!)
    if (state.unfinished > 0 || plan.output === null) return { command, reused }
    return { command: { ...command, result: await this.#result(id, plan, state) }, reused }
  }

  /**
   * The child of a fork, as a fork of the child that its node had in the origin. The fork holds that job. null: nothing of
   * it can be taken over.
   */
  async ofChild(
    id: string,
    originId: string,
    { plan, command }: { readonly plan: Plan; readonly command: Submit },
  ): Promise<PreparedFork | null> {
    const rows = (await readJobs(this.#parts.load, [originId])).get(originId)
    if (rows === undefined || plan.pipeline !== null) return null
    const { plan: before, state, facts } = await foldJob(this.#parts.load, rows)
    if (before.pipeline !== null || state.workflow !== command.workflow) return null
    const results = jobResults(originId, state, facts)
    const none = {
      from: new Set<string>(),
      pinned: new Set<string>(),
      reuse: new Set<string>(),
      items: new Map(),
    }
    const decisions = await inTurns(
      decideFork(
        { plan: before, input: state.input, done: node => completedPart(state, results, node) },
        // The handlers are not known here: each may read the input.
        { plan, input: command.input, ...none, readsInput: () => true },
      ),
    )
    const origin = { jobId: originId, plan: before, state, results }
    const { fork, pinned } = recordFork(origin, { plan, decisions, outputs: new Map(), items: none.items })
    return this.prepare(id, plan, { ...command, fork, pinned: pinned.length === 0 ? undefined : pinned })
  }

  /** The output of a fork that has nothing to run. */
  async #result(id: string, plan: Plan, state: JobState): Promise<JobResult> {
    const { load, maxOutputBytes } = this.#parts
    const read = new Map<number, Json>()
    for (const output of state.outputs)
      for (const large of largeParts(output)) read.set(large.seq, await readOutput(load.journal, id, large))
    const job = newLiveJob({ id, partition: 0, plan, state })
    return renderJobOutput(job, read, { ...defaultLimits, bytes: maxOutputBytes })
  }
}
