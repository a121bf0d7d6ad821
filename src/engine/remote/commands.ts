import type { Command, Submit } from "../../core/commands.ts"
import { jobHasEnded } from "../../core/states.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import type { Family } from "../children/family.ts"
import type { Clock } from "../clock.ts"
import type { Waiter } from "../commit/batch.ts"
import type { ForkPreparation } from "../forks/forks.ts"
import { jobPartition } from "../ids.ts"
import type { LiveJob } from "../owner/live-job.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import { pauseCommand } from "../owner/pause.ts"
import { Stored } from "../owner/snapshot.ts"
import type { ReadyPartitions } from "../partitions/ready-partitions.ts"
import { type ClaimExecution, placeForRetry } from "../pipeline-places.ts"
import type { Answer } from "./inbox.ts"
import { refusalError, throwIfRefused } from "./refusals.ts"
import type { Hurry, RemoteEngines } from "./remote-engines.ts"

/** Commands from callers, as opposed to reports of workers and timers. */
export type JobCommand = Extract<
  Command,
  { type: "cancel" | "retry" | "delete" | "signal" | "pause" | "resume" | "reschedule" | "describe" }
>

export interface CommandsParts {
  readonly partitionOwner: PartitionOwner
  readonly partitions: ReadyPartitions
  readonly remoteEngines: RemoteEngines
  readonly family: Family
  readonly forks: ForkPreparation
  readonly clock: Clock
  readonly claimExecution: ClaimExecution
  readonly mustBeOpen: () => void
}

/**
 * Requests from callers: new jobs, and commands to jobs. Each is executed by the owner of the job's partition, in this
 * process or another, and answered when it is durable.
 */
export class Commands {
  readonly #parts: CommandsParts

  constructor(parts: CommandsParts) {
    this.#parts = parts
  }

  /** Resolves when the job is durable. The id must be new. */
  submit(id: string, plan: Plan, command: Submit, hurry?: Hurry): Promise<Stored> {
    // One promise, resolved by the commit: an async function and its awaits would cost as much as the rest.
    return new Promise((resolve, reject) => {
      const { partitionOwner, partitions, mustBeOpen } = this.#parts
      mustBeOpen()
      const partition = jobPartition(id)
      // The partition may have moved since the id was made.
      if (!partitions.owns(partition)) return resolve(this.#submitElsewhere(id, command, hurry))
      const { createdAt, job } = this.#submitHere(id, plan, command)
      const durable = () => resolve(new Stored(id, command, createdAt, job ?? "QUEUED"))
      partitionOwner.committer.lane(partition).whenDurable({ partition, id }, { resolve: durable, reject })
    })
  }

  async #submitElsewhere(id: string, command: Submit, hurry: Hurry | undefined): Promise<Stored> {
    const { remoteEngines, clock } = this.#parts
    const createdAt = await remoteEngines.submit(id, command, hurry)
    return new Stored(id, command, createdAt ?? clock.now())
  }

  /** As `submit`, for one job of many: calls `ended` instead of returning a promise. */
  submitThen(id: string, plan: Plan, command: Submit, ended: Pick<Waiter, "resolve" | "reject">): void {
    const { partitionOwner, partitions } = this.#parts
    const partition = jobPartition(id)
    if (!partitions.owns(partition)) {
      this.submit(id, plan, command).then(ended.resolve, ended.reject)
      return
    }
    try {
      this.#parts.mustBeOpen()
      this.#submitHere(id, plan, command)
      partitionOwner.committer.lane(partition).whenDurable({ partition, id }, ended)
    } catch (error) {
      ended.reject(error)
    }
  }

  #submitHere(id: string, plan: Plan, command: Submit) {
    this.#mustBeAvailable()
    return this.#parts.partitionOwner.submit(id, jobPartition(id), plan, command)
  }

  /**
   * For an id that may have been submitted before: by another caller, or by a process that died. Then nothing changes,
   * and the answer is null. Its partition may have moved since the id was made; its current owner does the work.
   */
  async submitOnce(id: string, plan: Plan, command: Submit): Promise<Stored | null> {
    const { partitionOwner, partitions, remoteEngines, mustBeOpen } = this.#parts
    mustBeOpen()
    if (!partitions.owns(jobPartition(id))) {
      const createdAt = await remoteEngines.submit(id, command)
      return createdAt === null ? null : new Stored(id, command, createdAt)
    }
    const submitted = await partitionOwner.withJob(
      id,
      () => null,
      () => this.#submitHere(id, plan, command),
    )
    return submitted && new Stored(id, command, submitted.createdAt, submitted.job ?? "QUEUED")
  }

  /** Submits a fork, as `submitOnce`. Throws E301 if its origin does not exist any more. */
  async submitFork(id: string, plan: Plan, command: Submit): Promise<Stored | null> {
    const { partitionOwner, partitions, remoteEngines, forks, mustBeOpen } = this.#parts
    mustBeOpen()
    if (!partitions.owns(jobPartition(id))) {
      const createdAt = await remoteEngines.submit(id, command)
      return createdAt === null ? null : new Stored(id, command, createdAt)
    }
    const submit = async () => {
      this.#mustBeAvailable()
      const submitted = await forks.submit(id, plan, command, ({ command: whole, reused }) =>
        partitionOwner.submit(id, jobPartition(id), plan, whole, reused),
      )
      if (submitted === null) throw refusalError("no_such_job", command.fork!.job_id)
      return submitted
    }
    const submitted = await partitionOwner.withJob(id, () => null, submit)
    return submitted && new Stored(id, command, submitted.createdAt, submitted.job ?? "QUEUED")
  }

  async command(jobId: string, command: JobCommand): Promise<void> {
    const { partitions, remoteEngines, mustBeOpen } = this.#parts
    mustBeOpen()
    const answer = partitions.owns(jobPartition(jobId))
      ? await this.#executeHere(jobId, command)
      : await remoteEngines.command(jobId, command)
    throwIfRefused(answer, jobId)
  }

  async #executeHere(jobId: string, command: JobCommand): Promise<Answer> {
    const { partitionOwner, family, claimExecution } = this.#parts
    if (command.type === "delete") await family.hideChildren(jobId, command)
    const answer = await partitionOwner.withJob(jobId, job =>
      decide(job, command, partitionOwner, claimExecution),
    )
    return answer ?? { refused: "no_such_job" }
  }

  #mustBeAvailable(): void {
    if (!this.#parts.partitionOwner.store.isAvailable)
      throw new UmbraError(
        "E611",
        "The database is unavailable and the engine has paused; try again when the database is back.",
      )
  }
}

/** Decides on a command that a caller waits for. A retried execution of a pipeline needs a place again. */
export async function decide(
  job: LiveJob,
  command: Command,
  partitionOwner: PartitionOwner,
  claim: ClaimExecution,
): Promise<Answer> {
  const releasePlace = command.type === "retry" ? await placeForRetry(job, claim) : null
  const decided = await partitionOwner.execute(
    job,
    command.type === "pause" ? pauseCommand(job, command, partitionOwner) : command,
  )
  if (!("refused" in decided)) return { accepted: true }
  if (jobHasEnded(job.state.status)) await releasePlace?.()
  return { refused: decided.refused }
}
