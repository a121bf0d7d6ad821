import { attemptName, type Broker, type Task, type TaskName } from "../../broker/port.ts"
import type { Command } from "../../core/commands.ts"
import type { Fault } from "../../core/faults.ts"
import { needsSlot } from "../../core/item-list.ts"
import { isCurrent, taskKey } from "../../core/state.ts"
import { jobHasEnded } from "../../core/states.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { OperationName } from "../../journal/port/providers.ts"
import type { Log } from "../../log.ts"
import { type Clock, untilStoreAnswers } from "../clock.ts"
import type { JobOwner, LiveJob } from "../owner/live-job.ts"
import type { OwnerEngine } from "../owner/owner-parts.ts"
import { type Providers, type ProviderTerms, usesSlots } from "./providers.ts"
import { ProviderRate } from "./rate.ts"
import type { Slots } from "./slots.ts"

export interface CapacityParts {
  readonly journal: Journal
  readonly clock: Clock
  readonly log: Log
  readonly slots: Slots
  readonly providers: Pick<Providers, "terms">
  /** See the settings of the engine. */
  readonly guardMs: number
  readonly owner: JobOwner
  readonly broker: Pick<Broker, "dispatch">
  readonly engine: Pick<OwnerEngine, "inboxChanged">
}

/**
 * A node with a provider is dispatched when it has a slot and its place in the provider's rate (X5, X6).
 *
 * 1. Only nodes with a provider pass through here: the others pay nothing.
 * 2. A slot belongs to the node, not to a process: a request repeated after a crash finds the slot held.
 * 3. A node without a slot records that it waits and then requests the slot once more: a grant that arrived in between
 *    was refused, since the node was not known to wait.
 */
export class Capacity {
  readonly #parts: CapacityParts
  readonly rate: ProviderRate
  readonly #timers = new Set<() => void>()
  /** Tasks that wait for a place in the rate of their provider, by name. */
  readonly #inRate = new Map<string, { readonly provider: string; readonly owner: string }>()

  constructor(parts: CapacityParts) {
    this.#parts = parts
    this.rate = new ProviderRate({
      ...parts,
      untilStoreAnswers: ask => this.#untilStoreAnswers(ask),
      until: at => this.#until(at),
    })
  }

  admit(job: LiveJob, task: Task, terms: ProviderTerms): void {
    this.#admit(job, task, terms).catch(error => this.#parts.owner.quarantine(job, error))
  }

  async #admit(job: LiveJob, task: Task, terms: ProviderTerms): Promise<void> {
    const { owner, broker } = this.#parts
    const { node, item, attempt } = task
    if (usesSlots(terms) && !(await this.#hasSlot(job, task))) {
      if (!isWanted(job, task)) return this.#releaseSlot(job, task)
      job.running.delete(taskKey(task))
      owner.command(job, { type: "await_slot", node, item, attempt, provider: task.provider! })
      await owner.durable(job)
      if (await this.#hasSlot(job, task)) await this.#resendGrant(job, task)
      return
    }
    await this.#waitForRate(task, terms)
    // After a pause and a resume there are two requests: the attempt of the other may have ended.
    if (isWanted(job, task) && !owner.pendingDecisions.has(job.id, task)) broker.dispatch(task)
    else await this.#releaseSlot(job, task)
  }

  /** The provider whose rate the task waits for, and the time before which it has no place; null: it does not wait. */
  rateWait(task: TaskName): { readonly provider: string; readonly until: number | null } | null {
    const { provider, owner } = this.#inRate.get(attemptName(task)) ?? {}
    return provider === undefined ? null : { provider, until: this.rate.notBefore(provider, owner!) }
  }

  async #waitForRate(task: Task, terms: ProviderTerms): Promise<void> {
    const name = attemptName(task)
    const place = { provider: task.provider!, owner: task.owner }
    this.#inRate.set(name, place)
    try {
      await this.rate.waitForPlace({ ...place, ...terms })
    } finally {
      this.#inRate.delete(name)
    }
  }

  #hasSlot(job: LiveJob, task: Task): Promise<boolean> {
    const { id: jobId, partition, state } = job
    const { node, item } = task
    const request = { jobId, node, item, partition, owner: state.owner }
    return this.#untilStoreAnswers(() => this.#parts.slots.request(task.provider!, request))
  }

  /** The job may have left memory by now: the message in its inbox loads it again. */
  async #resendGrant(job: LiveJob, task: Task): Promise<void> {
    const { journal, clock } = this.#parts
    const { id, partition } = job
    const { node, item } = task
    const command = JSON.stringify({ type: "grant_slot", node, item } satisfies Command)
    await this.#untilStoreAnswers(() =>
      journal.sendMessages([{ partition, jobId: id, command, sentAt: clock.now() }]),
    )
    this.#parts.engine.inboxChanged([partition])
  }

  /**
   * Releases a slot that was requested after the end of the job, or of the node, had released everything: the webhook of
   * an operation that was about to be submitted again had ended it. A job that has only moved keeps its slot.
   */
  async #releaseSlot(job: LiveJob, task: Task): Promise<void> {
    const { node, item } = task
    const { journal, owner } = this.#parts
    if (jobHasEnded(job.state.status)) {
      // Not before that is durable: the same append may move the slot to a submission of an earlier attempt, whose outcome is
      // unknown. If it is lost, another owner has the job.
      const isDurable = await owner.durable(job).then(
        () => true,
        () => false,
      )
      if (isDurable) await journal.providers.releaseSlot({ jobId: job.id, node, item })
    }
    // Whether that end is durable, and still valid, is decided by the current owner of the job.
    else if (!needsSlot(job.state, task)) await this.#resendGrant(job, task)
  }

  /**
   * Called before an operation is recorded: does it belong to this owner? It is claimed under every definition of the
   * account, in one order, so that of two owners that claim at once one gets all.
   */
  async claimOperation(owner: string, { provider, externalId }: OperationName): Promise<boolean> {
    const { sameAccount = [] } = this.#parts.providers.terms(provider) ?? {}
    for (const name of [provider, ...sameAccount].sort())
      if (!(await this.#claim(owner, { provider: name, externalId }))) return false
    return true
  }

  #claim(owner: string, operation: OperationName): Promise<boolean> {
    const { journal, clock } = this.#parts
    return this.#untilStoreAnswers(() => {
      const at = clock.now()
      return journal.providers.claimOperation({
        ...operation,
        owner,
        at,
        abandonedBefore: at - UNRECORDED_MS,
      })
    })
  }

  /** Returns how late the timer fired, in ms. */
  #until(at: number): Promise<number> {
    const { clock } = this.#parts
    const wait = at - clock.now()
    if (wait <= 0) return Promise.resolve(-wait)
    return new Promise(resolve => {
      const cancel = clock.after(wait, () => {
        this.#timers.delete(cancel)
        resolve(clock.now() - at)
      })
      this.#timers.add(cancel)
    })
  }

  /** Ends all waits for a time: a `Retry-After` of an hour must not keep the process alive. */
  stop(): void {
    for (const cancel of this.#timers) cancel()
    this.#timers.clear()
  }

  /** A request to the provider failed: the failure is stored for people, and a requested pause is observed. */
  reportFailure(provider: string, what: string, fault: Fault): void {
    const { journal, clock, log } = this.#parts
    const at = clock.now()
    const { code, message } = fault
    Promise.all([
      this.rate.observePause(provider, fault),
      journal.providers.noteError({ provider, at, what, code, message }),
    ]).catch(error => log.warn({ provider, error: String(error) }, "could not store a provider's failure"))
  }

  #untilStoreAnswers<T>(ask: () => Promise<T>): Promise<T> {
    return untilStoreAnswers(ask, { pause: ms => this.#until(this.#parts.clock.now() + ms) })
  }
}

/** The time from an operation's claim to its record. After that another owner may have the claim: the process died in between. */
const UNRECORDED_MS = 3600_000

function isWanted(job: LiveJob, task: Task): boolean {
  return !job.evicted && isCurrent(job.state, task)
}
