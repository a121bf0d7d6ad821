import type { JobStatus } from "../../core/states.ts"
import type { RetryFigures } from "../retry.ts"
import type { JournalFeed } from "./feed.ts"
import type { PipelineStore } from "./pipelines.ts"
import type { BegunOperation, LeftBehind, ProviderStore } from "./providers.ts"
import type { Registry } from "./registry.ts"

/**
 * The whole storage contract. Every adapter passes test/journal/contract.ts; what differs is a declared capability.
 *
 * 1. The journal is the truth; `jobs` is a projection written in the same commit as the facts it follows from.
 * 2. Every write of a running thing carries its fence: the epoch of its partition. A stale epoch writes nothing.
 * 3. Sending a batch again is harmless: facts, projections, answers and messages are recognised.
 * 4. Times are milliseconds since 1970, given by the caller. JSON travels as text, exactly as it was made.
 */
export interface Journal {
  readonly capabilities: Capabilities
  /** What has a name: workflows, their aliases, API tokens. */
  readonly registry: Registry
  /** What was committed since a position, for live streams. */
  readonly feed: JournalFeed
  /** External work: slots, rates, operations, webhooks. */
  readonly providers: ProviderStore
  /** Executions of pipelines: messages, lineage, dead letters. */
  readonly pipelines: PipelineStore

  /**
   * ONE statement, one commit. Rejects when the outcome is unknown (`JournalUnavailableError`: send the same batch
   * again) or the data is refused (`JournalDataError`: nothing was written, and sending it again will not help).
   */
  append(batch: Batch): Promise<AppendResult>
  /** As `append`, and nothing of it is kept: rejects as it would. */
  tryAppend(batch: Batch): Promise<void>

  /**
   * The facts of the jobs, oldest first per job; those after seq `after` only, if it is given. Data larger than
   * `inlineBytes` is left out: `data` is null, `bytes` its size.
   */
  readFacts(
    jobIds: readonly string[],
    options?: { readonly inlineBytes?: number; readonly after?: number },
  ): Promise<FactRow[]>
  /** The data of one fact (a large output, when a template needs it). */
  readFact(jobId: string, seq: number): Promise<string | null>

  readJob(id: string): Promise<JobRow | null>
  /** Newest first; `after` is the last id of the previous page. */
  listJobs(filter: JobFilter): Promise<JobRow[]>
  /** Those of some jobs that have ended, without outputs too large for a list. */
  finishedJobs(ids: readonly string[]): Promise<JobRow[]>
  /**
   * Which of an owner's jobs have not ended, of one submitter alone if it is given: of those that are known, and of
   * those with an id above `after`, at most `limit`.
   */
  unfinishedJobs(query: {
    readonly owner: string
    readonly submittedBy?: string | undefined
    readonly known: readonly string[]
    readonly after: string
    readonly limit: number
  }): Promise<string[]>
  /** Unfinished jobs of these partitions whose `wakeAt` is not after `at`, by (wakeAt, id), from behind the cursor on. */
  dueJobs(query: {
    readonly partitions: readonly number[]
    readonly after?: DueJob
    readonly at: number
    readonly limit: number
  }): Promise<DueJobs>

  putWorkflow(workflow: NewWorkflow): Promise<WorkflowRow>
  /** One version, deleted or not, since jobs that run need theirs. Without a version: the latest that is not deleted. */
  readWorkflow(key: {
    readonly owner: string
    readonly name: string
    readonly version?: number
  }): Promise<WorkflowRow | null>

  /** The first to come keeps the key; everybody gets the winner's row. */
  claimKey(claim: KeyClaim): Promise<KeyClaim>

  /** Tells the store that this engine lives; answers what it should know of the others. */
  beat(engine: EngineBeat): Promise<Heartbeat>
  /**
   * Takes the partitions whose epoch is still the expected one: epoch + 1, owner = engine. Answers what it got. Asked
   * again with the same expectation (a lost answer), it answers the same: engine ids are never used twice.
   */
  takePartitions(take: {
    readonly engine: string
    readonly expected: readonly PartitionEpoch[]
  }): Promise<PartitionEpoch[]>
  /** Lets go of partitions (owner null) that this engine still holds at these epochs, so that another takes them at once. */
  releasePartitions(release: {
    readonly engine: string
    readonly held: readonly PartitionEpoch[]
  }): Promise<void>
  readPartitions(): Promise<PartitionRow[]>
  /** The last beats of all engines, also of those that died. */
  readEngines(): Promise<EngineBeat[]>
  /** Forgets an engine that has closed, so that nobody takes it for dead. */
  leave(engine: string): Promise<void>

  /** For commands to partitions owned elsewhere. Resolves with the messages' ids, in their order, once they are durable. */
  sendMessages(messages: readonly NewMessage[]): Promise<number[]>
  readMessages(query: {
    readonly partitions: readonly number[]
    readonly limit: number
  }): Promise<MessageRow[]>
  /** The answers of those that have one. `forget`: answered messages whose sender knows the answer; they are removed. */
  readAnswers(query: {
    readonly messageIds: readonly number[]
    readonly forget?: readonly number[]
  }): Promise<ReadonlyMap<number, string>>
  /** Takes back a message nobody has answered. True: it will never be acted on. */
  withdrawMessage(messageId: number): Promise<boolean>

  /**
   * Jobs of these partitions that ended before then, oldest first. Never a child before its parent, nor one that has
   * somebody to tell; one with an operation that is yet to be cancelled only if it ended before `unsettledBefore`.
   */
  endedJobs(query: {
    readonly partitions: readonly number[]
    readonly before: number
    readonly unsettledBefore: number
    readonly limit: number
  }): Promise<string[]>
  /**
   * Removes jobs with their facts, of partitions whose fence holds, if they still ended before then. Their owner does
   * it: who else may be about to retry one. Answers how many.
   */
  purge(purge: {
    readonly fences: readonly PartitionEpoch[]
    readonly jobIds: readonly string[]
    readonly before: number
  }): Promise<number>
  /**
   * Removes from `before` keys whose job is not there, settled messages and webhooks; those that are parked only from
   * `unsettledBefore`; and engines that own nothing and have not beaten since the last time nor after `silentSince`.
   */
  tidy(tidy: {
    readonly before: number
    readonly unsettledBefore: number
    readonly silentSince: number
  }): Promise<void>

  /**
   * The store was put back from a backup: engines that have seen more than it has are fenced, whatever they believe, and
   * positions in the feed mean nothing any more. Nothing is lost if it is called without need.
   */
  restored(): Promise<void>

  /** Calls `listener` when another process may have written something for these partitions; null where nobody else can. */
  readonly listen: ((listener: (partition: number) => void) => Promise<() => Promise<void>>) | null

  close(): Promise<void>
}

export interface Capabilities {
  /** Only one process can hold the store: no beat, no peers, partitions are taken at once. */
  readonly exclusive: boolean
  /** Survives the death of the process. */
  readonly durable: boolean
  /** What to call it in messages, without credentials. */
  readonly label: string
  readonly partitions: number
  /** Appends that gain from being under way at the same time. */
  readonly appendLanes: number
  /** How an append that was not answered is sent again: after `tries` the engine says that it has paused. */
  readonly retry: RetryFigures
}

export interface PartitionEpoch {
  readonly partition: number
  readonly epoch: number
}

export interface PartitionRow extends PartitionEpoch {
  readonly owner: string | null
}

export interface Batch {
  readonly fences: readonly PartitionEpoch[]
  readonly facts: readonly NewFact[]
  /** Jobs whose first fact is in this batch, in their state at its end. */
  readonly newJobs: readonly NewJob[]
  /** Other jobs whose projection changed. Applied only where the stored `seq` is lower. */
  readonly changedJobs: readonly JobChange[]
  readonly answers: readonly {
    readonly messageId: number
    readonly partition: number
    readonly answer: string
  }[]
  readonly messages: readonly NewMessage[]
  /** Operations at providers that began with these facts … */
  readonly begun?: readonly BegunOperation[]
  /** … and slots and operations that are left behind by them. */
  readonly left?: readonly LeftBehind[]
}

export interface AppendResult {
  /**
   * Partitions whose fence held: everything of theirs in the batch is durable, now or from an earlier sending. A
   * partition that answers a withdrawn message counts as not held, since whoever withdrew it was promised that nothing
   * happens: nothing of it is written, its memory is thrown away as after a take-over.
   */
  readonly held: ReadonlySet<number>
  /** Facts inserted by this sending. Fewer than sent with the fence held: an earlier sending had arrived. */
  readonly inserted: number
}

export interface NewFact {
  readonly partition: number
  /** Rises within a partition: epoch × 2^34 + counter, so that a new owner needs no look-up. */
  readonly seq: number
  readonly jobId: string
  readonly at: number
  readonly type: string
  readonly data: string
}

export interface FactRow {
  readonly seq: number
  readonly jobId: string
  readonly at: number
  readonly type: string
  readonly data: string | null
  readonly bytes: number
}

export interface JobChange {
  readonly id: string
  readonly partition: number
  readonly seq: number
  readonly status: JobStatus
  readonly updatedAt: number
  readonly finishedAt: number | null
  /** When the job next needs its owner; null once it is finished and its relatives know. */
  readonly wakeAt: number | null
  readonly output: string | null
  readonly error: string | null
}

export interface NewJob extends JobChange {
  readonly owner: string
  readonly workflow: string
  readonly workflowVersion: number
  readonly parentId: string | null
  /** JSON object of strings. */
  readonly labels: string | null
  readonly priority: number
  readonly createdAt: number
  /** Which token or subject; null: neither. */
  readonly submittedBy: string | null
}

export interface JobRow extends NewJob {
  /** Of a list: it has an output, which is too large to be read along. */
  readonly outputLeftOut?: true
}

export interface JobFilter {
  readonly owner?: string
  readonly statuses?: readonly JobStatus[]
  readonly workflow?: string
  /** Jobs with all of these. */
  readonly labels?: { readonly [name: string]: string }
  /** The children of this job; null: jobs that are nobody's child. */
  readonly parentId?: string | null
  readonly createdFrom?: number
  readonly createdBefore?: number
  readonly after?: string
  readonly limit: number
  /** DELETED jobs are hidden unless asked for. */
  readonly deleted?: boolean
}

export interface DueJob {
  readonly wakeAt: number
  readonly id: string
}

export interface DueJobs {
  readonly jobs: readonly DueJob[]
  /** When the next job after these is due; null: none is waiting for a time. */
  readonly nextWakeAt: number | null
}

export interface NewWorkflow {
  readonly owner: string
  readonly name: string
  readonly hash: string
  /** Canonical JSON, with what was written although it is the default. */
  readonly definition: string
  readonly createdAt: number
  /** A token, the subject of a JWT, "local". null: not known, as of versions pushed before 0.2. */
  readonly pushedBy?: string | null
  /** Under which rules of definitions it was checked. Left out: 1, those of 0.1. */
  readonly rules?: number
}

export interface WorkflowRow extends NewWorkflow {
  readonly version: number
  /** `putWorkflow`: the latest version already had this content. */
  readonly unchanged: boolean
  /** When its workflow was deleted. */
  readonly deletedAt: number | null
  readonly pushedBy: string | null
  readonly rules: number
}

export interface KeyClaim {
  readonly owner: string
  readonly key: string
  readonly jobId: string
  /** Hash of what was submitted: the same key with another content is refused by the caller. */
  readonly fingerprint: string
  readonly createdAt: number
}

export interface EngineBeat {
  readonly engine: string
  /** Where it runs (host, process namespace, pid): a peer on the same host sees at once that it died. And of its worker. */
  readonly place: string
  /** Milliseconds since 1970 by its own clock; more than the one before. */
  readonly beat: number
  /** It has live streams open: the others tell it what they commit. */
  readonly follows: boolean
}

export interface Heartbeat {
  /** The others: not the one that asks. */
  readonly engines: readonly EngineBeat[]
  readonly partitions: readonly PartitionRow[]
  /** Partitions of this engine with unanswered messages. */
  readonly inbox: readonly number[]
}

export interface NewMessage {
  readonly partition: number
  readonly jobId: string
  /** JSON command. */
  readonly command: string
  readonly sentAt: number
  /** Messages written by `append` must carry the fact that caused them, so that a second sending is recognised. */
  readonly cause?: { readonly partition: number; readonly seq: number }
}

export interface MessageRow {
  readonly id: number
  readonly partition: number
  readonly jobId: string
  readonly command: string
  readonly sentAt: number
}
