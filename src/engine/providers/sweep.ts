import type { Command } from "../../core/commands.ts"
import { type Fault, isRateLimited } from "../../core/faults.ts"
import { taskRef } from "../../core/item-list.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { DueCancel, OperationName, SlotKey } from "../../journal/port/providers.ts"
import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import type { Capacity } from "./capacity.ts"
import type { LeftSubmissions } from "./left-submissions.ts"
import { type Providers, usesSlots } from "./providers.ts"
import type { Slots } from "./slots.ts"

export interface ProviderSweepParts {
  readonly journal: Journal
  readonly clock: Clock
  readonly log: Log
  readonly providers: Providers
  readonly capacity: Capacity
  readonly slots: Slots
  readonly leftSubmissions: Pick<LeftSubmissions, "sweep">
  readonly partitions: () => readonly number[]
  readonly inboxChanged: (partitions: readonly number[]) => void
  /** Does this process use the slot right now? */
  readonly isUsed: (slot: SlotKey) => boolean
  /** The id of a node in the document; null: its job cannot be read. */
  readonly nodeId: (jobId: string, node: number) => Promise<string | null>
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

  start(): void {
    if (this.#parts.providers.names().length > 0) this.#schedule()
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
    if (this.#parts.providers.names().length > 0) this.abandoned()
  }

  #schedule(): void {
    const { clock, everyMs } = this.#parts
    this.#cancelTimer()
    this.#cancelTimer = clock.after(everyMs, () => {
      void this.#try("sweep", () => this.#sweep()).finally(() => this.#isStopped || this.#schedule())
    })
  }

  async #sweep(): Promise<void> {
    const { journal, clock, providers, partitions, inboxChanged, leaseMs } = this.#parts
    await journal.providers.renewSlots({ partitions: partitions(), at: clock.now(), leaseMs })
    for (const name of providers.names()) await this.#grant(name)
    await this.#resendGrants()
    inboxChanged(await journal.providers.deliverEvents({ operation: null, at: clock.now() }))
    await this.#cancelDue()
    await this.#parts.leftSubmissions.sweep(partitions())
  }

  /**
   * A process may have died with the message of a grant: then its node waits for a slot that it holds, or held until its
   * lease ended. A node that was notified without need ignores it, and one that needs no slot any more releases it.
   */
  async #resendGrants(): Promise<void> {
    const { journal, clock, partitions, isUsed, inboxChanged, everyMs } = this.#parts
    const at = clock.now()
    const idle = await journal.providers.idleSlots({ partitions: partitions(), grantedBefore: at - everyMs })
    for (const { partition, ...slot } of idle) {
      if (isUsed(slot)) continue
      const { jobId, ...of } = slot
      const command = JSON.stringify({ type: "grant_slot", ...of } satisfies Command)
      await journal.sendMessages([{ partition, jobId, command, sentAt: at }])
      inboxChanged([partition])
    }
  }

  /** These providers have free slots. */
  freed(names: Iterable<string>): void {
    for (const name of names) void this.#try("grant slots", () => this.#grant(name))
  }

  async #grant(provider: string): Promise<void> {
    const { providers, slots } = this.#parts
    const terms = providers.terms(provider)
    if (terms !== undefined && usesSlots(terms)) await slots.grant(provider)
  }

  /** The operation is recorded: its webhook may have arrived before. */
  begun(operation: OperationName): void {
    const { journal, clock, inboxChanged } = this.#parts
    void this.#try("check for an early webhook", async () =>
      inboxChanged(await journal.providers.deliverEvents({ operation, at: clock.now() })),
    )
  }

  /** J16: some operations are no longer wanted. */
  abandoned(): void {
    void this.#try("cancel operations", () => this.#cancelDue())
  }

  async #cancelDue(): Promise<void> {
    const { journal, clock, partitions, providers } = this.#parts
    // Providers that are not known here are left to another process, or to this one after a restart with them.
    const due = await journal.providers.dueCancels({
      partitions: partitions(),
      providers: providers.names(),
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
    const { journal, clock, providers, capacity, cancelTries, log, nodeId } = this.#parts
    const { provider, externalId, jobId, node, tries, owner } = cancel
    const { rate = null, ratePerOwner = null } = providers.terms(provider) ?? {}
    const request = { provider, owner, rate, ratePerOwner }
    const later = await capacity.tryPlace(request, MAX_WAIT_MS)
    if (later !== null) return
    const id = (await nodeId(jobId, node)) ?? ""
    const fault: Fault | null = await providers.cancel(
      { provider, externalId, jobId, nodeId: id },
      { signal: this.#abort.signal, place: () => capacity.waitForPlace(request) },
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
      ...{ provider, externalId, jobId, ...taskRef(cancel) },
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
