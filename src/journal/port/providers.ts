/**
 * The part of the storage contract for external work: slots, rates, operations and webhooks (X1 to X6).
 * Changes that belong to a fact (an operation that began or ended, a released slot) are part of `append`; the
 * rest is here.
 *
 * 1. Every method is safe to send twice.
 * 2. Slots are leases: the live leases determine what is held. Never more than the limit at once, under any
 *    concurrency. The next slot goes to the owner that holds the fewest; among equals to the one whose last
 *    turn was longest ago; and within an owner to the first request.
 * 3. A webhook is stored before it is processed. Webhook and submission each commit first and then look for
 *    the other (`deliverEvents`), so that one of them finds the other.
 * 4. Methods that leave messages in inboxes return the partitions: other processes are notified, this one is
 *    not.
 */
export interface ProviderStore {
  /**
   * Requests slots, or finds those that the nodes already have. Not held: other requests came first; a
   * message `grant_slot` follows later.
   */
  requestSlots(
    terms: SlotTerms,
    requests: readonly SlotRequest[],
  ): Promise<{ readonly held: readonly SlotKey[]; readonly notified: readonly number[] }>
  /** Grants free slots, released ones or those whose lease ended, to waiting requests. */
  grantSlots(grant: SlotTerms): Promise<readonly number[]>
  /** For a node that requested a slot and no longer needs it. Otherwise `append` releases slots. */
  releaseSlot(slot: SlotKey): Promise<void>
  /** Renews the leases of unfinished jobs in these partitions that have less than half of their time left. */
  renewSlots(renewal: {
    readonly partitions: readonly number[]
    readonly at: number
    readonly leaseMs: number
  }): Promise<void>
  /**
   * Slots granted some time ago to nodes that have no operation: such a node may not know of its slot, or of
   * the end of its lease.
   */
  idleSlots(query: {
    readonly partitions: readonly number[]
    readonly grantedBefore: number
  }): Promise<readonly (SlotKey & { readonly partition: number })[]>
  /** From 1; null: the node does not wait for a slot. */
  slotPosition(slot: SlotKey & { readonly provider: string }): Promise<number | null>

  /**
   * Called before an operation is recorded: from now on it belongs to this owner, as long as there is a
   * record of it. False: it belongs to another owner. Another owner can take over a claim without a record
   * once it is older than `abandonedBefore`.
   */
  claimOperation(
    claim: OperationName & {
      readonly owner: string
      readonly at: number
      readonly abandonedBefore: number
    },
  ): Promise<boolean>

  /** Takes a place in the provider's outbound rate. Not taken: it would be more than `maxWaitMs` away. */
  takeRate(take: {
    readonly provider: string
    /** The time between two requests. */
    readonly intervalMs: number
    readonly at: number
    readonly maxWaitMs: number
  }): Promise<{ readonly taken: boolean; readonly at: number }>
  /** The provider reported overload: half the rate, and no request before `until`. */
  slowDown(slowing: { readonly provider: string; readonly until: number }): Promise<void>
  /**
   * For a provider without a rate: the time before which no request may be sent; 0: no restriction.
   * Read-only.
   */
  restUntil(query: { readonly provider: string }): Promise<number>

  /** False: the event was delivered before. */
  receiveEvent(event: NewWebhookEvent): Promise<boolean>
  /** Delivers parked webhooks whose operation is known by now to their jobs: of one operation, or of all. */
  deliverEvents(query: {
    readonly operation: OperationName | null
    readonly at: number
  }): Promise<readonly number[]>
  /** Newest first. */
  listEvents(query: { readonly provider: string; readonly limit: number }): Promise<WebhookEventRow[]>
  /**
   * Webhooks of the operations of a job that were refused, or arrived after the end of their operation, in order.
   */
  jobWebhooks(query: {
    readonly jobId: string
    /** The id of a webhook. */
    readonly after: number
    /** Of each operation only the first so many count. */
    readonly perOperation: number
    readonly limit: number
  }): Promise<JobWebhook[]>

  /**
   * Operations at these providers that are no longer needed and that the provider has not been asked to
   * cancel.
   */
  dueCancels(query: {
    readonly partitions: readonly number[]
    readonly providers: readonly string[]
    readonly at: number
    readonly limit: number
  }): Promise<DueCancel[]>
  /** `again`: when the cancellation is retried; null: it is done, and the operation's slot is released. */
  settleCancel(cancel: OperationName & SlotKey & { readonly again: number | null }): Promise<void>

  /**
   * Records the outcome of a submission whose job has ended. An operation with an id is to be cancelled from
   * now on; null: no operation began, or it has ended. Returns null if nothing waits for this outcome.
   */
  settleSubmission(
    outcome: SlotKey & { readonly attempt: number; readonly externalId: string | null; readonly at: number },
  ): Promise<{ readonly provider: string; readonly isToCancel: boolean } | null>
  /** Submissions of ended jobs whose outcome is unknown: those that hold a slot, or all of one job. */
  unseenSubmissions(
    query: { readonly partitions: readonly number[]; readonly at: number } | { readonly jobId: string },
  ): Promise<UnseenSubmission[]>

  noteError(error: ProviderErrorRow & { readonly provider: string }): Promise<void>
  overview(query: { readonly provider: string; readonly at: number }): Promise<ProviderOverview>
}

/** Identifies the holder of a slot: a node, or one of its items. */
export interface SlotKey {
  readonly jobId: string
  readonly node: number
  readonly item?: number | undefined
}

export interface OperationName {
  readonly provider: string
  readonly externalId: string
}

export interface SlotTerms {
  readonly provider: string
  readonly limit: number
  /** Absent or null: no limit per owner. */
  readonly limitPerOwner?: number | null
  readonly leaseMs: number
  readonly at: number
}

export interface SlotRequest extends SlotKey {
  readonly partition: number
  /** The owner of the job: owners take turns. */
  readonly owner: string
}

export interface NewWebhookEvent {
  readonly provider: string
  /** Identifies repeated deliveries; null: a rejected webhook, every one is new. */
  readonly eventId: string | null
  readonly externalId: string | null
  readonly receivedAt: number
  readonly verdict: "parked" | "refused"
  readonly reason: string | null
  readonly bytes: number
  /** A JSON object: an `external` command without its `type`, `node` and `item`. */
  readonly news: string | null
}

export interface WebhookEventRow {
  readonly eventId: string | null
  readonly externalId: string | null
  readonly receivedAt: number
  /** delivered: a job was notified. late: its operation had ended. */
  readonly verdict: "parked" | "delivered" | "late" | "refused"
  readonly reason: string | null
  readonly bytes: number
}

/** A webhook that had no effect on the nodes that wait, or waited, for its operation. */
export interface JobWebhook extends OperationName {
  readonly id: number
  /** Nodes, or items of nodes; -1: the node itself. */
  readonly tasks: readonly (readonly [node: number, item: number])[]
  readonly receivedAt: number
  readonly verdict: "late" | "refused"
  readonly reason: string | null
}

export interface DueCancel extends OperationName, SlotKey {
  readonly attempt: number
  readonly tries: number
  /** The owner of the job. */
  readonly owner: string
}

/** An operation may be running at the provider, and its id is unknown. */
export interface UnseenSubmission extends SlotKey {
  readonly provider: string
  readonly attempt: number
  /** The number in its idempotency key. */
  readonly operation: number
  readonly owner: string
  /** When the job ended. */
  readonly since: number
  readonly slotUntil: number
}

export interface ProviderErrorRow {
  readonly at: number
  /** submit, poll, cancel or webhook */
  readonly what: string
  readonly code: string
  readonly message: string
}

export interface ProviderOverview {
  readonly held: readonly (SlotKey & {
    readonly owner: string
    readonly grantedAt: number
    readonly heldUntil: number
  })[]
  /** Among the held slots: those of submissions of ended jobs whose outcome is unknown. */
  readonly unseen: readonly (SlotKey & {
    readonly owner: string
    readonly since: number
    readonly slotUntil: number
  })[]
  readonly waiting: number
  readonly oldestAskedAt: number | null
  /** The number of operations that have not ended. */
  readonly operations: number
  /** The share of the configured rate in use, 0 … 1. */
  readonly pace: number
  /** Newest first. */
  readonly errors: readonly ProviderErrorRow[]
}

/** What `append` writes about operations: those that began with a fact … */
export interface BegunOperation extends OperationName, SlotKey {
  readonly partition: number
  readonly attempt: number
  readonly submittedAt: number
  /** Set if it ended within the same batch. */
  readonly endedAt: number | null
  readonly cancelAt: number | null
  /** Until then the row counts as a slot: the operation is to be cancelled, or its outcome is unknown. */
  readonly slotUntil?: number
  /**
   * A submission whose outcome was unknown when its job ended: `externalId` is a placeholder for the unknown
   * id.
   */
  readonly unseen?: { readonly operation: number }
}

/**
 * … and what nodes and jobs leave behind: their slots are released, and their operation has ended or is to be
 * cancelled.
 */
export interface LeftBehind {
  readonly partition: number
  readonly jobId: string
  /** null: all nodes of the job. */
  readonly node: number | null
  readonly item?: number | undefined
  readonly at: number
  readonly operation: "none" | "ended" | "cancel"
  /** For an operation that is to be cancelled: until then its row counts as a slot. */
  readonly slotUntil?: number
}
