import type { Command, External, Submit } from "../../core/commands.ts"
import { needsSlot } from "../../core/item-list.ts"
import type { TaskRef } from "../../core/state.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import { messageCommand } from "../../journal/message-command.ts"
import type { Journal, MessageRow } from "../../journal/port/journal.ts"
import type { Log } from "../../log.ts"
import type { Family } from "../children/family.ts"
import { partitionMoved } from "../commit/batch.ts"
import type { ForkPreparation } from "../forks/forks.ts"
import { JobArtifacts } from "../owner/job-artifacts.ts"
import type { LiveJob } from "../owner/live-job.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import { type ClaimExecution, isFull } from "../pipeline-places.ts"
import type { Plans } from "../plans.ts"
import { decide } from "./commands.ts"

/** An owner's answer to a command; for a submission also the creation time of the job. */
export type Answer = { readonly accepted: true; readonly created_at?: number } | { readonly refused: string }

export interface InboxParts {
  readonly journal: Journal
  readonly partitionOwner: PartitionOwner
  readonly plans: Plans
  readonly log: Log
  readonly family: Family
  readonly forks: ForkPreparation
  readonly claimExecution: ClaimExecution
  readonly now: () => number
}

/** Executes commands that other processes sent to partitions owned here, and answers them in the same commit. */
export class Inbox {
  readonly #parts: InboxParts
  readonly #artifacts: JobArtifacts
  readonly #reading = new Set<number>()
  readonly #readAgain = new Set<number>()

  constructor(parts: InboxParts) {
    this.#parts = parts
    this.#artifacts = new JobArtifacts(parts.journal, parts.now)
  }

  /** Reads the inbox of this partition. */
  async read(partition: number): Promise<void> {
    if (this.#reading.has(partition)) {
      this.#readAgain.add(partition)
      return
    }
    this.#reading.add(partition)
    try {
      do {
        this.#readAgain.delete(partition)
        const epoch = this.#epoch(partition)
        await this.#executeAll(
          await this.#parts.journal.readMessages({ partitions: [partition], limit: 1000 }),
          epoch,
        )
      } while (this.#readAgain.has(partition))
    } catch (error) {
      this.#parts.log.warn(
        { partition, error: String(error) },
        "could not read the inbox; retrying with the next heartbeat",
      )
    } finally {
      this.#reading.delete(partition)
    }
  }

  #epoch(partition: number): number | undefined {
    return this.#parts.partitionOwner.owned.get(partition)?.epoch
  }

  /** A message that was read under an earlier epoch may have been executed by another owner since. */
  #checkEpoch(partition: number, epoch: number | undefined): void {
    if (epoch === undefined || this.#epoch(partition) !== epoch) throw partitionMoved(partition)
  }

  /**
   * Messages of one job run in order, those of different jobs concurrently: each waits for its commit, and in sequence a
   * thousand webhooks would take a thousand commits. The inbox is not read again before all are done, or a message could
   * be executed twice.
   */
  async #executeAll(messages: readonly MessageRow[], epoch: number | undefined): Promise<void> {
    this.#parts.partitionOwner.loader.prefetch(messages.map(({ jobId }) => jobId))
    const byJob = new Map<string, MessageRow[]>()
    for (const message of messages) {
      const known = byJob.get(message.jobId)
      if (known === undefined) byJob.set(message.jobId, [message])
      else known.push(message)
    }
    const done = await Promise.allSettled(
      [...byJob.values()].map(async list => {
        for (const message of list) await this.#execute(message, epoch)
      }),
    )
    for (const result of done) if (result.status === "rejected") throw result.reason
  }

  /** The next message may be for the same job: this one would be read again unless its answer is durable first. */
  async #execute(message: MessageRow, epoch: number | undefined): Promise<void> {
    const { jobId, partition } = message
    try {
      const command = messageCommand(message)
      const plan = command.type === "submit" ? await this.#parts.plans.ofCommand(command) : null
      if (command.type === "delete") await this.#parts.family.hideChildren(jobId, command)
      await this.#parts.partitionOwner.withJob<void>(
        jobId,
        async job => {
          const checked = command.type === "external" ? await this.#withArtifacts(job, command) : command
          this.#checkEpoch(partition, epoch)
          this.#answer(message, await this.#decide(job, checked))
        },
        async () => {
          this.#checkEpoch(partition, epoch)
          if (command.type === "submit" && command.fork !== undefined)
            await this.#submitFork(message, plan!, command, epoch)
          else this.#answer(message, await this.#decideWithoutJob(message, command, plan))
        },
      )
    } catch (error) {
      this.#answer(message, this.#unreadable(message, error))
      await this.#parts.partitionOwner.committer.durable({ partition, id: jobId })
    }
  }

  async #withArtifacts(job: LiveJob, command: External): Promise<External> {
    const result = await this.#artifacts.result(job.state.owner, command.result)
    // Its memory was discarded meanwhile; the message is read again.
    if (job.evicted) throw partitionMoved(job.partition)
    return { ...command, result }
  }

  #answer({ id, partition, jobId }: MessageRow, answer: Answer): void {
    this.#parts.partitionOwner.committer
      .lane(partition)
      .answer({ partition, jobId }, id, JSON.stringify(answer))
  }

  async #decide(job: LiveJob, command: Command): Promise<Answer> {
    const answer = await decide(job, command, this.#parts.partitionOwner, this.#parts.claimExecution).catch(
      error => {
        if (isFull(error)) return { refused: "no_place" }
        throw error
      },
    )
    if (command.type === "grant_slot" && "refused" in answer && !needsSlot(job.state, command)) {
      // Not before the end of the node is durable: the same append may move the slot to a submission whose outcome is unknown.
      // If it is lost, another owner has the job, and gets the message again.
      await this.#parts.partitionOwner.durable(job)
      await this.#releaseSlot(job.id, command)
      for (const provider of job.plan.providers)
        void this.#parts.partitionOwner.external.slots.grant(provider)
    }
    return answer
  }

  async #decideWithoutJob(
    { jobId, partition }: MessageRow,
    command: Command,
    plan: Plan | null,
  ): Promise<Answer> {
    if (command.type === "grant_slot") await this.#releaseSlot(jobId, command)
    if (command.type !== "submit" || plan === null) return { refused: "no_such_job" }
    const { createdAt } = this.#parts.partitionOwner.submit(jobId, partition, plan, command)
    return { accepted: true, created_at: createdAt }
  }

  /** The answer joins the commit of the fork. */
  async #submitFork(
    message: MessageRow,
    plan: Plan,
    command: Submit,
    epoch: number | undefined,
  ): Promise<void> {
    const { partitionOwner, forks } = this.#parts
    const { jobId, partition } = message
    const submitted = await forks.submit(jobId, plan, command, ({ command: whole, reused }) => {
      this.#checkEpoch(partition, epoch)
      const { createdAt } = partitionOwner.submit(jobId, partition, plan, whole, reused)
      this.#answer(message, { accepted: true, created_at: createdAt })
      return true
    })
    if (submitted === null) this.#answer(message, { refused: "no_such_job" })
  }

  /** Releases a slot that a node requested while it or its job ended: no other code would release it. */
  async #releaseSlot(jobId: string, { node, item }: TaskRef): Promise<void> {
    await this.#parts.journal.providers.releaseSlot({ jobId, node, item })
  }

  /** A job that cannot be folded must not block the messages behind it. */
  #unreadable(message: MessageRow, error: unknown): Answer {
    if (!(error instanceof UmbraError && error.code === "E507")) throw error
    this.#parts.log.error(
      { job_id: message.jobId, error },
      "command rejected: the job's journal cannot be read",
    )
    return { refused: "unreadable" }
  }
}
