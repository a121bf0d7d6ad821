/** The methods of the journal on one SQLite connection: each is one transaction. */
import { randomUUID } from "node:crypto"
import type { ListedStore, PlacesQuery, ScannedJobs, ScanQuery } from "../list-jobs.ts"
import { messageCauses } from "../message-cause.ts"
import type * as port from "../port/journal.ts"
import { type ListedJob, listedJob, messageRow, type StoredMessage } from "../rows.ts"
import { BEFORE_ALL, BEFORE_ALL_ENDED, NO_LIMIT, RESTORED_EPOCHS } from "../values.ts"
import { append, insertMessage } from "./append.ts"
import { type Connection, freeText, json, list, type Sync } from "./database.ts"
import type { Value } from "./driver.ts"
import { JOB_COLUMNS, LISTED_COLUMNS, listedOwners, listedPlaces, purgeMarks, scanJobs } from "./list-jobs.ts"
import { purge, purgeFacts } from "./purge.ts"

type Verbs = Sync<Omit<port.Journal, "close" | "sendMessages" | "listJobs"> & ListedStore>

const WORKFLOW_COLUMNS = `
  owner, name, version, hash, definition, created_at as createdAt, deleted_at as deletedAt, pushed_by as pushedBy, rules`

const ENDED_JOBS = `
select
  j.id, j.finished_at as finishedAt, j.is_mine as isMine,
  j.is_mine
    and j.wake_at is null
    and j.seq <= (select w.seq from statistics_watermarks as w where w.partition = j.partition)
    and not exists (select 1 from jobs as p where p.id = j.parent_id)
    and not exists (select 1 from held as h where h.held = j.id)
    and (
      j.finished_at < ?3
      or not exists (
        select 1 from operations as o
        where o.job_id = j.id and (o.cancel_at is not null or (o.unseen = 1 and o.ended_at is null))
      )
    ) as isFree
from (
  select
    id, seq, partition, finished_at, partition in (select value from json_each(?2)) as is_mine, wake_at, parent_id
  from jobs
  where finished_at < ?1 and (finished_at, id) > (?4, ?5)
  order by finished_at, id
  limit ?6
) as j
order by j.finished_at, j.id`

export class SqliteJournal implements Verbs {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** `marks`: the entries that belong to the batch (journal/marks.ts). */
  append(batch: port.Batch, marks: readonly number[] = []): port.AppendResult {
    const causes = messageCauses(batch.messages)
    const result = this.#connection.transaction(() => append(this.#connection, batch, causes, marks))
    if (batch.messages.length > 0) this.#connection.notify(batch.messages.map(({ partition }) => partition))
    return result
  }

  tryAppend(batch: port.Batch): void {
    const causes = messageCauses(batch.messages)
    this.#connection.trial(() => append(this.#connection, batch, causes, []))
  }

  readFacts(
    jobIds: readonly string[],
    { inlineBytes = NO_LIMIT, after = -1 }: { readonly inlineBytes?: number; readonly after?: number } = {},
  ): port.FactRow[] {
    return [...new Set(jobIds)].sort().flatMap(id =>
      this.#connection.all<port.FactRow>(
        `select job_id as jobId, seq, at, type, case when bytes <= ?1 then data end as data, bytes
         from journal
         where job_id = ?2 and seq > max(?3, coalesce((select seq from journal_orphans where job_id = ?2), -1))
         order by seq`,
        inlineBytes,
        id,
        after,
      ),
    )
  }

  readFactPage({
    jobId,
    after,
    upTo = Number.MAX_SAFE_INTEGER,
    limit,
    inlineBytes,
  }: port.FactPageQuery): port.FactRow[] {
    return this.#connection.all<port.FactRow>(
      `select job_id as jobId, seq, at, type, case when bytes <= ? then data end as data, bytes
       from journal where job_id = ? and seq > ? and seq <= ? order by seq limit ?`,
      inlineBytes,
      jobId,
      after,
      upTo,
      limit,
    )
  }

  countFacts(jobId: string, upTo: number): number {
    const sql = "select count(*) as count from journal where job_id = ? and seq <= ?"
    return this.#connection.get<{ count: number }>(sql, jobId, upTo)!.count
  }

  readFact(jobId: string, seq: number): string | null {
    const sql = "select data from journal where job_id = ? and seq = ?"
    return this.#connection.get<{ data: string }>(sql, jobId, seq)?.data ?? null
  }

  readJob(id: string): port.JobRow | null {
    const sql = `select ${JOB_COLUMNS}, output from jobs where id = ?`
    return this.#connection.get<port.JobRow>(sql, id) ?? null
  }

  listedPlaces(query: PlacesQuery): number[] {
    return listedPlaces(this.#connection, query)
  }

  scanJobs(query: ScanQuery): ScannedJobs {
    return scanJobs(this.#connection, query)
  }

  listedOwners(limit: number): string[] {
    return listedOwners(this.#connection, limit)
  }

  finishedJobs(ids: readonly string[]): port.JobRow[] {
    const sql = `select ${LISTED_COLUMNS} from jobs
      where id in (select value from json_each(?)) and finished_at is not null`
    return this.#connection.all<ListedJob>(sql, list(ids)).map(listedJob)
  }

  unfinishedJobs(query: Parameters<port.Journal["unfinishedJobs"]>[0]): string[] {
    const { owner, submittedBy = null, known, after, limit } = query
    const mine = "owner = ?1 and finished_at is null and (?2 is null or submitted_by = ?2)"
    const sql = `select id from jobs where id in (select value from json_each(?3)) and ${mine}
      union select id from (select id from jobs where ${mine} and id > ?4 order by id desc limit ?5)`
    return this.#ids(sql, owner, submittedBy, list(known), after, limit)
  }

  /** Each partition is read from its own range of the index: jobs that are due later cost nothing. */
  dueJobs(query: Parameters<port.Journal["dueJobs"]>[0]): port.DueJobs {
    const { at, limit, after = BEFORE_ALL } = query
    const found = query.partitions.flatMap(partition =>
      this.#connection.all<port.DueJob>(
        `select wake_at as wakeAt, id from jobs
         where partition = ? and wake_at <= ? and (wake_at, id) > (?, ?) order by wake_at, id limit ?`,
        partition,
        at,
        after.wakeAt,
        after.id,
        limit + 1,
      ),
    )
    const due = found.sort((a, b) => a.wakeAt - b.wakeAt || (a.id < b.id ? -1 : 1))
    const jobs = due.slice(0, limit)
    return { jobs, nextWakeAt: due[limit]?.wakeAt ?? this.#nextWakeAt(query.partitions, at) }
  }

  countDue(query: Parameters<port.Journal["countDue"]>[0]): number {
    const { partitions, wakeAt, last, limit } = query
    const sql = `select count(*) as count from (
      select 1 from jobs where partition = ? and wake_at >= ? and (wake_at, id) <= (?, ?) limit ?)`
    let count = 0
    for (const partition of partitions) {
      if (count === limit) break
      const rest = limit - count
      count += this.#connection.get<{ count: number }>(
        sql,
        partition,
        wakeAt,
        last.wakeAt,
        last.id,
        rest,
      )!.count
    }
    return count
  }

  #nextWakeAt(partitions: readonly number[], at: number): number | null {
    const sql = "select min(wake_at) as wakeAt from jobs where partition = ? and wake_at > ?"
    const times = partitions.flatMap(
      partition => this.#connection.get<{ wakeAt: number | null }>(sql, partition, at)?.wakeAt ?? [],
    )
    return times.length === 0 ? null : Math.min(...times)
  }

  putWorkflow(workflow: port.NewWorkflow): port.WorkflowRow {
    const { owner, name, hash, definition, createdAt, pushedBy = null, rules = 1 } = workflow
    json(definition)
    return this.#connection.transaction(() => {
      const latest = this.#workflow(
        `select ${WORKFLOW_COLUMNS} from workflows where owner = ? and name = ? order by version desc limit 1`,
        freeText(owner),
        freeText(name),
      )
      // A deleted version does not count: pushing the same content again creates a new version.
      const isSame =
        latest?.deletedAt === null && latest.hash === hash && latest.definition === workflow.definition
      if (isSame) return { ...latest, unchanged: true }
      const version = (latest?.version ?? 0) + 1
      this.#connection.run(
        `insert into workflows (owner, name, version, hash, created_at, pushed_by, rules, definition)
         values (?, ?, ?, ?, ?, ?, ?, ?)`,
        owner,
        name,
        version,
        hash,
        createdAt,
        pushedBy === null ? null : freeText(pushedBy),
        rules,
        definition,
      )
      const stored = { owner, name, version, hash, definition, createdAt, deletedAt: null, pushedBy, rules }
      return { ...stored, unchanged: false }
    })
  }

  readWorkflow({
    owner,
    name,
    version,
  }: Parameters<port.Journal["readWorkflow"]>[0]): port.WorkflowRow | null {
    const sql = `select ${WORKFLOW_COLUMNS} from workflows where owner = ? and name = ?`
    const found =
      version === undefined
        ? this.#workflow(`${sql} and deleted_at is null order by version desc limit 1`, owner, name)
        : this.#workflow(`${sql} and version = ?`, owner, name, version)
    return found ? { ...found, unchanged: false } : null
  }

  #workflow(sql: string, ...values: Value[]): StoredWorkflow | undefined {
    return this.#connection.get(sql, ...values)
  }

  readDefinition(hash: string): port.StoredDefinition | null {
    const sql = "select hash, definition, rules from definitions where hash = ?"
    return this.#connection.get<port.StoredDefinition>(sql, hash) ?? null
  }

  claimKey({ owner, key, jobId, fingerprint, createdAt }: port.KeyClaim): port.KeyClaim {
    return this.#connection.transaction(() => {
      this.#connection.run(
        `insert into idempotency_keys (owner, key, job_id, fingerprint, created_at) values (?, ?, ?, ?, ?)
         on conflict do nothing`,
        freeText(owner),
        freeText(key),
        jobId,
        fingerprint,
        createdAt,
      )
      return this.readKey({ owner, key })!
    })
  }

  readKey({ owner, key }: Parameters<port.Journal["readKey"]>[0]): port.KeyClaim | null {
    const sql = `select owner, key, job_id as jobId, fingerprint, created_at as createdAt
      from idempotency_keys where owner = ? and key = ?`
    return this.#connection.get<port.KeyClaim>(sql, owner, key) ?? null
  }

  beat({ engine, place, beat, follows }: port.EngineBeat): port.Heartbeat {
    return this.#connection.transaction(() => {
      this.#connection.run(
        `insert into engines (id, place, beat, follows) values (?, ?, ?, ?)
         on conflict (id) do update set place = excluded.place, beat = excluded.beat, follows = excluded.follows`,
        engine,
        place,
        beat,
        Number(follows),
      )
      const inbox = `select id from partitions as p where owner = ? and exists (
        select 1 from inbox as i where i.partition = p.id and i.answer is null and i.withdrawn = 0
      ) order by id`
      const nextFire = `select min((select min(next_at) from schedules where partition = p.id and next_at is not null)) as at
        from partitions as p where owner = ?`
      return {
        engines: this.readEngines().filter(other => other.engine !== engine),
        partitions: this.readPartitions(),
        inbox: this.#connection.all<{ id: number }>(inbox, engine).map(({ id }) => id),
        nextFireAt: this.#connection.get<{ at: number | null }>(nextFire, engine)?.at ?? null,
      }
    })
  }

  takePartitions(take: Parameters<port.Journal["takePartitions"]>[0]): port.PartitionEpoch[] {
    const sql = `update partitions set owner = ?1, epoch = ?3 + 1
      where id = ?2 and (epoch = ?3 or (epoch = ?3 + 1 and owner = ?1))`
    const taken = this.#connection.transaction(() =>
      take.expected.filter(
        ({ partition, epoch }) => this.#connection.run(sql, take.engine, partition, epoch) > 0,
      ),
    )
    return taken
      .map(({ partition, epoch }) => ({ partition, epoch: epoch + 1 }))
      .sort((a, b) => a.partition - b.partition)
  }

  releasePartitions(release: Parameters<port.Journal["releasePartitions"]>[0]): void {
    const sql = "update partitions set owner = null where id = ? and epoch = ? and owner = ?"
    this.#connection.transaction(() => {
      for (const { partition, epoch } of release.held)
        this.#connection.run(sql, partition, epoch, release.engine)
    })
  }

  readEngines(): port.EngineBeat[] {
    return this.#connection
      .all<port.EngineBeat>("select id as engine, place, beat, follows from engines")
      .map(engine => ({ ...engine, follows: Boolean(engine.follows) }))
  }

  readPartitions(): port.PartitionRow[] {
    return this.#connection.all("select id as partition, owner, epoch from partitions order by id")
  }

  leave(engine: string): void {
    this.#connection.run("delete from engines where id = ?", engine)
  }

  /** `causes`: a name for each message that is the same when the call is repeated. */
  sendMessages(messages: readonly port.NewMessage[], causes: readonly string[]): number[] {
    for (const { command } of messages) json(command)
    const ids = this.#connection.transaction(() =>
      messages.map((message, index) => {
        insertMessage(this.#connection, message, causes[index]!)
        const sql = "select id from inbox where cause = ?"
        return this.#connection.get<{ id: number }>(sql, causes[index]!)!.id
      }),
    )
    this.#connection.notify(messages.map(({ partition }) => partition))
    return ids
  }

  readMessages(query: { readonly partitions: readonly number[]; readonly limit: number }): port.MessageRow[] {
    const rows = this.#connection.all<StoredMessage>(
      `select id, partition, job_id as jobId, sent_at as sentAt, command, kind, node, item, news from inbox
       where partition in (select value from json_each(?)) and answer is null and withdrawn = 0
       order by id limit ?`,
      list(query.partitions),
      query.limit,
    )
    return rows.map(messageRow)
  }

  readAnswers({
    messageIds,
    forget = [],
  }: Parameters<port.Journal["readAnswers"]>[0]): ReadonlyMap<number, string> {
    const answered = "id in (select value from json_each(?)) and answer is not null"
    return this.#connection.transaction(() => {
      const sql = `select id, answer from inbox where ${answered}`
      const found = this.#connection.all<{ id: number; answer: string }>(sql, list(messageIds))
      if (forget.length > 0) this.#connection.run(`delete from inbox where ${answered}`, list(forget))
      return new Map(found.map(({ id, answer }) => [id, answer]))
    })
  }

  withdrawMessage(messageId: number): boolean {
    const sql = "update inbox set withdrawn = 1 where id = ? and answer is null"
    return this.#connection.run(sql, messageId) > 0
  }

  endedJobs(query: Parameters<port.Journal["endedJobs"]>[0]): port.EndedJob[] {
    const { partitions, before, unsettledBefore, after = BEFORE_ALL_ENDED, limit } = query
    const rows = this.#connection.all<StoredEndedJob>(
      ENDED_JOBS,
      ...[before, list(partitions), unsettledBefore, after.finishedAt, after.id, limit],
    )
    return rows.map(row => ({ ...row, isMine: Boolean(row.isMine), isFree: Boolean(row.isFree) }))
  }

  #ids(sql: string, ...values: Value[]): string[] {
    return this.#connection.all<{ id: string }>(sql, ...values).map(({ id }) => id)
  }

  purge(query: Parameters<port.Journal["purge"]>[0]): number {
    return this.#connection.transaction(() => purge(this.#connection, query))
  }

  purgeMarks(query: Parameters<port.Journal["purgeMarks"]>[0]): ReturnType<typeof purgeMarks> {
    return this.#connection.transaction(() => purgeMarks(this.#connection, query))
  }

  purgeFacts({ limit }: Parameters<port.Journal["purgeFacts"]>[0]): number {
    return this.#connection.transaction(() => purgeFacts(this.#connection, limit))
  }

  purgeKeys({ before, after, limit }: Parameters<port.Journal["purgeKeys"]>[0]): string | null {
    return this.#connection.transaction(() => {
      const page = this.#connection.all<KeyOfJob>(
        `select owner, key, job_id as jobId,
           created_at < ? and not exists (select 1 from jobs where jobs.id = idempotency_keys.job_id) as isAbandoned
         from idempotency_keys where job_id > ? order by job_id limit ?`,
        ...[before, after ?? BEFORE_ALL.id, limit],
      )
      for (const { owner, key, isAbandoned } of page)
        if (isAbandoned)
          this.#connection.run("delete from idempotency_keys where owner = ? and key = ?", owner, key)
      return page.length < limit ? null : page.at(-1)!.jobId
    })
  }

  tidy({ before, unsettledBefore, silentSince, limit }: Parameters<port.Journal["tidy"]>[0]): boolean {
    return this.#connection.transaction(() => {
      const settled = this.#connection.run(
        `delete from inbox where id in (
           select id from inbox where sent_at < ? and (answer is not null or withdrawn = 1) order by id limit ?
         )`,
        ...[before, limit],
      )
      const claims = this.#connection.run(
        `delete from operation_claims where (provider, external_id) in (
           select c.provider, c.external_id from operation_claims as c
           where c.claimed_at < ? and not exists (
             select 1 from operations as o where o.provider = c.provider and o.external_id = c.external_id
           )
           order by c.claimed_at limit ?
         )`,
        ...[before, limit],
      )
      const events = this.#connection.run(
        `delete from webhook_events where id in (
           select id from webhook_events
           where received_at < ?1 and (verdict <> 'parked' or received_at < ?2) order by received_at limit ?3
         )`,
        ...[before, unsettledBefore, limit],
      )
      const definitions = this.#connection.run(
        `delete from definitions where hash in (
           select d.hash from definitions as d
           where d.used_at < ? and not exists (select 1 from held as h where h.held = d.hash) limit ?
         )`,
        ...[before, limit],
      )
      const outcomes = this.#connection.run(
        `delete from fires where (schedule_id, tick, kind) in (
           select schedule_id, tick, kind from fires where at < ? order by at limit ?
         )`,
        ...[before, limit],
      )
      this.#connection.run(
        `delete from engines
         where beat = purged_beat and beat <= ?
           and not exists (select 1 from partitions where partitions.owner = engines.id)`,
        silentSince,
      )
      this.#connection.run("update engines set purged_beat = beat where purged_beat is not beat")
      return Math.max(settled, claims, events, definitions, outcomes) >= limit
    })
  }

  restored(): void {
    this.#connection.transaction(() => {
      this.#connection.run("update partitions set epoch = epoch + ?, owner = null", RESTORED_EPOCHS)
      this.#connection.run("delete from engines")
      this.#connection.run("update store set id = ?", randomUUID())
    })
  }
}

type StoredEndedJob = port.EndedJobKey & { readonly isMine: number; readonly isFree: number }

interface KeyOfJob {
  readonly owner: string
  readonly key: string
  readonly jobId: string
  readonly isAbandoned: number
}

type StoredWorkflow = Omit<port.WorkflowRow, "unchanged">
