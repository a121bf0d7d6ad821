import { needsSlot, taskRef } from "../../core/item-list.ts"
import { jobHasEnded } from "../../core/states.ts"
import { UmbraError } from "../../errors.ts"
import { messageCommand } from "../../journal/message-command.ts"
import type { Journal, MessageRow } from "../../journal/port/journal.ts"
import type { Log } from "../../log.ts"
import { partitionMoved } from "../commit/owned-partition.ts"
import type { LiveJob } from "../owner/live-job.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import { type ClaimExecution, isFull, placeForRetry } from "../pipeline-places.ts"
import type { Plans } from "../plans.ts"
import type { Recovery } from "../recovery/recovery.ts"

/** An owner's answer to a command; for a submission also the creation time of the job. */
export type Answer = { readonly accepted: true; readonly created_at?: number } | { readonly refused: string }

/** Executes commands that other processes sent to partitions owned here, and answers them in the same commit. */
export class Inbox {
  readonly #journal: Journal
  readonly #owner: PartitionOwner
  readonly #plans: Plans
  readonly #recovery: Recovery
  readonly #log: Log
  readonly #hasRoom: () => boolean
  readonly #hideChildren: (jobId: string) => Promise<void>
  readonly #claimExecution: ClaimExecution
  readonly #freed: (providers: readonly string[]) => void
  readonly #reading = new Set<number>()
  readonly #readAgain = new Set<number>()

  constructor(parts: {
    journal: Journal
    owner: PartitionOwner
    plans: Plans
    recovery: Recovery
    log: Log
    /** May another job be loaded into memory? */
    hasRoom: () => boolean
    /** Called for a job that is about to be deleted. */
    hideChildren: (jobId: string) => Promise<void>
    claimExecution: ClaimExecution
    /** These providers have a free slot. */
    freed: (providers: readonly string[]) => void
  }) {
    this.#journal = parts.journal
    this.#owner = parts.owner
    this.#plans = parts.plans
    this.#recovery = parts.recovery
    this.#log = parts.log
    this.#hasRoom = parts.hasRoom
    this.#hideChildren = parts.hideChildren
    this.#claimExecution = parts.claimExecution
    this.#freed = parts.freed
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
          await this.#journal.readMessages({ partitions: [partition], limit: 1000 }),
          epoch,
        )
      } while (this.#readAgain.has(partition))
    } catch (error) {
      this.#log.warn(
        { partition, error: String(error) },
        "could not read the inbox; retrying with the next heartbeat",
      )
    } finally {
      this.#reading.delete(partition)
    }
  }

  #epoch(partition: number): number | undefined {
    return this.#owner.owned.get(partition)?.epoch
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
    this.#recovery.prefetch(messages.map(({ jobId }) => jobId))
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

  async #execute(message: MessageRow, epoch: number | undefined): Promise<void> {
    const answer = await this.#decide(message, epoch).catch(error => this.#unreadable(message, error))
    this.#owner.committer
      .lane(message.partition)
      .answer({ partition: message.partition, jobId: message.jobId }, message.id, JSON.stringify(answer))
    // The next message may be for the same job: this one would be read again unless its answer is durable first.
    await this.#owner.committer.durable({ partition: message.partition, id: message.jobId })
    // A job that was loaded only to reject a command has no pending fact that would park it.
    const job = this.#owner.jobs.get(message.jobId)
    if (job !== undefined) this.#owner.parkIfIdle(job)
  }

  async #decide(message: MessageRow, epoch: number | undefined): Promise<Answer> {
    const command = messageCommand(message)
    const plan =
      command.type === "submit"
        ? await this.#plans.get(command.owner, command.workflow, command.workflowVersion)
        : null
    if (command.type === "delete") await this.#hideChildren(message.jobId)
    const loaded = await this.#recovery.load(message.jobId)
    this.#checkEpoch(message.partition, epoch)
    // A caller that waited for the same load, and continued first, may have submitted it.
    const job = loaded ?? this.#owner.jobs.get(message.jobId)
    if (job === undefined) {
      if (command.type === "grant_slot") await this.#releaseSlot(message.jobId, command)
      if (command.type !== "submit" || plan === null) return { refused: "no_such_job" }
      if (!this.#hasRoom()) return { refused: "no_room" }
      const { state } = this.#owner.submit(message.jobId, message.partition, plan, command)
      return { accepted: true, created_at: state.createdAt }
    }
    if (command.type === "retry") return this.#retry(job, message, epoch)
    const decided = await this.#owner.execute(job, command)
    if (command.type === "grant_slot" && "refused" in decided && !needsSlot(job.state, command)) {
      await this.#releaseSlot(job.id, command)
      this.#freed(job.plan.providers)
    }
    return "refused" in decided ? { refused: decided.refused } : { accepted: true }
  }

  /** A retried execution of a pipeline needs a place again. */
  async #retry(loaded: LiveJob, message: MessageRow, epoch: number | undefined): Promise<Answer> {
    const releasePlace = await placeForRetry(loaded, this.#claimExecution).catch(error => {
      if (!isFull(error)) throw error
      return "none" as const
    })
    if (releasePlace === "none") return { refused: "no_place" }
    this.#checkEpoch(message.partition, epoch)
    // The job may have left memory while the place was claimed.
    const job = loaded.evicted ? await this.#recovery.load(message.jobId) : loaded
    this.#checkEpoch(message.partition, epoch)
    if (job === null) return { refused: "no_such_job" }
    const decided = await this.#owner.execute(job, { type: "retry" })
    if ("refused" in decided && jobHasEnded(job.state.status)) await releasePlace?.()
    return "refused" in decided ? { refused: decided.refused } : { accepted: true }
  }

  /** Releases a slot that a node requested while it or its job ended: no other code would release it. */
  async #releaseSlot(jobId: string, of: Parameters<typeof taskRef>[0]): Promise<void> {
    await this.#journal.providers.releaseSlot({ jobId, ...taskRef(of) })
  }

  /** A job that cannot be folded must not block the messages behind it. */
  #unreadable(message: MessageRow, error: unknown): Answer {
    if (!(error instanceof UmbraError && error.code === "E507")) throw error
    this.#log.error({ job_id: message.jobId, error }, "command rejected: the job's journal cannot be read")
    return { refused: "unreadable" }
  }
}
