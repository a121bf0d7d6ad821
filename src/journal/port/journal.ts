import type { JobStatus } from "../../core/states.ts"
import type { RetryPolicy } from "../retry.ts"
import type { ArtifactStore } from "./artifacts.ts"
import type { JournalFeed } from "./feed.ts"
import type { HeldRow, NewDefinition, StoredDefinition } from "./forks.ts"
import type { JobFilter } from "./job-filter.ts"
import type { LogStore } from "./logs.ts"
import type { MessageRow, NewMessage } from "./notices.ts"
import type { PipelineStore } from "./pipelines.ts"
import type { BegunOperation, LeftBehind, ProviderStore } from "./providers.ts"
import type { Registry } from "./registry.ts"
import type { NewFire, ScheduleChange, ScheduleStore } from "./schedules.ts"
import type { StatisticsStore } from "./statistics.ts"

export type * from "./forks.ts"
export type { JobFilter } from "./job-filter.ts"
export type * from "./notices.ts"

/**
 * The whole storage contract. Every adapter passes test/journal/contract.ts; differences are declared capabilities.
 *
 * 1. The journal is the source of truth; `jobs` is a projection, written in the same commit as the facts.
 * 2. Every write of a running job carries its fence: the epoch of its partition. A stale epoch writes nothing.
 * 3. Resending a batch is harmless: facts, projections, answers and messages are recognised.
 * 4. Times are milliseconds since 1970, given by the caller. JSON is passed as text, unchanged.
 */
export interface Journal {
  readonly capabilities: Capabilities
  /** Named objects: workflows, their aliases, API tokens. */
  readonly registry: Registry
  /** What was committed since a position, for live streams. */
  readonly feed: JournalFeed
  /** External work: slots, rates, operations, webhooks. */
  readonly providers: ProviderStore
  /** Executions of pipelines: messages, lineage, dead letters. */
  readonly pipelines: PipelineStore
  /** Roll-ups of what ended jobs took and used. */
  readonly statistics: StatisticsStore
  /** Schedules and the outcomes of their ticks. */
  readonly schedules: ScheduleStore
  /** What handlers logged. */
  readonly logs: LogStore
  readonly artifacts: ArtifactStore

  /**
   * ONE statement, one commit. Rejects when the outcome is unknown (`JournalUnavailableError`: resend the
   * same batch) or the data is rejected (`JournalDataError`: nothing was written, and resending will not
   * help).
   */
  append(batch: Batch): Promise<AppendResult>
  /** Like `append`, but everything is rolled back: rejects as `append` would. */
  tryAppend(batch: Batch): Promise<void>
  /**
   * Stores an output that `append` would store apart from its fact, so that the append does not wait for it. Never rejects: `append`
   * stores it if this fails. undefined: the output is part of its fact. Absent: so are all.
   */
  readonly storeOutput?: ((jobId: string, text: string) => Promise<void> | undefined) | undefined

  /**
   * The facts of the jobs, oldest first per job; only those after seq `after`, if it is given. Data larger
   * than `inlineBytes` is left out: `data` is null, `bytes` is its size.
   */
  readFacts(
    jobIds: readonly string[],
    options?: { readonly inlineBytes?: number; readonly after?: number },
  ): Promise<FactRow[]>
  /**
   * Facts of one job after seq `after` and up to seq `upTo`, oldest first. Reads at most `limit` rows by index, whatever
   * the size of the job. Data is left out as in `readFacts`.
   */
  readFactPage(query: FactPageQuery): Promise<FactRow[]>
  /** How many facts the job has up to this seq. */
  countFacts(jobId: string, upTo: number): Promise<number>
  /** The data of one fact (a large output, when a template needs it). */
  readFact(jobId: string, seq: number): Promise<string | null>

  readJob(id: string): Promise<JobRow | null>
  /** Newest first, in bounded work: a page may end before it is full (journal/list-jobs.ts). */
  listJobs(filter: JobFilter, bound?: ListBound): Promise<JobPage>
  /** Those of the given jobs that have ended, without outputs that are too large for a list. */
  finishedJobs(ids: readonly string[]): Promise<JobRow[]>
  /**
   * The jobs of an owner that have not ended, of one submitter alone if it is given: among the known ones,
   * and among those with an id above `after`, at most `limit`.
   */
  unfinishedJobs(query: {
    readonly owner: string
    readonly submittedBy?: string | undefined
    readonly known: readonly string[]
    readonly after: string
    readonly limit: number
  }): Promise<string[]>
  /**
   * Unfinished jobs of these partitions whose `wakeAt` is not after `at`, by (wakeAt, id), starting after the
   * cursor.
   */
  dueJobs(query: {
    readonly partitions: readonly number[]
    readonly after?: DueJob | undefined
    readonly at: number
    readonly limit: number
  }): Promise<DueJobs>
  /** How many unfinished jobs of these partitions are from `wakeAt` on and, by (wakeAt, id), up to `last`: counts to `limit`. */
  countDue(query: {
    readonly partitions: readonly number[]
    readonly wakeAt: number
    readonly last: DueJob
    readonly limit: number
  }): Promise<number>

  putWorkflow(workflow: NewWorkflow): Promise<WorkflowRow>
  /**
   * One version, deleted or not, because running jobs need theirs. Without a version: the latest that is not
   * deleted.
   */
  readWorkflow(key: {
    readonly owner: string
    readonly name: string
    readonly version?: number | undefined
  }): Promise<WorkflowRow | null>

  /** A definition that is no version of its workflow; null: there is none, or no job needs it any more. */
  readDefinition(hash: string): Promise<StoredDefinition | null>

  /** The first claim keeps the key; every caller gets the row of the first. */
  claimKey(claim: KeyClaim): Promise<KeyClaim>
  /** null: no submission has claimed the key. */
  readKey(key: Pick<KeyClaim, "owner" | "key">): Promise<KeyClaim | null>

  /** Stores the heartbeat of this engine; returns what the engine needs to know of the others. */
  beat(engine: EngineBeat): Promise<Heartbeat>
  /**
   * Takes the partitions whose epoch is still the expected one: epoch + 1, owner = engine. Returns those it
   * got. Called again with the same expectation (after a lost answer), it returns the same: engine ids are
   * never used twice.
   */
  takePartitions(take: {
    readonly engine: string
    readonly expected: readonly PartitionEpoch[]
  }): Promise<PartitionEpoch[]>
  /**
   * Releases partitions (owner null) that this engine still holds at these epochs, so that another engine
   * takes them at once.
   */
  releasePartitions(release: {
    readonly engine: string
    readonly held: readonly PartitionEpoch[]
  }): Promise<void>
  readPartitions(): Promise<PartitionRow[]>
  /** The last heartbeats of all engines, including dead ones. */
  readEngines(): Promise<EngineBeat[]>
  /** Removes an engine that has closed, so that it is not considered dead. */
  leave(engine: string): Promise<void>

  /**
   * For commands to partitions of other engines. Resolves with the ids of the messages, in their order, once
   * they are durable.
   */
  sendMessages(messages: readonly NewMessage[]): Promise<number[]>
  readMessages(query: {
    readonly partitions: readonly number[]
    readonly limit: number
  }): Promise<MessageRow[]>
  /**
   * The answers of the messages that have one. `forget`: answered messages whose sender has read the answer;
   * they are removed.
   */
  readAnswers(query: {
    readonly messageIds: readonly number[]
    readonly forget?: readonly number[]
  }): Promise<ReadonlyMap<number, string>>
  /** Withdraws a message that has not been answered. True: it will never be executed. */
  withdrawMessage(messageId: number): Promise<boolean>

  /**
   * At most `limit` jobs of all partitions that ended before the given time, by (finishedAt, id), starting after
   * the cursor. Free is a job of these partitions that may be removed: never a child before its parent, a job that
   * another one holds, nor a job that still has to report its end or that the statistics have not counted; a job
   * with an operation that is yet to be cancelled only if it ended before `unsettledBefore`.
   */
  endedJobs(query: {
    readonly partitions: readonly number[]
    readonly before: number
    readonly unsettledBefore: number
    readonly after?: EndedJobKey
    readonly limit: number
  }): Promise<EndedJob[]>
  /**
   * Removes jobs with their keys and facts, of partitions whose fence holds, if they still ended before the given
   * time and no other job holds them. Only the owner does this: any other process may race with a retry. Removes at most `limit` facts: the other
   * facts of the last job no longer exist for readers, and `purgeFacts` removes them; the jobs after it stay. Returns
   * the number of removed jobs.
   */
  purge(purge: {
    readonly fences: readonly PartitionEpoch[]
    readonly jobIds: readonly string[]
    readonly before: number
    readonly limit: number
  }): Promise<number>
  /**
   * Removes entries of job_marks for ids from before the given time, if no job has such an id: one step, which reads at
   * most `limit` entries, of those that were written for these partitions. `next`: where the next step begins; null: all
   * entries were read.
   */
  purgeMarks(purge: {
    readonly partitions: readonly number[]
    readonly before: number
    readonly after: MarkEntry | null
    readonly limit: number
  }): Promise<{ readonly removed: number; readonly next: MarkEntry | null }>
  /**
   * Removes at most `limit` facts of jobs that `purge` has removed. Any engine does this. Returns their number, plus
   * that of the jobs that have none left; 0: nothing is left.
   */
  purgeFacts(purge: { readonly limit: number }): Promise<number>
  /**
   * Of at most `limit` keys after that of job `after`, in the order of their jobs' ids, removes those from before the
   * given time whose job does not exist. Returns the last job if there may be more; null: that was the last page.
   */
  purgeKeys(purge: {
    readonly before: number
    readonly after: string | null
    readonly limit: number
  }): Promise<string | null>
  /**
   * Removes claims of operations that do not exist, definitions that no job holds, outcomes of ticks, settled messages and webhooks from before `before`, parked ones
   * only from before `unsettledBefore`, at most `limit` of each kind; and engines that own nothing and have sent no
   * heartbeat since the last time nor after `silentSince`. Returns whether there may be more.
   */
  tidy(tidy: {
    readonly before: number
    readonly unsettledBefore: number
    readonly silentSince: number
    readonly limit: number
  }): Promise<boolean>

  /**
   * The store was restored from a backup: engines that have seen more than it contains are fenced, and
   * positions in the feed become invalid. Calling it without need loses nothing.
   */
  restored(): Promise<void>

  /**
   * Calls `listener` when another process may have written something for these partitions; null where no
   * other process can.
   */
  readonly listen: ((listener: (partition: number) => void) => Promise<() => Promise<void>>) | null

  close(): Promise<void>
}

export interface Capabilities {
  /** Only one process can hold the store: no heartbeat, no peers, partitions are taken at once. */
  readonly exclusive: boolean
  /** Data survives the death of the process. */
  readonly durable: boolean
  /** The name of the store in messages, without credentials. */
  readonly label: string
  readonly partitions: number
  /** The number of concurrent appends that improves throughput. */
  readonly appendLanes: number
  /** Nothing is appended while rows are being removed: that must be short. */
  readonly purgesHoldAppends: boolean
  /** How an append that was not answered is resent: after `tries` the engine reports that it has paused. */
  readonly retry: RetryPolicy
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
  /** … and slots and operations that these facts release. */
  readonly left?: readonly LeftBehind[]
  /** What new jobs of this batch refer to: it stays as long as they do. */
  readonly held?: readonly HeldRow[]
  readonly definitions?: readonly NewDefinition[]
  /** Schedules whose ticks were decided, at most one entry for each … */
  readonly schedules?: readonly ScheduleChange[]
  /** … and the outcomes. */
  readonly fires?: readonly NewFire[]
}

export interface AppendResult {
  /**
   * The partitions whose fence held: everything of theirs in the batch is durable, now or from an earlier
   * sending. A partition that answers a withdrawn message counts as not held, because its sender was promised
   * that nothing happens: nothing of it is written, and its memory is discarded as after a take-over.
   */
  readonly held: ReadonlySet<number>
  /**
   * The number of facts inserted by this sending. Fewer than sent with the fence held: an earlier sending had
   * arrived.
   */
  readonly inserted: number
}

export interface NewFact {
  readonly partition: number
  /** Rises within a partition: epoch × 2^34 + counter, so that a new owner needs no lookup. */
  readonly seq: number
  readonly jobId: string
  readonly at: number
  readonly type: string
  readonly data: string
}

export interface FactPageQuery {
  readonly jobId: string
  readonly after: number
  /** Absent: to the last. */
  readonly upTo?: number | undefined
  readonly limit: number
  readonly inlineBytes: number
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
  /** When the job next needs its owner; null once it is finished and its relatives are notified. */
  readonly wakeAt: number | null
  readonly output: string | null
  readonly error: string | null
  /** Equal for errors that differ only in numbers, ids and quoted texts; null: no error, or of a release before 0.2. */
  readonly fingerprint: string | null
  /** What the statistics count, of a job that ended in this batch. Otherwise the stored value stays. Rows that are read do not have it. */
  readonly stats?: string | null
  /** The marks of the change depend on these (journal/marks.ts). Only labels ever change. */
  readonly owner: string
  readonly workflow: string
  /** 0: the job has a definition of its own. */
  readonly workflowVersion: number
  readonly createdAt: number
  /** A JSON object of strings. */
  readonly labels: string | null
  /** The labels are new: they have no marks yet. */
  readonly isRelabelled?: boolean
}

export interface NewJob extends JobChange {
  readonly parentId: string | null
  readonly priority: number
  /** The token or subject that submitted it; null: neither. */
  readonly submittedBy: string | null
  /** The job that it was forked from; null: none. */
  readonly forkedFrom: string | null
  /** The hash of a definition that is no version of its workflow; null: it runs `workflowVersion`. */
  readonly definition: string | null
}

export interface JobRow extends NewJob {
  /** In a list: the job has an output, which is too large to be included. */
  readonly outputLeftOut?: true
}

/** A row of job_marks (journal/marks.ts). */
export interface MarkEntry {
  readonly mark: number
  readonly place: number
}

/** How much a page may read before it ends; by default 20,000 index entries and 50 ms. */
export interface ListBound {
  readonly entries?: number
  readonly ms?: number
  /** Only these jobs are read. */
  readonly ids?: readonly string[]
}

export interface JobPage {
  readonly jobs: readonly JobRow[]
  /** `after` of the next page; null: there are no more jobs. */
  readonly next: string | null
  /** How far back the page has searched, by the time in the ids; null: to the end. */
  readonly scannedTo: number | null
  /** false: the page reached its bound before it was full. */
  readonly complete: boolean
}

export interface DueJob {
  readonly wakeAt: number
  readonly id: string
}

export interface EndedJobKey {
  readonly finishedAt: number
  readonly id: string
}

export interface EndedJob extends EndedJobKey {
  /** It is of one of the given partitions. */
  readonly isMine: boolean
  /** It may be removed. */
  readonly isFree: boolean
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
  /** Canonical JSON, including values that were written although they are defaults. */
  readonly definition: string
  readonly createdAt: number
  /** A token, the subject of a JWT, or "local". null: not known, for versions pushed before 0.2. */
  readonly pushedBy?: string | null
  /** The rules of definitions under which it was checked. Absent: 1, those of 0.1. */
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
  /** A hash of the submission: the caller rejects the same key with another content. */
  readonly fingerprint: string
  readonly createdAt: number
}

export interface EngineBeat {
  readonly engine: string
  /**
   * Where the engine runs (host, process namespace, pid): a peer on the same host detects its death at once.
   * Also describes the engine's worker.
   */
  readonly place: string
  /** Milliseconds since 1970 by its own clock; higher than the previous one. */
  readonly beat: number
  /** The engine has live streams open: the others notify it of their commits. */
  readonly follows: boolean
}

export interface Heartbeat {
  /** The other engines, without the caller. */
  readonly engines: readonly EngineBeat[]
  readonly partitions: readonly PartitionRow[]
  /** Partitions of this engine with unanswered messages. */
  readonly inbox: readonly number[]
  /** When the next schedule in a partition of this engine fires; null: none will. */
  readonly nextFireAt?: number | null
}
