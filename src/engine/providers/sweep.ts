import type { Command } from "../../core/commands.ts"
import { type Fault, isRateLimited } from "../../core/faults.ts"
import { taskKey } from "../../core/state.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { DueCancel, OperationName, SlotKey } from "../../journal/port/providers.ts"
import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import type { OwnerEngine } from "../owner/owner-parts.ts"
import type { ReadyPartitions } from "../partitions/ready-partitions.ts"
import type { Providers } from "./providers.ts"

export interface ProviderSweepParts {
  readonly journal: Journal
  readonly clock: Clock
  readonly log: Log
  readonly partitionOwner: PartitionOwner
  readonly partitions: ReadyPartitions
  readonly engine: Pick<OwnerEngine, "inboxChanged">
  readonly everyMs: number
  readonly leaseMs: number
  readonly cancelTries: number
}

/**
 * Work for providers that belongs to no single job: grants free slots to the next in the queue, matches parked webhooks
 * to their jobs, cancels abandoned operations.
 *
 * 1. Everything is done as soon as its cause is durable, and again by a sweep, which finds what a crash left over.
 * 2. With no provider known in this process there is no sweep and no query.
 */
export class ProviderSweep {
  readonly #parts: ProviderSweepParts
  readonly #cancelling = new Set<string>()
  readonly #settling = new Set<Promise<void>>()
  #abort = new AbortController()
  #cancelTimer = () => {}
  #isStopped = false

  constructor(parts: ProviderSweepParts) {
    this.#parts = parts
  }

  get #providers(): Providers {
    return this.#parts.partitionOwner.external.providers
  }

  start(): void {
    if (this.#providers.names().length > 0) this.#schedule()
  }

  /** Resolves when answered cancellations are stored: each holds a slot until then. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancelTimer()
    this.#abort.abort()
    await Promise.allSettled(this.#settling)
  }

  /** The last owner of new partitions may have died while operations were to be cancelled, which hold slots. */
  partitionsAdded(): void {
    if (this.#providers.names().length > 0) this.abandoned()
  }

  #schedule(): void {
    const { clock, everyMs } = this.#parts
    this.#cancelTimer()
    this.#cancelTimer = clock.after(everyMs, () => {
      void this.#try("sweep", () => this.#sweep()).finally(() => this.#isStopped || this.#schedule())
    })
  }

  async #sweep(): Promise<void> {
    const { journal, clock, partitionOwner, partitions, engine, leaseMs } = this.#parts
    const { slots, leftSubmissions } = partitionOwner.external
    await journal.providers.renewSlots({ partitions: partitions.all(), at: clock.now(), leaseMs })
    for (const name of this.#providers.names()) await slots.grant(name)
    await this.#resendGrants()
    engine.inboxChanged(await journal.providers.deliverEvents({ operation: null, at: clock.now() }))
    await this.#cancelDue()
    await leftSubmissions.sweep(partitions.all())
  }

  /**
   * A process may have died with the message of a grant: then its node waits for a slot that it holds, or held until its
   * lease ended. A node that was notified without need ignores it, and one that needs no slot any more releases it.
   */
  async #resendGrants(): Promise<void> {
    const { journal, clock, partitions, partitionOwner, engine, everyMs } = this.#parts
    const at = clock.now()
    const isUsed = (slot: SlotKey) => partitionOwner.jobs.get(slot.jobId)?.running.has(taskKey(slot)) === true
    const idle = await journal.providers.idleSlots({
      partitions: partitions.all(),
      grantedBefore: at - everyMs,
    })
    for (const { partition, ...slot } of idle) {
      if (isUsed(slot)) continue
      const { jobId, ...of } = slot
      const command = JSON.stringify({ type: "grant_slot", ...of } satisfies Command)
      await journal.sendMessages([{ partition, jobId, command, sentAt: at }])
      engine.inboxChanged([partition])
    }
  }

  /** These providers have free slots. */
  freed(names: Iterable<string>): void {
    for (const name of names)
      void this.#try("grant slots", () => this.#parts.partitionOwner.external.slots.grant(name))
  }

  /** The operation is recorded: its webhook may have arrived before. */
  begun(operation: OperationName): void {
    const { journal, clock, engine } = this.#parts
    void this.#try("check for an early webhook", async () =>
      engine.inboxChanged(await journal.providers.deliverEvents({ operation, at: clock.now() })),
    )
  }

  /** J16: some operations are no longer wanted. */
  abandoned(): void {
    void this.#try("cancel operations", () => this.#cancelDue())
  }

  async #cancelDue(): Promise<void> {
    const { journal, clock, partitions } = this.#parts
    // Providers that are not known here are left to another process, or to this one after a restart with them.
    const due = await journal.providers.dueCancels({
      partitions: partitions.all(),
      providers: this.#providers.names(),
      at: clock.now(),
      limit: CANCELS_AT_ONCE,
    })
    await Promise.all(due.map(cancel => this.#cancelOnce(cancel)))
  }

  async #cancelOnce(cancel: DueCancel): Promise<void> {
    const { provider, externalId, jobId, node, item } = cancel
    const key = JSON.stringify([provider, externalId, jobId, node, item])
    if (this.#cancelling.has(key) || this.#isStopped) return
    this.#cancelling.add(key)
    try {
      await this.#cancel(cancel)
    } finally {
      this.#cancelling.delete(key)
    }
  }

  async #cancel(cancel: DueCancel): Promise<void> {
    const { journal, clock, cancelTries, log } = this.#parts
    const { providers, capacity } = this.#parts.partitionOwner.external
    const { provider, externalId, jobId, node, item, tries, owner } = cancel
    const { rate = null, ratePerOwner = null } = providers.terms(provider) ?? {}
    const request = { provider, owner, rate, ratePerOwner }
    const later = await capacity.rate.tryPlace(request, MAX_WAIT_MS)
    if (later !== null) return
    const id = (await this.#parts.partitionOwner.loader.read(jobId))?.plan.nodes[node]?.id ?? ""
    const fault: Fault | null = await providers.cancel(
      { provider, externalId, jobId, nodeId: id },
      { signal: this.#abort.signal, place: () => capacity.rate.waitForPlace(request) },
    )
    if (this.#isStopped && fault !== null) return
    if (fault !== null) capacity.reportFailure(provider, "cancel", fault)
    // A provider that asks for a pause has not refused; the retention of the operation's row, and so of its job, ends this.
    const isRefusal = fault !== null && !(fault.retryable && isRateLimited(fault))
    const isLast = isRefusal && (!fault.retryable || tries + 1 >= cancelTries)
    if (isLast)
      log.warn({ provider, external_id: externalId, job_id: jobId, fault }, "could not cancel an operation")
    const wait = Math.max((fault?.retry_after_seconds ?? 0) * 1000, Math.min(300_000, 5000 * 2 ** tries))
    const settling = journal.providers.settleCancel({
      ...{ provider, externalId, jobId, node, item },
      again: fault === null || isLast ? null : clock.now() + wait,
    })
    this.#settling.add(settling)
    await settling.finally(() => this.#settling.delete(settling))
    // It held its slot until now: the provider still had the operation.
    if (fault === null || isLast) this.freed([provider])
  }

  /** The next sweep retries work that fails here. */
  async #try(what: string, work: () => Promise<void>): Promise<void> {
    if (this.#isStopped) return
    try {
      await work()
    } catch (error) {
      if (!this.#isStopped)
        this.#parts.log.warn({ error: String(error) }, `could not ${what}; the next sweep retries`)
    }
  }
}

const CANCELS_AT_ONCE = 100
const MAX_WAIT_MS = 30_000
