import type { PartitionEpoch } from "./journal.ts"

/**
 * The part of the storage contract for pipelines. Messages are rows that are only ever inserted; their state
 * is the execution's `progress`, its parked messages and its lineage, all written by one `commit`.
 *
 * 1. ONE statement, one commit: acknowledgements (progress), emitted messages, lineage, parked messages and
 *    storage.
 * 2. Commits of an execution are numbered. Resending one is harmless: its number already exists.
 * 3. A stale epoch writes nothing.
 * 4. Every read has a limit.
 */
export interface PipelineStore {
  /**
   * Claims a place among the executions that have not ended; null: `limit` places are taken. The count is
   * exact under concurrency. Called again for the same job it returns the same. A place whose job was never
   * stored is free again after `claimMs`, that of a job that has ended at once; a retry of the job claims the
   * place again, and the execution continues.
   */
  claimExecution(claim: {
    readonly jobId: string
    readonly at: number
    readonly limit: number
    readonly claimMs: number
  }): Promise<number | null>
  /** null: no such execution. */
  readExecution(jobId: string): Promise<ExecutionRow | null>
  /**
   * Executions of an owner before this one, newest first. A page reads at most `scan` executions, of all owners; `next`:
   * where the next page begins, null: there is none.
   */
  listExecutions(query: {
    readonly owner: string
    /** Only those with dead letters that no job replays. */
    readonly hasDeadLetters: boolean
    readonly before: number
    readonly limit: number
    readonly scan: number
  }): Promise<{ readonly executions: readonly ListedExecution[]; readonly next: number | null }>
  /** Frees its place. Idempotent. */
  endExecution(end: { readonly jobId: string; readonly at: number }): Promise<void>

  /**
   * Rejects as `Journal.append` does: outcome unknown (resend the same), or data rejected; a commit whose
   * predecessor is missing is rejected too.
   */
  commit(commit: PipelineCommit): Promise<{ readonly isHeld: boolean }>

  /**
   * The messages of a queue after seq `after`, in order. At most `limit`, and at most `maxBytes` of bodies
   * except for the first.
   */
  readMessages(query: {
    readonly execution: number
    readonly route: number
    readonly after: number
    readonly limit: number
    readonly maxBytes: number
  }): Promise<MessageRow[]>
  /** The messages that exist, in no particular order. */
  findMessages(execution: number, keys: readonly MessageKey[]): Promise<MessageRow[]>

  /** Messages whose next try is due by `dueBy`, the earliest first, starting after the cursor. */
  readRetries(query: {
    readonly execution: number
    readonly route: number
    readonly dueBy: number
    readonly after?: { readonly dueAt: number; readonly seq: number }
    readonly limit: number
    readonly maxBytes: number
  }): Promise<(MessageRow & ParkedState)[]>

  /** Sorted by (route, seq). */
  listDeadLetters(query: {
    readonly execution: number
    readonly route?: number | undefined
    readonly after?: MessageKey | undefined
    readonly limit: number
  }): Promise<DeadLetterRow[]>
  /**
   * Dead letters that no job replays: their number, counted up to `most`, and the first of them by (route,
   * seq).
   */
  deadLettersLeft(query: { readonly execution: number; readonly most: number }): Promise<DeadLettersLeft>
  /**
   * Marks dead letters as replayed by a job, unless another job that exists, or whose claim is younger than
   * `claimMs`, has them. Returns the number of marked ones.
   */
  claimDeadLetters(claim: {
    readonly execution: number
    /** null: all of them. */
    readonly keys: readonly MessageKey[] | null
    readonly replayedBy: string
    readonly at: number
    readonly claimMs: number
    /** JSON, for dead letters that are replayed with another body. */
    readonly bodies?: readonly (MessageKey & { readonly body: string })[] | undefined
  }): Promise<number>
  /**
   * The dead letters that this job replays, with the bodies that it replays and the execution they come from; by
   * (execution, route, seq).
   */
  readReplayed(query: {
    readonly replayedBy: string
    readonly after?: (MessageKey & { readonly execution: number }) | undefined
    readonly limit: number
  }): Promise<ReplayedRow[]>

  /** Among the dead letters of a route that a job replays, the number of those before this one. */
  countReplayedBefore(
    letter: MessageKey & { readonly execution: number; readonly replayedBy: string },
  ): Promise<number>
  /**
   * Among the dead letters of a route that a job replays, the one with this many before it; null: there is
   * none.
   */
  findReplayed(query: {
    readonly execution: number
    readonly route: number
    readonly replayedBy: string
    readonly before: number
  }): Promise<MessageKey | null>

  /**
   * The first `limit` adapter calls on these messages, in the order of `inLineageOrder` (pipeline-rules.ts).
   */
  readLineage(query: {
    readonly execution: number
    readonly keys: readonly MessageKey[]
    readonly limit: number
  }): Promise<LineageRow[]>
  /** The first `limit` messages that were gathered into these, by (route, seq), each once. */
  readGathered(query: {
    readonly execution: number
    readonly into: readonly MessageKey[]
    readonly limit: number
  }): Promise<MessageKey[]>

  readStored(execution: number, keys: readonly string[]): Promise<ReadonlyMap<string, string>>

  /**
   * Removes lineage and acknowledged messages of executions that ended before the given time, and all rows of
   * executions whose job no longer exists: at most `limit` stored rows, or one message with its lineage.
   * Returns the number of removed rows; 0: nothing is left.
   */
  purgeLineage(purge: { readonly before: number; readonly limit: number }): Promise<number>
}

export interface ExecutionRow {
  readonly execution: number
  readonly jobId: string
  /** The number of the last commit; 0: none yet. */
  readonly commit: number
  /** JSON, from the last commit. */
  readonly progress: string | null
  readonly endedAt: number | null
}

export type ListedExecution = Omit<ExecutionRow, "commit">

/** A dead letter of another execution. */
export interface ReplayedRow extends MessageRow {
  readonly execution: number
}

/** Routes and adapters are identified by their positions in the definition. */
export interface MessageKey {
  readonly route: number
  readonly seq: number
}

export interface NewMessageRow extends MessageKey {
  /** null: an initial message. */
  readonly parent: MessageKey | null
  /** The number of the initial message that it derives from. */
  readonly root: number
  readonly hops: number
  readonly at: number
  /** JSON */
  readonly body: string
}

export type MessageRow = NewMessageRow

/**
 * One adapter call on a message. The messages that it emitted get their numbers only when the message is
 * acknowledged.
 */
export interface Invocation {
  readonly adapter: number
  /** When the call ended; for a gathered message, when the call for the whole group began. */
  readonly at: number
  readonly durationUs: number
  readonly status: "completed" | "failed"
  /** Gathered: processed as part of this message of the same route. */
  readonly into: number | null
  /** A fault as JSON. */
  readonly error: string | null
}

export interface LineageRow extends MessageKey, Invocation {
  readonly attempt: number
  /** The emitted messages, by route: `1:5-9,2:7`. null: none. */
  readonly emitted: string | null
}

/** The calls of one attempt at a message, in their order. */
export interface Attempt extends MessageKey {
  readonly attempt: number
  readonly invocations: readonly Invocation[]
  /** By adapter, as in `LineageRow`; null: nothing was emitted. */
  readonly emitted: ReadonlyMap<number, string> | null
}

export interface ParkedState {
  readonly attempts: number
  readonly dueAt: number
}

/** A message that waits for its next try (`dueAt`) or has none left (null). */
export interface ParkedRow extends MessageKey {
  readonly attempts: number
  readonly dueAt: number | null
  readonly at: number
  /** A fault as JSON. */
  readonly error: string
}

export interface DeadLetterRow extends MessageRow {
  readonly attempts: number
  readonly failedAt: number
  readonly error: string
  readonly replayedBy: string | null
  /** It is replayed with another body. */
  readonly isEdited: boolean
}

export interface DeadLettersLeft {
  readonly count: number
  /** `error` is a fault as JSON. */
  readonly first: (MessageKey & { readonly error: string }) | null
}

export interface PipelineCommit {
  readonly fence: PartitionEpoch
  readonly execution: number
  /** The number of the previous commit plus one. */
  readonly commit: number
  readonly progress: string
  readonly messages: readonly NewMessageRow[]
  /**
   * For messages that this commit acknowledges or parks: retention uses it to find the acknowledged messages.
   */
  readonly lineage: readonly Attempt[]
  /** Replaces the parked rows of these messages. */
  readonly parked: readonly ParkedRow[]
  /** Messages that are no longer parked. */
  readonly unparked: readonly MessageKey[]
  readonly stored: readonly { readonly key: string; readonly value: string }[]
}
