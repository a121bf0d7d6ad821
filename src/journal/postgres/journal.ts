/**
 * The port on PostgreSQL: encodes, sends one statement, decodes. Invariants: every method but `append` is
 * safe to send twice, because the Database below may do so after a lost answer; whatever must be atomic is
 * one statement.
 */
import { randomUUID } from "node:crypto"
import { isDuplicate } from "../errors.ts"
import type * as port from "../port/journal.ts"
import type { PipelineStore } from "../port/pipelines.ts"
import type { ProviderStore } from "../port/providers.ts"
import type { Registry } from "../port/registry.ts"
import { RESTORED_EPOCHS } from "../restored.ts"
import type { Database, Row } from "./database.ts"
import { arrayLiteral, encodeAgain, encodeBatch, sentRecords, textArrayLiteral } from "./encode.ts"
import { type FeedNotifications, SqlFeed } from "./feed.ts"
import { SqlPipelineStore } from "./pipelines.ts"
import { SqlProviderStore } from "./providers.ts"
import { SqlRegistry } from "./registry.ts"
import * as rows from "./rows.ts"

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

/** Larger than anything stored: read everything. */
const NO_LIMIT = 2 ** 40

const BEFORE_ALL: port.DueJob = { wakeAt: -1, id: "00000000-0000-0000-0000-000000000000" }

export class SqlJournal implements port.Journal {
  readonly capabilities: port.Capabilities
  readonly listen: port.Journal["listen"]
  readonly registry: Registry
  readonly feed: SqlFeed
  readonly providers: ProviderStore
  readonly pipelines: PipelineStore
  readonly #database: Database
  readonly #wakeUps: WakeUps | null

  constructor(database: Database, options: SqlJournalOptions) {
    this.#database = database
    this.registry = new SqlRegistry(database)
    this.feed = new SqlFeed(database, options.feedNews ?? null)
    this.providers = new SqlProviderStore(database, partitions => this.#wakeUps?.notify(partitions))
    this.pipelines = new SqlPipelineStore(database)
    this.#wakeUps = options.wakeUps ?? null
    this.capabilities = options.capabilities
    this.listen = this.#wakeUps?.listen.bind(this.#wakeUps) ?? null
  }

  async append(batch: port.Batch): Promise<port.AppendResult> {
    const row = await this.#send(batch)
    if (batch.messages.length > 0) {
      this.#wakeUps?.notify(batch.messages.map(message => message.partition))
    }
    if (row === undefined) return { held: new Set(), inserted: 0 }
    const ids = rows.text(row, 0)
    return { held: new Set(ids === "" ? [] : ids.split(",").map(Number)), inserted: rows.number(row, 1) }
  }

  async tryAppend(batch: port.Batch): Promise<void> {
    const { statement, parameters } = encodeAgain(batch)
    await this.#database.trial(statement, parameters)
  }

  /**
   * A batch is nearly always new: only a batch that turns out to be stored already is sent with the slower
   * statement.
   */
  async #send(batch: port.Batch): Promise<Row | undefined> {
    const { statement, parameters } = encodeBatch(batch)
    try {
      return (await this.#database.append(statement, parameters))[0]
    } catch (error) {
      if (!isDuplicate(error)) throw error
      const again = encodeAgain(batch)
      return (await this.#database.append(again.statement, again.parameters))[0]
    }
  }

  async readFacts(
    jobIds: readonly string[],
    options: { readonly inlineBytes?: number; readonly after?: number } = {},
  ) {
    if (jobIds.length === 0) return []
    const { inlineBytes = NO_LIMIT, after = -1 } = options
    const found = await this.#database.query("readFacts", [
      arrayLiteral(jobIds),
      String(inlineBytes),
      String(after),
    ])
    return found.map(rows.factRow)
  }

  async readFact(jobId: string, seq: number) {
    const [row] = await this.#database.query("readFact", [jobId, String(seq)])
    return row?.[0] ?? null
  }

  async readJob(id: string) {
    const [row] = await this.#database.query("readJob", [id])
    return row ? rows.jobRow(row) : null
  }

  async listJobs(filter: port.JobFilter) {
    const shared = [
      filter.after ?? null,
      filter.statuses ? textArrayLiteral(filter.statuses) : null,
      filter.workflow ?? null,
      String(filter.deleted ?? false),
      String(filter.limit),
      filter.createdFrom === undefined ? null : String(filter.createdFrom),
      filter.createdBefore === undefined ? null : String(filter.createdBefore),
      ...labelFilter(filter.labels),
    ]
    const found = await this.#listed(filter, shared)
    return found.map(rows.jobRow)
  }

  async finishedJobs(ids: readonly string[]) {
    return (await this.#database.query("finishedJobs", [arrayLiteral(ids)])).map(rows.jobRow)
  }

  async unfinishedJobs(query: Parameters<port.Journal["unfinishedJobs"]>[0]) {
    const { owner, submittedBy = null, known, after, limit } = query
    const parameters = [owner, arrayLiteral(known), after, String(limit), submittedBy]
    return (await this.#database.query("unfinishedJobs", parameters)).map(row => rows.text(row, 0))
  }

  #listed({ owner, parentId }: port.JobFilter, shared: (string | null)[]): Promise<Row[]> {
    if (typeof parentId === "string")
      return this.#database.query("listJobsOfParent", [
        ...shared,
        parentId.slice(0, FAMILY_LENGTH),
        parentId,
        owner ?? null,
      ])
    const isTop = String(parentId === null)
    return owner === undefined
      ? this.#database.query("listJobs", [...shared, isTop])
      : this.#database.query("listJobsOfOwner", [...shared, owner, isTop])
  }

  async dueJobs(query: Parameters<port.Journal["dueJobs"]>[0]): Promise<port.DueJobs> {
    const { at, limit, after = BEFORE_ALL } = query
    const partitions = arrayLiteral(query.partitions)
    const cursor = [String(after.wakeAt), after.id]
    const found = await this.#database.query("dueJobs", [partitions, String(at), String(limit), ...cursor])
    const jobs = found.map(row => ({ wakeAt: rows.number(row, 0), id: rows.text(row, 1) }))
    const oneMore = jobs[limit]
    if (oneMore) return { jobs: jobs.slice(0, limit), nextWakeAt: oneMore.wakeAt }
    const [next] = await this.#database.query("nextWakeAt", [partitions, String(at)])
    return { jobs, nextWakeAt: next?.[0] ? rows.number(next, 0) : null }
  }

  async putWorkflow(workflow: port.NewWorkflow) {
    const { owner, name, hash, definition, createdAt, pushedBy = null, rules = 1 } = workflow
    const content = [owner, name, hash, definition]
    const row = await this.#untilThere("putWorkflow", [
      ...content,
      String(createdAt),
      pushedBy,
      String(rules),
    ])
    return rows.workflowRow(workflow, row)
  }

  async readWorkflow(key: {
    readonly owner: string
    readonly name: string
    readonly version?: number | undefined
  }) {
    const version = key.version === undefined ? null : String(key.version)
    const [row] = await this.#database.query("readWorkflow", [key.owner, key.name, version])
    return row ? rows.workflowRow(key, row) : null
  }

  async claimKey(claim: port.KeyClaim): Promise<port.KeyClaim> {
    const { owner, key, jobId, fingerprint, createdAt } = claim
    const row = await this.#untilThere("claimKey", [owner, key, jobId, fingerprint, String(createdAt)])
    return {
      owner,
      key,
      jobId: rows.text(row, 0),
      fingerprint: rows.text(row, 1),
      createdAt: rows.number(row, 2),
    }
  }

  async beat(engine: port.EngineBeat) {
    const { engine: id, place, beat, follows } = engine
    return rows.heartbeat(await this.#database.query("beat", [id, place, String(beat), String(follows)]))
  }

  async takePartitions(take: { readonly engine: string; readonly expected: readonly port.PartitionEpoch[] }) {
    const taken = await this.#database.query("takePartitions", [take.engine, ...epochs(take.expected)])
    return taken
      .map(row => ({ partition: rows.number(row, 0), epoch: rows.number(row, 1) }))
      .sort((a, b) => a.partition - b.partition)
  }

  async releasePartitions(release: {
    readonly engine: string
    readonly held: readonly port.PartitionEpoch[]
  }) {
    await this.#database.query("releasePartitions", [release.engine, ...epochs(release.held)])
  }

  async readEngines() {
    return (await this.#database.query("readEngines", [])).map(rows.engineRow)
  }

  async readPartitions() {
    return (await this.#database.query("readPartitions", [])).map(rows.partitionRow)
  }

  async leave(engine: string) {
    await this.#database.query("leave", [engine])
  }

  async sendMessages(messages: readonly port.NewMessage[]) {
    const causes = messages.map(() => randomUUID())
    const parameters = [sentRecords(messages, causes)]
    for (;;) {
      const found = await this.#database.query("sendMessages", parameters)
      const ids = new Map(found.map(row => [rows.text(row, 0), rows.number(row, 1)]))
      if (ids.size < messages.length) continue
      this.#wakeUps?.notify(messages.map(({ partition }) => partition))
      return causes.map(cause => ids.get(cause)!)
    }
  }

  async readMessages(query: { readonly partitions: readonly number[]; readonly limit: number }) {
    const parameters = [arrayLiteral(query.partitions), String(query.limit)]
    return (await this.#database.query("readMessages", parameters)).map(rows.messageRow)
  }

  async readAnswers({ messageIds, forget = [] }: Parameters<port.Journal["readAnswers"]>[0]) {
    const parameters = [arrayLiteral(messageIds), arrayLiteral(forget)]
    const found = await this.#database.query("readAnswers", parameters)
    return new Map(found.map(row => [rows.number(row, 0), rows.text(row, 1)]))
  }

  async withdrawMessage(messageId: number) {
    return (await this.#database.query("withdrawMessage", [String(messageId)])).length > 0
  }

  async endedJobs(query: Parameters<port.Journal["endedJobs"]>[0]) {
    const { partitions, before, limit, unsettledBefore } = query
    const parameters = [arrayLiteral(partitions), String(before), String(limit), String(unsettledBefore)]
    return (await this.#database.query("endedJobs", parameters)).map(row => rows.text(row, 0))
  }

  async purge({ fences, jobIds, before }: Parameters<port.Journal["purge"]>[0]) {
    const parameters = [...epochs(fences), arrayLiteral(jobIds), String(before)]
    return rows.number((await this.#database.query("purge", parameters))[0], 0)
  }

  async tidy({ before, silentSince, unsettledBefore }: Parameters<port.Journal["tidy"]>[0]) {
    await this.#database.query("tidy", [before, silentSince, unsettledBefore].map(String))
  }

  async restored() {
    await this.#database.query("restored", [String(RESTORED_EPOCHS)])
  }

  async close() {
    await this.#wakeUps?.close()
    await this.#database.close()
  }

  /** No row means that another process committed first; a new statement sees what it wrote. */
  async #untilThere(statement: "putWorkflow" | "claimKey", parameters: (string | null)[]): Promise<Row> {
    for (;;) {
      const [row] = await this.#database.query(statement, parameters)
      if (row) return row
    }
  }
}

/** The length of the common prefix of the ids of a job and its children. */
const FAMILY_LENGTH = 18

function labelFilter(labels: port.JobFilter["labels"]): [string, string] | [null, null] {
  if (labels === undefined) return [null, null]
  return [textArrayLiteral(Object.keys(labels)), textArrayLiteral(Object.values(labels))]
}

function epochs(list: readonly port.PartitionEpoch[]): [string, string] {
  return [arrayLiteral(list.map(({ partition }) => partition)), arrayLiteral(list.map(({ epoch }) => epoch))]
}
