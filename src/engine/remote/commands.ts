import type { Command, Submit } from "../../core/commands.ts"
import { jobHasEnded } from "../../core/states.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import type { Family } from "../children/family.ts"
import type { Clock } from "../clock.ts"
import { partitionOf } from "../ids.ts"
import type { LiveJob } from "../owner/live-job.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import { Stored } from "../owner/snapshot.ts"
import { type ClaimExecution, placeForRetry } from "../pipeline-places.ts"
import type { Recovery } from "../recovery/recovery.ts"
import type { Answer } from "./inbox.ts"
import { refusalError } from "./refusals.ts"
import type { Hurry, RemoteEngines } from "./remote-engines.ts"

/** Commands that come from outside, as opposed to what workers and timers say. */
export type JobCommand = Extract<Command, { type: "cancel" | "retry" | "delete" | "signal" }>

export interface RequestsParts {
  readonly owner: PartitionOwner
  readonly owns: (partition: number) => boolean
  readonly elsewhere: RemoteEngines
  readonly recovery: Recovery
  readonly family: Family
  readonly clock: Clock
  readonly maxLiveJobs: number
  readonly claimExecution: ClaimExecution
  /** Does the database answer? */
  readonly isAvailable: () => boolean
  readonly mustBeOpen: () => void
}

/**
 * What is asked of this engine from outside: new jobs, and commands to jobs. It is done where the job's partition is owned,
 * here or elsewhere, and answered when it is durable.
 */
export class Commands {
  readonly #parts: RequestsParts

  constructor(parts: RequestsParts) {
    this.#parts = parts
  }

  /** Resolves when the job is durable. The id is a new one. */
  async submit(id: string, plan: Plan, command: Submit, hurry?: Hurry): Promise<Stored> {
    const { owner, owns, elsewhere, clock, mustBeOpen } = this.#parts
    mustBeOpen()
    const partition = partitionOf(id)
    // It may have moved since the id was made.
    if (!owns(partition)) {
      const createdAt = await elsewhere.submit(id, command, hurry)
      return new Stored(id, command, createdAt ?? clock.now())
    }
    this.#mustHaveRoom()
    const job = owner.submit(id, partition, plan, command)
    await owner.committer.durable(job)
    return new Stored(id, command, job.state.createdAt, job)
  }

  /**
   * For an id that may have been submitted before: by another caller, or by a process that died. Then nothing changes,
   * and the answer is null. Its partition may have moved since the id was made; whoever owns it now does the work.
   */
  async submitOnce(id: string, plan: Plan, command: Submit): Promise<Stored | null> {
    const { owner, owns, elsewhere, recovery, mustBeOpen } = this.#parts
    mustBeOpen()
    if (!owns(partitionOf(id))) {
      const createdAt = await elsewhere.submit(id, command)
      return createdAt === null ? null : new Stored(id, command, createdAt)
    }
    const loaded = await recovery.load(id)
    // Who waited for the same look, and went on first, has made it.
    const job = loaded ?? owner.jobs.get(id)
    if (job === undefined) return this.submit(id, plan, command)
    await owner.committer.durable(job)
    owner.parkIfIdle(job)
    return null
  }

  async command(jobId: string, command: JobCommand): Promise<void> {
    const { owns, elsewhere, mustBeOpen } = this.#parts
    mustBeOpen()
    const answer = owns(partitionOf(jobId))
      ? await this.#here(jobId, command)
      : await elsewhere.command(jobId, command)
    if ("refused" in answer) throw refusalError(answer.refused, jobId)
  }

  async #here(jobId: string, command: JobCommand): Promise<Answer> {
    const { owner, recovery, family } = this.#parts
    if (command.type === "delete") await family.hideChildren(jobId)
    const job = await recovery.load(jobId)
    if (job === null) return { refused: "no_such_job" }
    const giveBack = command.type === "retry" ? await this.#placeForRetry(job) : null
    // It has left memory while the place was asked for, which is held now.
    if (job.evicted && giveBack !== null) return this.#here(jobId, command)
    const decided = await owner.execute(job, command)
    await owner.committer.durable(job)
    if ("refused" in decided && jobHasEnded(job.state.status)) await giveBack?.()
    owner.parkIfIdle(job)
    return "refused" in decided ? { refused: decided.refused } : { accepted: true }
  }

  async #placeForRetry(job: LiveJob): Promise<(() => Promise<void>) | null> {
    const { owner, claimExecution } = this.#parts
    try {
      return await placeForRetry(job, claimExecution)
    } catch (error) {
      owner.parkIfIdle(job)
      throw error
    }
  }

  #mustHaveRoom(): void {
    const { owner, maxLiveJobs, isAvailable } = this.#parts
    if (!isAvailable())
      throw new UmbraError(
        "E611",
        "The database is away and the engine has paused; try again when it is back.",
      )
    if (owner.jobs.size >= maxLiveJobs)
      throw new UmbraError(
        "E611",
        `The engine has ${maxLiveJobs} jobs in progress and takes no more for now; try again shortly.`,
      )
  }
}
