/**
 * The part of the storage contract that knows external work: slots, rates, operations and webhooks (X1 to X6). What
 * belongs to a fact (an operation that began or ended, a slot that comes free) is part of `append`; the rest is here.
 *
 * 1. Every verb is safe to send twice.
 * 2. Slots are leases: what is held is what live leases say. Never more than the limit at once, whoever asks when. The
 *    next slot goes to an owner that holds the fewest, of those that hold equally many to the one whose last turn was
 *    longest ago, and within an owner to who asked first.
 * 3. A webhook is stored before it is looked at. Webhook and submission each commit first and then look for the other
 *    (`deliverEvents`), so that one of them finds the other.
 * 4. Verbs that leave messages in inboxes answer with the partitions: other processes are notified, this one is not.
 */
export interface ProviderStore {
  /** Asks for slots, or finds those that they have. Not held: others were first; a message `grant_slot` comes later. */
  requestSlots(
    terms: SlotTerms,
    requests: readonly SlotRequest[],
  ): Promise<{ readonly held: readonly SlotKey[]; readonly told: readonly number[] }>
  /** Gives what has come free, by release or because its lease ended, to those who wait. */
  grantSlots(grant: SlotTerms): Promise<readonly number[]>
  /** For a node that asked and does not want it any more. Otherwise slots are released by `append`. */
  releaseSlot(slot: SlotKey): Promise<void>
  /** Leases of unfinished jobs in these partitions, where less than half of the time is left. */
  renewSlots(renewal: {
    readonly partitions: readonly number[]
    readonly at: number
    readonly leaseMs: number
  }): Promise<void>
  /** Granted a while ago to nodes that have no operation: one of them may not know of its slot, or of its lease's end. */
  idleSlots(query: {
    readonly partitions: readonly number[]
    readonly grantedBefore: number
  }): Promise<readonly (SlotKey & { readonly partition: number })[]>
  /** From 1; null: it does not wait for one. */
  slotPosition(slot: SlotKey & { readonly provider: string }): Promise<number | null>

  /**
   * Before an operation is recorded: it belongs to this owner from now on, as long as there is a record of it. False: it
   * belongs to another. A claim without a record can be taken over by another owner once it is older than `abandonedBefore`.
   */
  claimOperation(
    claim: OperationName & {
      readonly owner: string
      readonly at: number
      readonly abandonedBefore: number
    },
  ): Promise<boolean>

  /** A place in the provider's outbound rate. Not taken: it would be more than `maxWaitMs` away. */
  takeRate(take: {
    readonly provider: string
    /** Between two requests. */
    readonly intervalMs: number
    readonly at: number
    readonly maxWaitMs: number
  }): Promise<{ readonly taken: boolean; readonly at: number }>
  /** The provider said that it has too much to do: half the rate, and nothing before `until`. */
  slowDown(slowing: { readonly provider: string; readonly until: number }): Promise<void>
  /** For a provider without a rate: nothing before then; 0: whenever you like. It only reads. */
  restUntil(query: { readonly provider: string }): Promise<number>

  /** False: it was delivered before. */
  receiveEvent(event: NewWebhookEvent): Promise<boolean>
  /** Tells jobs of parked webhooks whose operation is known by now: of one operation, or of all. */
  deliverEvents(query: {
    readonly operation: OperationName | null
    readonly at: number
  }): Promise<readonly number[]>
  /** Newest first. */
  listEvents(query: { readonly provider: string; readonly limit: number }): Promise<WebhookEventRow[]>

  /** Operations at these providers that nobody wants any more and whose provider has not been told. */
  dueCancels(query: {
    readonly partitions: readonly number[]
    readonly providers: readonly string[]
    readonly at: number
    readonly limit: number
  }): Promise<DueCancel[]>
  /** `again`: when it is tried once more; null: it is done, and what it held of the provider comes free. */
  settleCancel(cancel: OperationName & SlotKey & { readonly again: number | null }): Promise<void>

  /**
   * The outcome of a submission whose job has ended. An operation with an id is to be cancelled from now on; null: nothing
   * was begun, or it is over. The answer is null if nobody waits for this outcome.
   */
  settleSubmission(
    outcome: SlotKey & { readonly attempt: number; readonly externalId: string | null; readonly at: number },
  ): Promise<{ readonly provider: string; readonly isToCancel: boolean } | null>
  /** Submissions of ended jobs whose outcome is not known: those that hold a slot, or all of one job. */
  unseenSubmissions(
    query: { readonly partitions: readonly number[]; readonly at: number } | { readonly jobId: string },
  ): Promise<UnseenSubmission[]>

  noteError(error: ProviderErrorRow & { readonly provider: string }): Promise<void>
  overview(query: { readonly provider: string; readonly at: number }): Promise<ProviderOverview>
}

/** Whose slot it is: a node's, or one of its items'. */
export interface SlotKey {
  readonly jobId: string
  readonly node: number
  readonly item?: number
}

export interface OperationName {
  readonly provider: string
  readonly externalId: string
}

export interface SlotTerms {
  readonly provider: string
  readonly limit: number
  /** Absent or null: no limit of its own. */
  readonly limitPerOwner?: number | null
  readonly leaseMs: number
  readonly at: number
}

export interface SlotRequest extends SlotKey {
  readonly partition: number
  /** Whose job it is: owners take turns. */
  readonly owner: string
}

export interface NewWebhookEvent {
  readonly provider: string
  /** Recognises a repeated delivery; null: refused, every one is new. */
  readonly eventId: string | null
  readonly externalId: string | null
  readonly receivedAt: number
  readonly verdict: "parked" | "refused"
  readonly reason: string | null
  readonly bytes: number
  /** JSON object: an `external` command without its `type`, `node` and `item`. */
  readonly news: string | null
}

export interface WebhookEventRow {
  readonly eventId: string | null
  readonly externalId: string | null
  readonly receivedAt: number
  /** delivered: a job was told. late: its operation was over. */
  readonly verdict: "parked" | "delivered" | "late" | "refused"
  readonly reason: string | null
  readonly bytes: number
}

export interface DueCancel extends OperationName, SlotKey {
  readonly attempt: number
  readonly tries: number
  /** Whose job it was. */
  readonly owner: string
}

/** An operation may be running at the provider, and nobody knows its id. */
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
  /** Of those that are held: by submissions of ended jobs whose outcome is not known. */
  readonly unseen: readonly (SlotKey & {
    readonly owner: string
    readonly since: number
    readonly slotUntil: number
  })[]
  readonly waiting: number
  readonly oldestAskedAt: number | null
  /** Operations that are not over. */
  readonly operations: number
  /** Share of the configured rate in use, 0 … 1. */
  readonly pace: number
  /** Newest first. */
  readonly errors: readonly ProviderErrorRow[]
}

/** What `append` writes of operations: those that began with a fact … */
export interface BegunOperation extends OperationName, SlotKey {
  readonly partition: number
  readonly attempt: number
  readonly submittedAt: number
  /** Set if it ended within the same batch. */
  readonly endedAt: number | null
  readonly cancelAt: number | null
  /** Until then the row counts as a slot: it is to be cancelled, or unseen. */
  readonly slotUntil?: number
  /** A submission whose outcome was not known when its job ended: `externalId` stands for an id that is not known. */
  readonly unseen?: { readonly operation: number }
}

/** … and what nodes and jobs leave behind: their slots come free, and their operation has ended or is to be cancelled. */
export interface LeftBehind {
  readonly partition: number
  readonly jobId: string
  /** null: all nodes of the job. */
  readonly node: number | null
  readonly item?: number
  readonly at: number
  readonly operation: "none" | "ended" | "cancel"
  /** Of an operation that is to be cancelled: until then its row counts as a slot. */
  readonly slotUntil?: number
}
