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
import { firstBucketId, firstPlaceAt, MarkWriter, purgedMarks, WRITERS } from "../marks.ts"
import type * as port from "../port/journal.ts"
import { type ListedJob, listedJob, messageRow, type StoredMessage } from "../rows.ts"
import { BEFORE_ALL, BEFORE_ALL_ENDED, NO_LIMIT, RESTORED_EPOCHS } from "../values.ts"
import { SqlArtifacts } from "./artifacts.ts"
import { type Database, fenceColumns, SqlStore } from "./database.ts"
import { encodeAgain, encodeBatch, sentRecords } from "./encode.ts"
import { SqlFeed } from "./feed.ts"
import { SqlLogs } from "./logs.ts"
import type { PostgresWakeUps } from "./notify.ts"
import { SqlPipelineStore } from "./pipelines.ts"
import { SqlProviderStore } from "./providers.ts"
import { SqlRegistry } from "./registry.ts"
import { SqlSchedules } from "./schedules.ts"
import { SqlStatistics } from "./statistics.ts"

/** The number of removed jobs that one statement removes facts of. */
const ORPHANS_PAGE = 100

type Argument<Verb extends keyof port.Journal> = port.Journal[Verb] extends (argument: infer One) => unknown
  ? One
  : never

export class SqlJournal extends SqlStore implements port.Journal, ListedStore {
  readonly capabilities: port.Capabilities
  readonly listen: port.Journal["listen"]
  readonly registry = new SqlRegistry(this.database)
  readonly feed: SqlFeed
  readonly providers = new SqlProviderStore(this.database, partitions => this.#wakeUps.notify(partitions))
  readonly pipelines = new SqlPipelineStore(this.database)
  readonly statistics = new SqlStatistics(this.database)
  readonly schedules = new SqlSchedules(this.database)
  readonly logs = new SqlLogs(this.database)
  readonly artifacts = new SqlArtifacts(this.database)
  readonly #wakeUps: PostgresWakeUps
  readonly #marks = new MarkWriter()

  constructor(database: Database, capabilities: port.Capabilities, wakeUps: PostgresWakeUps) {
    super(database)
    this.capabilities = capabilities
    this.feed = new SqlFeed(database, wakeUps.feed)
    this.listen = wakeUps.listen.bind(wakeUps)
    this.#wakeUps = wakeUps
  }

  async append(batch: port.Batch): Promise<port.AppendResult> {
    const marks = this.#marks.entries(batch)
    const row = await this.#send(batch, marks.pairs)
    if (batch.messages.length > 0) {
      this.#wakeUps.notify(batch.messages.map(message => message.partition))
    }
    if (row === undefined) return { held: new Set(), inserted: 0 }
    const { held, inserted } = row
    // Without a partition that is held nothing was written.
    if (held !== "") marks.written()
    return { held: new Set(held === "" ? [] : held.split(",").map(Number)), inserted }
  }

  async tryAppend(batch: port.Batch): Promise<void> {
    const { statement, values } = encodeAgain(batch, this.#marks.entries(batch).pairs)
    await this.database.trial(statement, values)
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
      return (await this.database.append<{ held: string; inserted: number }>(statement, values))[0]
    } catch (error) {
      if (!isDuplicate(error)) throw error
      const again = encodeAgain(batch, marks)
      return (
        await this.database.append<{ held: string; inserted: number }>(again.statement, again.values)
      )[0]
    }
  }

  async readFacts(
    jobIds: readonly string[],
    options: { readonly inlineBytes?: number; readonly after?: number } = {},
  ) {
    if (jobIds.length === 0) return []
    const { inlineBytes = NO_LIMIT, after = -1 } = options
    return this.database.query<port.FactRow>("readFacts", { jobIds, inlineBytes, after })
  }

  async readFactPage({ upTo = Number.MAX_SAFE_INTEGER, ...query }: port.FactPageQuery) {
    return this.database.query<port.FactRow>("readFactPage", { ...query, upTo })
  }

  async countFacts(jobId: string, upTo: number) {
    return this.counted("countFacts", { jobId, upTo })
  }

  async readFact(jobId: string, seq: number) {
    return (await this.first<{ data: string }>("readFact", { jobId, seq }))?.data ?? null
  }

  async readJob(id: string) {
    return (await this.first<port.JobRow>("readJob", { id })) ?? null
  }

  listJobs(filter: port.JobFilter, bound?: port.ListBound) {
    return listJobs(this, filter, bound)
  }

  async listedPlaces(query: PlacesQuery) {
    const values = { ...query, beforeId: firstBucketId(query.before / WRITERS) }
    return (await this.database.query<{ place: number }>("listedPlaces", values)).map(({ place }) => place)
  }

  async listedOwners(limit: number) {
    return (await this.database.query<{ owner: string }>("listedOwners", { limit })).map(({ owner }) => owner)
  }

  async scanJobs({ filter, ranges, most, limit }: ScanQuery): Promise<ScannedJobs> {
    const { owner, parentId, labels, deleted = false } = filter
    const statement = owner === undefined ? "listJobs" : "listJobsOfOwner"
    const found = await this.database.query<ScannedRow>(statement, {
      ...filter,
      lows: ranges.map(({ low }) => low),
      highs: ranges.map(({ high }) => high),
      most,
      limit,
      deleted,
      labelNames: labels && Object.keys(labels),
      labelValues: labels && Object.values(labels),
      isRoot: parentId === null,
      hasErrorText: filter.errorText !== undefined,
    })
    const { read, last } = found[0]!
    const jobs = found.filter(({ id }) => id !== null).map(({ read: _, last: __, ...job }) => listedJob(job))
    return { jobs, read, last }
  }

  async finishedJobs(ids: readonly string[]) {
    return (await this.database.query<ListedJob>("finishedJobs", { ids })).map(listedJob)
  }

  async unfinishedJobs(query: Argument<"unfinishedJobs">) {
    return (await this.database.query<{ id: string }>("unfinishedJobs", query)).map(({ id }) => id)
  }

  async dueJobs({ after = BEFORE_ALL, ...query }: Argument<"dueJobs">): Promise<port.DueJobs> {
    const jobs = await this.database.query<port.DueJob>("dueJobs", { ...query, ...after })
    const oneMore = jobs[query.limit]
    if (oneMore) return { jobs: jobs.slice(0, query.limit), nextWakeAt: oneMore.wakeAt }
    const next = await this.first<{ wakeAt: number | null }>("nextWakeAt", query)
    return { jobs, nextWakeAt: next?.wakeAt ?? null }
  }

  async countDue({ last, ...query }: Argument<"countDue">) {
    return this.counted("countDue", { ...query, lastWakeAt: last.wakeAt, lastId: last.id })
  }

  async putWorkflow({ rules = 1, ...workflow }: port.NewWorkflow) {
    const { owner, name } = workflow
    const [row] = await this.untilFound<StoredWorkflow>("putWorkflow", { ...workflow, rules })
    return { owner, name, ...row! }
  }

  async readWorkflow(key: Argument<"readWorkflow">) {
    const { owner, name } = key
    const row = await this.first<StoredWorkflow>("readWorkflow", key)
    return row ? { owner, name, ...row } : null
  }

  async readDefinition(hash: string) {
    return (await this.first<port.StoredDefinition>("readDefinition", { hash })) ?? null
  }

  async claimKey(claim: port.KeyClaim): Promise<port.KeyClaim> {
    const [row] = await this.untilFound<StoredClaim>("claimKey", claim)
    return { ...claim, ...row! }
  }

  async readKey(key: Argument<"readKey">): Promise<port.KeyClaim | null> {
    const { owner, key: name } = key
    const row = await this.first<StoredClaim>("readKey", key)
    return row === undefined ? null : { owner, key: name, ...row }
  }

  async beat(engine: port.EngineBeat) {
    return (await this.first<port.Heartbeat>("beat", engine))!
  }

  async takePartitions({ engine, expected }: Argument<"takePartitions">) {
    const values = { engine, ...fenceColumns(expected) }
    const taken = await this.database.query<port.PartitionEpoch>("takePartitions", values)
    return taken.sort((a, b) => a.partition - b.partition)
  }

  async releasePartitions({ engine, held }: Argument<"releasePartitions">) {
    await this.database.query("releasePartitions", { engine, ...fenceColumns(held) })
  }

  async readEngines() {
    return this.database.query<port.EngineBeat>("readEngines")
  }

  async readPartitions() {
    return this.database.query<port.PartitionRow>("readPartitions")
  }

  async leave(engine: string) {
    await this.database.query("leave", { engine })
  }

  async sendMessages(messages: readonly port.NewMessage[]) {
    const causes = messages.map(() => randomUUID())
    const values = { messages: sentRecords(messages, causes) }
    for (;;) {
      const found = await this.database.query<{ cause: string; id: number }>("sendMessages", values)
      const ids = new Map(found.map(({ cause, id }) => [cause, id]))
      if (ids.size < messages.length) continue
      this.#wakeUps.notify(messages.map(({ partition }) => partition))
      return causes.map(cause => ids.get(cause)!)
    }
  }

  async readMessages(query: Argument<"readMessages">) {
    return (await this.database.query<StoredMessage>("readMessages", query)).map(messageRow)
  }

  async readAnswers({ messageIds, forget = [] }: Argument<"readAnswers">) {
    const values = { messageIds, forget }
    const found = await this.database.query<{ id: number; answer: string }>("readAnswers", values)
    return new Map(found.map(({ id, answer }) => [id, answer]))
  }

  async withdrawMessage(messageId: number) {
    return this.exists("withdrawMessage", { messageId })
  }

  async endedJobs({ after = BEFORE_ALL_ENDED, ...query }: Argument<"endedJobs">) {
    const values = { ...query, afterFinishedAt: after.finishedAt, afterId: after.id }
    return this.database.query<port.EndedJob>("endedJobs", values)
  }

  async purge({ fences, ...purge }: Argument<"purge">) {
    return this.counted("purge", { ...purge, ...fenceColumns(fences) })
  }

  async purgeMarks(purge: Argument<"purgeMarks">) {
    const values = { mark: -1, place: -1, ...purge.after, ...purge, beforePlace: firstPlaceAt(purge.before) }
    type Purged = port.MarkEntry & { readonly removed: number; readonly read: number }
    return purgedMarks(await this.first<Purged>("purgeMarks", values), purge)
  }

  async purgeFacts({ limit }: Argument<"purgeFacts">) {
    const values = { limit, orphans: ORPHANS_PAGE }
    const removed = await this.first<{ facts: number; jobs: number }>("purgeFacts", values)
    return removed!.facts + removed!.jobs
  }

  async purgeKeys({ before, after, limit }: Argument<"purgeKeys">) {
    const values = { before, after: after ?? BEFORE_ALL.id, limit }
    const page = await this.first<{ read: number; last: string | null }>("purgeKeys", values)
    return page!.read < limit ? null : page!.last
  }

  async tidy(tidy: Argument<"tidy">) {
    return (await this.first<{ removed: number }>("tidy", tidy))!.removed >= tidy.limit
  }

  async restored() {
    await this.database.query("restored", { epochs: RESTORED_EPOCHS })
  }

  async close() {
    await this.#wakeUps.close()
    await this.database.close()
  }
}

interface ScannedRow extends ListedJob, Pick<ScannedJobs, "read" | "last"> {}

type StoredWorkflow = Omit<port.WorkflowRow, "owner" | "name">

type StoredClaim = Omit<port.KeyClaim, "owner" | "key">
