import type { Command } from "../core/commands.ts"
import { placeOf, which } from "../core/item-list.ts"
import { isInFlight } from "../core/state.ts"
import { UmbraError } from "../errors.ts"
import type { Journal, MessageRow } from "../journal/port.ts"
import type { Log } from "../log.ts"
import type { Clock } from "./clock.ts"
import { partitionMoved } from "./holding.ts"
import { partitionOf } from "./ids.ts"
import type { LiveJob } from "./live-job.ts"
import type { Owner } from "./owner.ts"
import type { Plans } from "./plans.ts"
import type { Recovery } from "./recovery.ts"

/** What an owner answered to a command. */
export type Answer = { readonly accepted: true } | { readonly refused: string }

/** Commands for jobs of partitions that another process owns: sent as rows, answered in the commit that carries them out. */
export class Inbox {
  readonly #journal: Journal
  readonly #owner: Owner
  readonly #plans: Plans
  readonly #recovery: Recovery
  readonly #clock: Clock
  readonly #log: Log
  readonly #hideChildren: (jobId: string) => Promise<void>
  readonly #reading = new Set<number>()
  readonly #again = new Set<number>()

  constructor(parts: {
    journal: Journal
    owner: Owner
    plans: Plans
    recovery: Recovery
    clock: Clock
    log: Log
    /** Of a job that is about to be deleted. */
    hideChildren: (jobId: string) => Promise<void>
  }) {
    this.#journal = parts.journal
    this.#owner = parts.owner
    this.#plans = parts.plans
    this.#recovery = parts.recovery
    this.#clock = parts.clock
    this.#log = parts.log
    this.#hideChildren = parts.hideChildren
  }

  /** There may be messages for this partition. */
  async read(partition: number): Promise<void> {
    if (this.#reading.has(partition)) {
      this.#again.add(partition)
      return
    }
    this.#reading.add(partition)
    try {
      do {
        this.#again.delete(partition)
        const epoch = this.#epochOf(partition)
        await this.#carryOutAll(
          await this.#journal.readMessages({ partitions: [partition], limit: 1000 }),
          epoch,
        )
      } while (this.#again.has(partition))
    } catch (error) {
      this.#log.warn(
        { partition, error: String(error) },
        "could not read the inbox; the next beat tries again",
      )
    } finally {
      this.#reading.delete(partition)
    }
  }

  #epochOf(partition: number): number | undefined {
    return this.#owner.holdings.get(partition)?.epoch
  }

  /** What was read under an epoch that has passed may have been carried out by another owner since. */
  #mustHold(partition: number, epoch: number | undefined): void {
    if (epoch === undefined || this.#epochOf(partition) !== epoch) throw partitionMoved(partition)
  }

  /**
   * Those of one job in order, those of different jobs side by side: each waits for its commit, and one after the other a
   * thousand webhooks would take a thousand of them. Nobody reads again before all are done, or one could be acted on twice.
   */
  async #carryOutAll(messages: readonly MessageRow[], epoch: number | undefined): Promise<void> {
    const byJob = new Map<string, MessageRow[]>()
    for (const message of messages) {
      const known = byJob.get(message.jobId)
      if (known === undefined) byJob.set(message.jobId, [message])
      else known.push(message)
    }
    const done = await Promise.allSettled(
      [...byJob.values()].map(async list => {
        for (const message of list) await this.#carryOut(message, epoch)
      }),
    )
    for (const result of done) if (result.status === "rejected") throw result.reason
  }

  async #carryOut(message: MessageRow, epoch: number | undefined): Promise<void> {
    const answer = await this.#decide(message, epoch).catch(error => this.#unreadable(message, error))
    this.#owner.committer.answer(
      { partition: message.partition, jobId: message.jobId },
      message.id,
      JSON.stringify(answer),
    )
    // The next message may be for the same job: it is read again unless this answer is durable first.
    await this.#owner.committer.durable({ partition: message.partition, id: message.jobId })
    // What was loaded to refuse something has no fact under way that would let it go.
    const job = this.#owner.jobs.get(message.jobId)
    if (job !== undefined) this.#owner.letGo(job)
  }

  async #decide(message: MessageRow, epoch: number | undefined): Promise<Answer> {
    const command = JSON.parse(message.command) as Command
    const plan =
      command.type === "submit"
        ? await this.#plans.get(command.owner, command.workflow, command.workflowVersion)
        : null
    if (command.type === "delete") await this.#hideChildren(message.jobId)
    const job = await this.#recovery.load(message.jobId)
    this.#mustHold(message.partition, epoch)
    if (job === null) {
      if (command.type === "grant_slot") await this.#giveBack(message.jobId, command)
      if (command.type !== "submit" || plan === null) return { refused: "no_such_job" }
      this.#owner.submit(message.jobId, message.partition, plan, command)
      return { accepted: true }
    }
    const decided = await this.#owner.act(job, command)
    if (command.type === "grant_slot" && "refused" in decided && !needsSlot(job, command))
      await this.#giveBack(job.id, command)
    return "refused" in decided ? { refused: decided.refused } : { accepted: true }
  }

  /** Asked for by a node while its job ended: nobody else would ever release it. */
  async #giveBack(jobId: string, of: Parameters<typeof which>[0]): Promise<void> {
    await this.#journal.providers.releaseSlot({ jobId, ...which(of) })
  }

  /** A job that cannot be folded must not stand in the way of the messages behind it. */
  #unreadable(message: MessageRow, error: unknown): Answer {
    if (!(error instanceof UmbraError && error.code === "E507")) throw error
    this.#log.error(
      { job_id: message.jobId, error },
      "a command was refused: the job's journal cannot be read",
    )
    return { refused: "unreadable" }
  }

  ask(jobId: string, command: Command, timeoutMs: number): Promise<Answer> {
    return askOwner({ journal: this.#journal, clock: this.#clock }, jobId, command, timeoutMs)
  }
}

/** In a worker's hands, on its way there, or waiting: at its provider, or for whatever its handler said. */
function needsSlot({ state }: LiveJob, of: Parameters<typeof placeOf>[1]): boolean {
  const place = placeOf(state, of)
  if (place === null) return false
  return isInFlight(place.state, place.position) || place.state.waiting.has(place.position)
}

/** Sends a command to whoever owns the job, and waits for the answer. Needs no engine here. */
export async function askOwner(
  { journal, clock }: { readonly journal: Journal; readonly clock: Clock },
  jobId: string,
  command: Command,
  timeoutMs: number,
): Promise<Answer> {
  const sentAt = clock.now()
  const partition = partitionOf(jobId)
  const id = await journal.sendMessage({ partition, jobId, command: JSON.stringify(command), sentAt })
  for (let wait = 5; clock.now() - sentAt < timeoutMs; wait = Math.min(wait * 2, 250)) {
    const answer = await journal.readAnswer(id)
    if (answer !== null) return JSON.parse(answer) as Answer
    await new Promise<void>(resolve => clock.after(wait, resolve))
  }
  if (await journal.withdrawMessage(id))
    throw new UmbraError(
      "E613",
      "No engine answered in time; the command was taken back. Start an engine on this database and send it again.",
    )
  return JSON.parse((await journal.readAnswer(id))!) as Answer
}
