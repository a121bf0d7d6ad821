/**
 * The port on PostgreSQL: encodes, sends one statement, decodes. Invariants: every method but `append` is
 * safe to send twice, because the Database below may do so after a lost answer; whatever must be atomic is
 * one statement.
 */
import { randomUUID } from "node:crypto"
import { isDuplicate } from "../errors.ts"
import {
  type ListedStore,
  listJobs,
  type PlacesQuery,
  type ScannedJobs,
  type ScanQuery,
} from "../list-jobs.ts"
import { firstIdOf, firstPlaceAt, MarkWriter, purgedMarks, WRITERS } from "../marks.ts"
import type { ArtifactStore } from "../port/artifacts.ts"
import type * as port from "../port/journal.ts"
import type { LogStore } from "../port/logs.ts"
import type { PipelineStore } from "../port/pipelines.ts"
import type { ProviderStore } from "../port/providers.ts"
import type { Registry } from "../port/registry.ts"
import type { ScheduleStore } from "../port/schedules.ts"
import type { StatisticsStore } from "../port/statistics.ts"
import { type ListedJob, listedJob, messageRow, type StoredMessage } from "../rows.ts"
import { BEFORE_ALL, BEFORE_ALL_ENDED, NO_LIMIT, RESTORED_EPOCHS } from "../values.ts"
import { SqlArtifacts } from "./artifacts.ts"
import type { Database, Values } from "./database.ts"
import { encodeAgain, encodeBatch, epochs, sentRecords } from "./encode.ts"
import { type FeedNotifications, SqlFeed } from "./feed.ts"
import { SqlLogs } from "./logs.ts"
import { SqlPipelineStore } from "./pipelines.ts"
import { SqlProviderStore } from "./providers.ts"
import { SqlRegistry } from "./registry.ts"
import { SqlSchedules } from "./schedules.ts"
import { SqlStatistics } from "./statistics.ts"

/** The number of removed jobs that one statement removes facts of. */
const ORPHANS_PAGE = 100

export interface SqlJournalOptions {
  readonly capabilities: port.Capabilities
  /** How other processes are notified of new messages; absent where there are none. */
  readonly wakeUps?: WakeUps
  /** How other processes are notified of changes for live streams. */
  readonly feedNews?: FeedNotifications
}

export interface WakeUps {
  /** Sent soon, and at most once for many messages: losing one costs a heartbeat interval, never a job. */
  notify(partitions: readonly number[]): void
  listen(listener: (partition: number) => void): Promise<() => Promise<void>>
  close(): Promise<void>
}

export class SqlJournal implements port.Journal, ListedStore {
  readonly capabilities: port.Capabilities
  readonly listen: port.Journal["listen"]
  readonly registry: Registry
  readonly feed: SqlFeed
  readonly providers: ProviderStore
  readonly pipelines: PipelineStore
  readonly statistics: StatisticsStore
  readonly schedules: ScheduleStore
  readonly logs: LogStore
  readonly artifacts: ArtifactStore
  readonly #database: Database
  readonly #wakeUps: WakeUps | null
  readonly #marks = new MarkWriter()

  constructor(database: Database, options: SqlJournalOptions) {
    this.#database = database
    this.registry = new SqlRegistry(database)
    this.feed = new SqlFeed(database, options.feedNews ?? null)
    this.providers = new SqlProviderStore(database, partitions => this.#wakeUps?.notify(partitions))
    this.pipelines = new SqlPipelineStore(database)
    this.statistics = new SqlStatistics(database)
    this.schedules = new SqlSchedules(database)
    this.logs = new SqlLogs(database)
    this.artifacts = new SqlArtifacts(database)
    this.#wakeUps = options.wakeUps ?? null
    this.capabilities = options.capabilities
    this.listen = this.#wakeUps?.listen.bind(this.#wakeUps) ?? null
  }

  async append(batch: port.Batch): Promise<port.AppendResult> {
    const marks = this.#marks.entries(batch)
    const row = await this.#send(batch, marks.pairs)
    if (batch.messages.length > 0) {
      this.#wakeUps?.notify(batch.messages.map(message => message.partition))
    }
    if (row === undefined) return { held: new Set(), inserted: 0 }
    const { held, inserted } = row
    // Without a partition that is held nothing was written.
    if (held !== "") marks.written()
    return { held: new Set(held === "" ? [] : held.split(",").map(Number)), inserted }
  }

  async tryAppend(batch: port.Batch): Promise<void> {
    const { statement, values } = encodeAgain(batch, this.#marks.entries(batch).pairs)
    await this.#database.trial(statement, values)
  }

  /**
   * A batch is nearly always new: only a batch that turns out to be stored already is sent with the slower
   * statement.
   */
  async #send(
    batch: port.Batch,
    marks: readonly number[],
  ): Promise<{ readonly held: string; readonly inserted: number } | undefined> {
    const { statement, values } = encodeBatch(batch, marks)
    try {
      return (await this.#database.append<{ held: string; inserted: number }>(statement, values))[0]
    } catch (error) {
      if (!isDuplicate(error)) throw error
      const again = encodeAgain(batch, marks)
      return (
        await this.#database.append<{ held: string; inserted: number }>(again.statement, again.values)
      )[0]
    }
  }

  async readFacts(
    jobIds: readonly string[],
    options: { readonly inlineBytes?: number; readonly after?: number } = {},
  ) {
    if (jobIds.length === 0) return []
    const { inlineBytes = NO_LIMIT, after = -1 } = options
    return this.#database.query<port.FactRow>("readFacts", [jobIds, inlineBytes, after])
  }

  async readFactPage({
    jobId,
    after,
    upTo = Number.MAX_SAFE_INTEGER,
    limit,
    inlineBytes,
  }: port.FactPageQuery) {
    return this.#database.query<port.FactRow>("readFactPage", [jobId, after, limit, inlineBytes, upTo])
  }

  async countFacts(jobId: string, upTo: number) {
    return (await this.#database.query<{ count: number }>("countFacts", [jobId, upTo]))[0]!.count
  }

  async readFact(jobId: string, seq: number) {
    const [row] = await this.#database.query<{ data: string }>("readFact", [jobId, seq])
    return row?.data ?? null
  }

  async readJob(id: string) {
    return (await this.#database.query<port.JobRow>("readJob", [id]))[0] ?? null
  }

  listJobs(filter: port.JobFilter, bound?: port.ListBound) {
    return listJobs(this, filter, bound)
  }

  async listedPlaces({ marks, unfinishedOf, before, limit }: PlacesQuery) {
    const values = [marks, unfinishedOf, before, limit, firstIdOf(before / WRITERS)]
    return (await this.#database.query<{ place: number }>("listedPlaces", values)).map(({ place }) => place)
  }

  async listedOwners(limit: number) {
    return (await this.#database.query<{ owner: string }>("listedOwners", [limit])).map(({ owner }) => owner)
  }

  async scanJobs({ filter, ranges, most, limit }: ScanQuery): Promise<ScannedJobs> {
    const { owner, parentId, labels } = filter
    const values = [
      ranges.map(({ low }) => low),
      ranges.map(({ high }) => high),
      most,
      limit,
      filter.statuses,
      filter.workflow,
      filter.version,
      filter.deleted ?? false,
      filter.createdFrom,
      filter.createdBefore,
      labels && Object.keys(labels),
      labels && Object.values(labels),
      parentId === null,
      parentId ?? undefined,
      filter.errorCode,
      filter.fingerprint,
      filter.errorText !== undefined,
      filter.minDurationMs,
      filter.forkedFrom,
    ]
    const found = await (owner === undefined
      ? this.#database.query<ScannedRow>("listJobs", values)
      : this.#database.query<ScannedRow>("listJobsOfOwner", [...values, owner]))
    const { read, last } = found[0]!
    const jobs = found.filter(({ id }) => id !== null).map(({ read: _, last: __, ...job }) => listedJob(job))
    return { jobs, read, last }
  }

  async finishedJobs(ids: readonly string[]) {
    return (await this.#database.query<ListedJob>("finishedJobs", [ids])).map(listedJob)
  }

  async unfinishedJobs(query: Parameters<port.Journal["unfinishedJobs"]>[0]) {
    const { owner, submittedBy, known, after, limit } = query
    const values = [owner, known, after, limit, submittedBy]
    return (await this.#database.query<{ id: string }>("unfinishedJobs", values)).map(({ id }) => id)
  }

  async dueJobs(query: Parameters<port.Journal["dueJobs"]>[0]): Promise<port.DueJobs> {
    const { partitions, at, limit, after = BEFORE_ALL } = query
    const values = [partitions, at, limit, after.wakeAt, after.id]
    const jobs = await this.#database.query<port.DueJob>("dueJobs", values)
    const oneMore = jobs[limit]
    if (oneMore) return { jobs: jobs.slice(0, limit), nextWakeAt: oneMore.wakeAt }
    const [next] = await this.#database.query<{ wakeAt: number | null }>("nextWakeAt", [partitions, at])
    return { jobs, nextWakeAt: next?.wakeAt ?? null }
  }

  async countDue({ partitions, wakeAt, last, limit }: Parameters<port.Journal["countDue"]>[0]) {
    const values = [partitions, wakeAt, last.wakeAt, last.id, limit]
    return (await this.#database.query<{ count: number }>("countDue", values))[0]!.count
  }

  async putWorkflow(workflow: port.NewWorkflow) {
    const { owner, name, hash, definition, createdAt, pushedBy, rules = 1 } = workflow
    const values = [owner, name, hash, definition, createdAt, pushedBy, rules]
    return { owner, name, ...(await this.#untilThere<StoredWorkflow>("putWorkflow", values)) }
  }

  async readWorkflow({ owner, name, version }: Parameters<port.Journal["readWorkflow"]>[0]) {
    const [row] = await this.#database.query<StoredWorkflow>("readWorkflow", [owner, name, version])
    return row ? { owner, name, ...row } : null
  }

  async readDefinition(hash: string) {
    return (await this.#database.query<port.StoredDefinition>("readDefinition", [hash]))[0] ?? null
  }

  async claimKey({ owner, key, jobId, fingerprint, createdAt }: port.KeyClaim): Promise<port.KeyClaim> {
    const values = [owner, key, jobId, fingerprint, createdAt]
    return {
      owner,
      key,
      ...(await this.#untilThere<Omit<port.KeyClaim, "owner" | "key">>("claimKey", values)),
    }
  }

  async readKey({ owner, key }: Parameters<port.Journal["readKey"]>[0]): Promise<port.KeyClaim | null> {
    const [row] = await this.#database.query<Omit<port.KeyClaim, "owner" | "key">>("readKey", [owner, key])
    return row === undefined ? null : { owner, key, ...row }
  }

  async beat({ engine, place, beat, follows }: port.EngineBeat) {
    return (await this.#database.query<port.Heartbeat>("beat", [engine, place, beat, follows]))[0]!
  }

  async takePartitions({ engine, expected }: Parameters<port.Journal["takePartitions"]>[0]) {
    const values = [engine, ...epochs(expected)]
    const taken = await this.#database.query<port.PartitionEpoch>("takePartitions", values)
    return taken.sort((a, b) => a.partition - b.partition)
  }

  async releasePartitions({ engine, held }: Parameters<port.Journal["releasePartitions"]>[0]) {
    await this.#database.query("releasePartitions", [engine, ...epochs(held)])
  }

  async readEngines() {
    return this.#database.query<port.EngineBeat>("readEngines", [])
  }

  async readPartitions() {
    return this.#database.query<port.PartitionRow>("readPartitions", [])
  }

  async leave(engine: string) {
    await this.#database.query("leave", [engine])
  }

  async sendMessages(messages: readonly port.NewMessage[]) {
    const causes = messages.map(() => randomUUID())
    const values = [sentRecords(messages, causes)]
    for (;;) {
      const found = await this.#database.query<{ cause: string; id: number }>("sendMessages", values)
      const ids = new Map(found.map(({ cause, id }) => [cause, id]))
      if (ids.size < messages.length) continue
      this.#wakeUps?.notify(messages.map(({ partition }) => partition))
      return causes.map(cause => ids.get(cause)!)
    }
  }

  async readMessages({ partitions, limit }: Parameters<port.Journal["readMessages"]>[0]) {
    return (await this.#database.query<StoredMessage>("readMessages", [partitions, limit])).map(messageRow)
  }

  async readAnswers({ messageIds, forget = [] }: Parameters<port.Journal["readAnswers"]>[0]) {
    const values = [messageIds, forget]
    const found = await this.#database.query<{ id: number; answer: string }>("readAnswers", values)
    return new Map(found.map(({ id, answer }) => [id, answer]))
  }

  async withdrawMessage(messageId: number) {
    return (await this.#database.query("withdrawMessage", [messageId])).length > 0
  }

  async endedJobs(query: Parameters<port.Journal["endedJobs"]>[0]) {
    const { partitions, before, unsettledBefore, after = BEFORE_ALL_ENDED, limit } = query
    const values = [partitions, before, limit, after.finishedAt, after.id, unsettledBefore]
    return this.#database.query<port.EndedJob>("endedJobs", values)
  }

  async purge({ fences, jobIds, before, limit }: Parameters<port.Journal["purge"]>[0]) {
    const values = [...epochs(fences), jobIds, before, limit]
    return (await this.#database.query<{ count: number }>("purge", values))[0]!.count
  }

  async purgeMarks({ partitions, before, after, limit }: Parameters<port.Journal["purgeMarks"]>[0]) {
    const values = [after?.mark ?? -1, after?.place ?? -1, limit, firstPlaceAt(before), partitions]
    const [row] = await this.#database.query<port.MarkEntry & { removed: number; read: number }>(
      "purgeMarks",
      values,
    )
    return purgedMarks(row, { before, limit })
  }

  async purgeFacts({ limit }: Parameters<port.Journal["purgeFacts"]>[0]) {
    const values = [limit, ORPHANS_PAGE]
    const [removed] = await this.#database.query<{ facts: number; jobs: number }>("purgeFacts", values)
    return removed!.facts + removed!.jobs
  }

  async purgeKeys({ before, after, limit }: Parameters<port.Journal["purgeKeys"]>[0]) {
    const values = [before, limit, after ?? BEFORE_ALL.id]
    const [page] = await this.#database.query<{ read: number; last: string | null }>("purgeKeys", values)
    return page!.read < limit ? null : page!.last
  }

  async tidy({ before, silentSince, unsettledBefore, limit }: Parameters<port.Journal["tidy"]>[0]) {
    const values = [before, silentSince, unsettledBefore, limit]
    return (await this.#database.query<{ removed: number }>("tidy", values))[0]!.removed >= limit
  }

  async restored() {
    await this.#database.query("restored", [RESTORED_EPOCHS])
  }

  async close() {
    await this.#wakeUps?.close()
    await this.#database.close()
  }

  /** No row means that another process committed first; a new statement sees what it wrote. */
  async #untilThere<Row>(statement: "putWorkflow" | "claimKey", values: Values): Promise<Row> {
    for (;;) {
      const [row] = await this.#database.query<Row>(statement, values)
      if (row) return row
    }
  }
}

interface ScannedRow extends ListedJob, Pick<ScannedJobs, "read" | "last"> {}

type StoredWorkflow = Omit<port.WorkflowRow, "owner" | "name">
