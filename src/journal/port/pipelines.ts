import type { PartitionEpoch } from "./journal.ts"

/**
 * The part of the storage contract that knows pipelines. Messages are rows that are only ever inserted; what has become
 * of them is the execution's `progress`, its parked messages and its lineage, all written by one `commit`.
 *
 * 1. ONE statement, one commit: acknowledgements (progress), emitted messages, lineage, parked messages and storage.
 * 2. Commits of an execution are numbered. Sending one again is harmless: its number is there already.
 * 3. A stale epoch writes nothing.
 * 4. Nothing here is read whole: every reading has a limit.
 */
export interface PipelineStore {
  /**
   * A place among the executions that have not ended; null: `limit` are taken. Exact, whoever asks when. Asked again for
   * the same job it answers the same. A place whose job was never stored is free again after `claimMs`, that of a job that
   * has ended at once; for a retry of it the place is claimed anew, and the execution goes on.
   */
  claimExecution(claim: {
    readonly jobId: string
    readonly at: number
    readonly limit: number
    readonly claimMs: number
  }): Promise<number | null>
  /** null: no such execution. */
  readExecution(jobId: string): Promise<ExecutionRow | null>
  /** Its place is free. Idempotent. */
  endExecution(end: { readonly jobId: string; readonly at: number }): Promise<void>

  /**
   * Rejects as `Journal.append` does: outcome unknown (send the same again), or data refused; a commit whose
   * predecessor is missing is refused too.
   */
  commit(commit: PipelineCommit): Promise<{ readonly isHeld: boolean }>

  /** The messages of a queue behind seq `after`, in order. At most `limit`, and no more than `maxBytes` of bodies but for the first. */
  readMessages(query: {
    readonly execution: number
    readonly route: number
    readonly after: number
    readonly limit: number
    readonly maxBytes: number
  }): Promise<MessageRow[]>
  /** Those that exist, in no order. */
  findMessages(execution: number, keys: readonly MessageKey[]): Promise<MessageRow[]>

  /** Messages that wait for their next try, with it not after `dueBy`, the earliest first, from behind the cursor on. */
  readRetries(query: {
    readonly execution: number
    readonly route: number
    readonly dueBy: number
    readonly after?: { readonly dueAt: number; readonly seq: number }
    readonly limit: number
    readonly maxBytes: number
  }): Promise<(MessageRow & ParkedState)[]>

  /** By (route, seq). */
  listDeadLetters(query: {
    readonly execution: number
    readonly route?: number
    readonly after?: MessageKey
    readonly limit: number
  }): Promise<DeadLetterRow[]>
  /** Dead letters that no job replays: how many, counted up to `most`, and the first of them by (route, seq). */
  deadLettersLeft(query: { readonly execution: number; readonly most: number }): Promise<DeadLettersLeft>
  /** Marks dead letters as replayed by a job, unless another that exists, or is younger than `claimMs`, has them. Answers how many it has. */
  claimDeadLetters(claim: {
    readonly execution: number
    /** null: all of them. */
    readonly keys: readonly MessageKey[] | null
    readonly replayedBy: string
    readonly at: number
    readonly claimMs: number
  }): Promise<number>
  /** Those that this job replays, with the execution they come from; by (execution, route, seq). */
  readReplayed(query: {
    readonly replayedBy: string
    readonly after?: MessageKey & { readonly execution: number }
    readonly limit: number
  }): Promise<ReplayedRow[]>

  /** Of the dead letters of a route that a job replays, how many come before this one. */
  countReplayedBefore(
    letter: MessageKey & { readonly execution: number; readonly replayedBy: string },
  ): Promise<number>
  /** Of the dead letters of a route that a job replays, the one with so many before it; null: there is none. */
  findReplayed(query: {
    readonly execution: number
    readonly route: number
    readonly replayedBy: string
    readonly before: number
  }): Promise<MessageKey | null>

  /** The first `limit` invocations on these messages, in the order of `inLineageOrder` (pipeline-rules.ts). */
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
   * Removes lineage and acknowledged messages of executions that ended before then, and all rows of executions whose job
   * is gone: at most `limit` rows as they are stored, or one message with what was done to it. Answers how many; 0: no more.
   */
  purgeLineage(purge: { readonly before: number; readonly limit: number }): Promise<number>
}

export interface ExecutionRow {
  readonly execution: number
  readonly jobId: string
  /** Number of the last commit; 0: none yet. */
  readonly commit: number
  /** JSON, as given by the last commit. */
  readonly progress: string | null
  readonly endedAt: number | null
}

/** A dead letter of another execution. */
export interface ReplayedRow extends MessageRow {
  readonly execution: number
}

/** Routes and adapters are named by their positions in the definition. */
export interface MessageKey {
  readonly route: number
  readonly seq: number
}

export interface NewMessageRow extends MessageKey {
  /** null: an initial message. */
  readonly parent: MessageKey | null
  /** Number of the initial message that it comes from. */
  readonly root: number
  readonly hops: number
  readonly at: number
  /** JSON */
  readonly body: string
}

export type MessageRow = NewMessageRow

export interface LineageRow extends MessageKey {
  readonly attempt: number
  readonly adapter: number
  /** When the call ended; of a gathered message, when the call for all of them began. */
  readonly at: number
  readonly durationUs: number
  readonly status: "completed" | "failed"
  /** Gathered: processed as part of this message of the same route. */
  readonly into: number | null
  /** What was emitted, by route: `1:5-9,2:7`. null: nothing. */
  readonly emitted: string | null
  /** JSON fault. */
  readonly error: string | null
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
  /** JSON fault. */
  readonly error: string
}

export interface DeadLetterRow extends MessageRow {
  readonly attempts: number
  readonly failedAt: number
  readonly error: string
  readonly replayedBy: string | null
}

export interface DeadLettersLeft {
  readonly count: number
  /** `error` is a JSON fault. */
  readonly first: (MessageKey & { readonly error: string }) | null
}

export interface PipelineCommit {
  readonly fence: PartitionEpoch
  readonly execution: number
  /** One more than that of the commit before. */
  readonly commit: number
  readonly progress: string
  readonly messages: readonly NewMessageRow[]
  /** Of messages that this commit acknowledges or parks: that is how retention tells which were acknowledged. */
  readonly lineage: readonly LineageRow[]
  /** Put in place of what was parked of these messages. */
  readonly parked: readonly ParkedRow[]
  /** Not parked any more. */
  readonly unparked: readonly MessageKey[]
  readonly stored: readonly { readonly key: string; readonly value: string }[]
}
