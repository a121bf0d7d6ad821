/** The methods of the journal on one SQLite connection: each is one transaction. */
import { randomUUID } from "node:crypto"
import type { ListedStore, PlacesQuery, ScannedJobs, ScanQuery } from "../list-jobs.ts"
import { messageCauses } from "../message-cause.ts"
import type * as port from "../port/journal.ts"
import { type ListedJob, listedJob, messageRow, type StoredMessage } from "../rows.ts"
import { BEFORE_ALL, BEFORE_ALL_ENDED, NO_LIMIT, RESTORED_EPOCHS } from "../values.ts"
import { append, insertMessage } from "./append.ts"
import { freeText, json, list, SqliteStore, type Sync } from "./database.ts"
import { JOB_COLUMNS, LISTED_COLUMNS, listedOwners, listedPlaces, purgeMarks, scanJobs } from "./list-jobs.ts"
import { purge, purgeFacts } from "./purge.ts"

type Argument<Verb extends keyof port.Journal> = port.Journal[Verb] extends (argument: infer One) => unknown
  ? One
  : never

type Verbs = Sync<Omit<port.Journal, "close" | "sendMessages" | "listJobs"> & ListedStore>

const WORKFLOW_COLUMNS = `
  owner, name, version, hash, definition, created_at as createdAt, deleted_at as deletedAt, pushed_by as pushedBy, rules`

const FACT_COLUMNS =
  "job_id as jobId, seq, at, type, case when bytes <= @inline_bytes then data end as data, bytes"

/** What `tidy` removes of each table, at most `@limit` rows of each. */
const TIDIED = [
  `delete from inbox where id in (
     select id from inbox where sent_at < @before and (answer is not null or withdrawn = 1) order by id limit @limit
   )`,
  `delete from operation_claims where (provider, external_id) in (
     select c.provider, c.external_id from operation_claims as c
     where c.claimed_at < @before and not exists (
       select 1 from operations as o where o.provider = c.provider and o.external_id = c.external_id
     )
     order by c.claimed_at limit @limit
   )`,
  `delete from webhook_events where id in (
     select id from webhook_events
     where received_at < @before and (verdict <> 'parked' or received_at < @unsettled_before)
     order by received_at limit @limit
   )`,
  `delete from definitions where hash in (
     select d.hash from definitions as d
     where d.used_at < @before and not exists (select 1 from held as h where h.held = d.hash) limit @limit
   )`,
  `delete from fires where (schedule_id, tick, kind) in (
     select schedule_id, tick, kind from fires where at < @before order by at limit @limit
   )`,
]

const ENDED_JOBS = `
select
  j.id, j.finished_at as finishedAt, j.is_mine as isMine,
  j.is_mine
    and j.wake_at is null
    and j.seq <= (select w.seq from statistics_watermarks as w where w.partition = j.partition)
    and not exists (select 1 from jobs as p where p.id = j.parent_id)
    and not exists (select 1 from held as h where h.held = j.id)
    and (
      j.finished_at < @unsettled_before
      or not exists (
        select 1 from operations as o
        where o.job_id = j.id and (o.cancel_at is not null or (o.unseen = 1 and o.ended_at is null))
      )
    ) as isFree
from (
  select
    id, seq, partition, finished_at, partition in (select value from json_each(@partitions)) as is_mine, wake_at, parent_id
  from jobs
  where finished_at < @before and (finished_at, id) > (@finished_at, @id)
  order by finished_at, id
  limit @limit
) as j
order by j.finished_at, j.id`

export class SqliteJournal extends SqliteStore implements Verbs {
  /** `marks`: the entries that belong to the batch (journal/marks.ts). */
  append(batch: port.Batch, marks: readonly number[] = []): port.AppendResult {
    const causes = messageCauses(batch.messages)
    const result = this.connection.transaction(() => append(this.connection, batch, causes, marks))
    if (batch.messages.length > 0) this.connection.notify(batch.messages.map(({ partition }) => partition))
    return result
  }

  tryAppend(batch: port.Batch): void {
    const causes = messageCauses(batch.messages)
    this.connection.trial(() => append(this.connection, batch, causes, []))
  }

  readFacts(
    jobIds: readonly string[],
    { inlineBytes = NO_LIMIT, after = -1 }: { readonly inlineBytes?: number; readonly after?: number } = {},
  ): port.FactRow[] {
    return [...new Set(jobIds)].sort().flatMap(id =>
      this.connection.all<port.FactRow>(
        `select ${FACT_COLUMNS} from journal
         where job_id = @id and seq > max(@after, coalesce((select seq from journal_orphans where job_id = @id), -1))
         order by seq`,
        { id, after, inlineBytes },
      ),
    )
  }

  readFactPage({ upTo = Number.MAX_SAFE_INTEGER, ...query }: port.FactPageQuery): port.FactRow[] {
    const sql = `select ${FACT_COLUMNS} from journal
      where job_id = @job_id and seq > @after and seq <= @up_to order by seq limit @limit`
    return this.connection.all<port.FactRow>(sql, { ...query, upTo })
  }

  countFacts(jobId: string, upTo: number): number {
    return this.counted("select count(*) as count from journal where job_id = ? and seq <= ?", jobId, upTo)
  }

  readFact(jobId: string, seq: number): string | null {
    const sql = "select data from journal where job_id = ? and seq = ?"
    return this.connection.get<{ data: string }>(sql, jobId, seq)?.data ?? null
  }

  readJob(id: string): port.JobRow | null {
    const sql = `select ${JOB_COLUMNS}, output from jobs where id = ?`
    return this.connection.get<port.JobRow>(sql, id) ?? null
  }

  listedPlaces(query: PlacesQuery): number[] {
    return listedPlaces(this.connection, query)
  }

  scanJobs(query: ScanQuery): ScannedJobs {
    return scanJobs(this.connection, query)
  }

  listedOwners(limit: number): string[] {
    return listedOwners(this.connection, limit)
  }

  finishedJobs(ids: readonly string[]): port.JobRow[] {
    const sql = `select ${LISTED_COLUMNS} from jobs
      where id in (select value from json_each(?)) and finished_at is not null`
    return this.connection.all<ListedJob>(sql, list(ids)).map(listedJob)
  }

  unfinishedJobs(query: Argument<"unfinishedJobs">): string[] {
    const mine =
      "owner = @owner and finished_at is null and (@submitted_by is null or submitted_by = @submitted_by)"
    const sql = `select id from jobs where id in (select value from json_each(@known)) and ${mine}
      union select id from (select id from jobs where ${mine} and id > @after order by id desc limit @limit)`
    return this.ids(sql, query)
  }

  /** Each partition is read from its own range of the index: jobs that are due later cost nothing. */
  dueJobs(query: Argument<"dueJobs">): port.DueJobs {
    const { at, limit, after = BEFORE_ALL } = query
    const sql = `select wake_at as wakeAt, id from jobs
      where partition = @partition and wake_at <= @at and (wake_at, id) > (@wake_at, @id) order by wake_at, id limit @most`
    const found = query.partitions.flatMap(partition =>
      this.connection.all<port.DueJob>(sql, { partition, at, ...after, most: limit + 1 }),
    )
    const due = found.sort((a, b) => a.wakeAt - b.wakeAt || (a.id < b.id ? -1 : 1))
    const jobs = due.slice(0, limit)
    return { jobs, nextWakeAt: due[limit]?.wakeAt ?? this.#nextWakeAt(query.partitions, at) }
  }

  countDue({ partitions, wakeAt, last, limit }: Argument<"countDue">): number {
    const sql = `select count(*) as count from (
      select 1 from jobs where partition = @partition and wake_at >= @from and (wake_at, id) <= (@wake_at, @id) limit @rest)`
    let count = 0
    for (const partition of partitions) {
      if (count === limit) break
      count += this.counted(sql, { partition, from: wakeAt, ...last, rest: limit - count })
    }
    return count
  }

  #nextWakeAt(partitions: readonly number[], at: number): number | null {
    const sql = "select min(wake_at) as wakeAt from jobs where partition = ? and wake_at > ?"
    const times = partitions.flatMap(
      partition => this.connection.get<{ wakeAt: number | null }>(sql, partition, at)?.wakeAt ?? [],
    )
    return times.length === 0 ? null : Math.min(...times)
  }

  putWorkflow(workflow: port.NewWorkflow): port.WorkflowRow {
    const { owner, name, hash, definition, pushedBy = null, rules = 1 } = workflow
    json(definition)
    return this.connection.transaction(() => {
      const latest = this.connection.get<StoredWorkflow>(
        `select ${WORKFLOW_COLUMNS} from workflows where owner = ? and name = ? order by version desc limit 1`,
        freeText(owner),
        freeText(name),
      )
      // A deleted version does not count: pushing the same content again creates a new version.
      const isSame = latest?.deletedAt === null && latest.hash === hash && latest.definition === definition
      if (isSame) return { ...latest, unchanged: true }
      const stored = { ...workflow, version: (latest?.version ?? 0) + 1, deletedAt: null, pushedBy, rules }
      this.connection.run(
        `insert into workflows (owner, name, version, hash, created_at, pushed_by, rules, definition)
         values (@owner, @name, @version, @hash, @created_at, @pushed_by, @rules, @definition)`,
        stored,
      )
      return { ...stored, unchanged: false }
    })
  }

  readWorkflow(key: Argument<"readWorkflow">): port.WorkflowRow | null {
    const which =
      key.version === undefined ? "deleted_at is null order by version desc limit 1" : "version = @version"
    const sql = `select ${WORKFLOW_COLUMNS} from workflows where owner = @owner and name = @name and ${which}`
    const found = this.connection.get<StoredWorkflow>(sql, key)
    return found ? { ...found, unchanged: false } : null
  }

  readDefinition(hash: string): port.StoredDefinition | null {
    const sql = "select hash, definition, rules from definitions where hash = ?"
    return this.connection.get<port.StoredDefinition>(sql, hash) ?? null
  }

  claimKey(claim: port.KeyClaim): port.KeyClaim {
    return this.connection.transaction(() => {
      this.connection.run(
        `insert into idempotency_keys (owner, key, job_id, fingerprint, created_at)
         values (@owner, @key, @job_id, @fingerprint, @created_at)
         on conflict do nothing`,
        claim,
      )
      return this.readKey(claim)!
    })
  }

  readKey({ owner, key }: Argument<"readKey">): port.KeyClaim | null {
    const sql = `select owner, key, job_id as jobId, fingerprint, created_at as createdAt
      from idempotency_keys where owner = ? and key = ?`
    return this.connection.get<port.KeyClaim>(sql, owner, key) ?? null
  }

  beat(own: port.EngineBeat): port.Heartbeat {
    const { engine } = own
    return this.connection.transaction(() => {
      this.connection.run(
        `insert into engines (id, place, beat, follows) values (@engine, @place, @beat, @follows)
         on conflict (id) do update set place = excluded.place, beat = excluded.beat, follows = excluded.follows`,
        own,
      )
      const inbox = `select id from partitions as p where owner = ? and exists (
        select 1 from inbox as i where i.partition = p.id and i.answer is null and i.withdrawn = 0
      ) order by id`
      const nextFire = `select min((select min(next_at) from schedules where partition = p.id and next_at is not null)) as at
        from partitions as p where owner = ?`
      return {
        engines: this.readEngines().filter(other => other.engine !== engine),
        partitions: this.readPartitions(),
        inbox: this.connection.all<{ id: number }>(inbox, engine).map(({ id }) => id),
        nextFireAt: this.connection.get<{ at: number | null }>(nextFire, engine)?.at ?? null,
      }
    })
  }

  takePartitions(take: Argument<"takePartitions">): port.PartitionEpoch[] {
    const sql = `update partitions set owner = ?1, epoch = ?3 + 1
      where id = ?2 and (epoch = ?3 or (epoch = ?3 + 1 and owner = ?1))`
    const taken = this.connection.transaction(() =>
      take.expected.filter(
        ({ partition, epoch }) => this.connection.run(sql, take.engine, partition, epoch) > 0,
      ),
    )
    return taken
      .map(({ partition, epoch }) => ({ partition, epoch: epoch + 1 }))
      .sort((a, b) => a.partition - b.partition)
  }

  releasePartitions(release: Argument<"releasePartitions">): void {
    const sql = "update partitions set owner = null where id = ? and epoch = ? and owner = ?"
    this.connection.transaction(() => {
      for (const { partition, epoch } of release.held)
        this.connection.run(sql, partition, epoch, release.engine)
    })
  }

  readEngines(): port.EngineBeat[] {
    return this.connection
      .all<port.EngineBeat>("select id as engine, place, beat, follows from engines")
      .map(engine => ({ ...engine, follows: Boolean(engine.follows) }))
  }

  readPartitions(): port.PartitionRow[] {
    return this.connection.all("select id as partition, owner, epoch from partitions order by id")
  }

  leave(engine: string): void {
    this.connection.run("delete from engines where id = ?", engine)
  }

  /** `causes`: a name for each message that is the same when the call is repeated. */
  sendMessages(messages: readonly port.NewMessage[], causes: readonly string[]): number[] {
    for (const { command } of messages) json(command)
    const ids = this.connection.transaction(() =>
      messages.map((message, index) => {
        insertMessage(this.connection, message, causes[index]!)
        const sql = "select id from inbox where cause = ?"
        return this.connection.get<{ id: number }>(sql, causes[index]!)!.id
      }),
    )
    this.connection.notify(messages.map(({ partition }) => partition))
    return ids
  }

  readMessages(query: Argument<"readMessages">): port.MessageRow[] {
    const rows = this.connection.all<StoredMessage>(
      `select id, partition, job_id as jobId, sent_at as sentAt, command, kind, node, item, news from inbox
       where partition in (select value from json_each(@partitions)) and answer is null and withdrawn = 0
       order by id limit @limit`,
      query,
    )
    return rows.map(messageRow)
  }

  readAnswers({ messageIds, forget = [] }: Argument<"readAnswers">): ReadonlyMap<number, string> {
    const answered = "id in (select value from json_each(?)) and answer is not null"
    return this.connection.transaction(() => {
      const sql = `select id, answer from inbox where ${answered}`
      const found = this.connection.all<{ id: number; answer: string }>(sql, list(messageIds))
      if (forget.length > 0) this.connection.run(`delete from inbox where ${answered}`, list(forget))
      return new Map(found.map(({ id, answer }) => [id, answer]))
    })
  }

  withdrawMessage(messageId: number): boolean {
    const sql = "update inbox set withdrawn = 1 where id = ? and answer is null"
    return this.connection.run(sql, messageId) > 0
  }

  endedJobs({ after = BEFORE_ALL_ENDED, ...query }: Argument<"endedJobs">): port.EndedJob[] {
    const rows = this.connection.all<StoredEndedJob>(ENDED_JOBS, { ...query, ...after })
    return rows.map(row => ({ ...row, isMine: Boolean(row.isMine), isFree: Boolean(row.isFree) }))
  }

  purge(query: Argument<"purge">): number {
    return this.connection.transaction(() => purge(this.connection, query))
  }

  purgeMarks(query: Argument<"purgeMarks">): ReturnType<typeof purgeMarks> {
    return this.connection.transaction(() => purgeMarks(this.connection, query))
  }

  purgeFacts({ limit }: Argument<"purgeFacts">): number {
    return this.connection.transaction(() => purgeFacts(this.connection, limit))
  }

  purgeKeys({ before, after, limit }: Argument<"purgeKeys">): string | null {
    return this.connection.transaction(() => {
      const page = this.connection.all<KeyOfJob>(
        `select owner, key, job_id as jobId,
           created_at < @before and not exists (select 1 from jobs where jobs.id = idempotency_keys.job_id) as isAbandoned
         from idempotency_keys where job_id > @after order by job_id limit @limit`,
        { before, after: after ?? BEFORE_ALL.id, limit },
      )
      for (const { owner, key, isAbandoned } of page)
        if (isAbandoned)
          this.connection.run("delete from idempotency_keys where owner = ? and key = ?", owner, key)
      return page.length < limit ? null : page.at(-1)!.jobId
    })
  }

  tidy(query: Argument<"tidy">): boolean {
    return this.connection.transaction(() => {
      const removed = TIDIED.map(sql => this.connection.run(sql, query))
      this.connection.run(
        `delete from engines
         where beat = purged_beat and beat <= ?
           and not exists (select 1 from partitions where partitions.owner = engines.id)`,
        query.silentSince,
      )
      this.connection.run("update engines set purged_beat = beat where purged_beat is not beat")
      return Math.max(...removed) >= query.limit
    })
  }

  restored(): void {
    this.connection.transaction(() => {
      this.connection.run("update partitions set epoch = epoch + ?, owner = null", RESTORED_EPOCHS)
      this.connection.run("delete from engines")
      this.connection.run("update store set id = ?", randomUUID())
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
