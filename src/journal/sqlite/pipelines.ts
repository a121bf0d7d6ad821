/**
 * Pipelines on SQLite: the methods of `PipelineStore`, synchronous, each one transaction.
 *
 * `purge` (append.ts) marks the execution of a removed job as an orphan: it may have millions of rows, and
 * `purgeLineage` removes them page by page.
 */

import { ARTIFACT_MARK, artifactsInText } from "../../core/artifacts.ts"
import { formatMessageKey } from "../../core/pipeline/settled.ts"
import { type AttemptRow, attemptRows, lineageRows } from "../lineage.ts"
import {
  CLAIM_PAGE,
  checkSentBefore,
  deadLetterPages,
  distinctKeys,
  executionPage,
  inKeyOrder,
  inLineageOrder,
  type ScannedExecution,
  settled,
  storedKey,
} from "../pipeline-rules.ts"
import type {
  DeadLetterRow,
  DeadLettersLeft,
  ExecutionRow,
  LineageRow,
  MessageKey,
  MessageRow,
  NewMessageRow,
  ParkedRow,
  ParkedState,
  PipelineCommit,
  PipelineStore,
  ReplayedRow,
} from "../port/pipelines.ts"
import { pipelineMessage, type StoredPipelineMessage } from "../rows.ts"
import { BEFORE_ALL_KEYS } from "../values.ts"
import { heldPartitions } from "./append.ts"
import { json, SqliteStore, type Sync, withinBytes } from "./database.ts"
import { purgePipelines } from "./purge-pipelines.ts"

type Argument<Verb extends keyof PipelineStore> = Parameters<PipelineStore[Verb]>[0]

const LAST_ROUTE = Number.MAX_SAFE_INTEGER

const MESSAGE_BUT_BODY =
  "m.route, m.seq, m.parent_route as parentRoute, m.parent_seq as parentSeq, m.root, m.hops, m.at"
const MESSAGE = `${MESSAGE_BUT_BODY}, m.body`
/** Without the hint SQLite uses the primary key, and reads all messages that wait for their next try. */
const DEAD_LETTERS = "pipeline_parked as p indexed by pipeline_parked_dead"
const MESSAGE_OF_PARKED =
  "pipeline_messages as m on m.execution = p.execution and m.route = p.route and m.seq = p.seq"

export class SqlitePipelines extends SqliteStore implements Omit<Sync<PipelineStore>, "claimDeadLetters"> {
  claimExecution(claim: Argument<"claimExecution">): number | null {
    const { jobId, at, limit, claimMs } = claim
    return this.connection.transaction(() => {
      // A place is taken while its job has not ended, whether or not the end of the execution was recorded. A
      // claim that is younger than the job's end belongs to a retry that is about to be stored.
      const taken = this.connection.all<{ readonly id: number; readonly job_id: string }>(
        `select e.id, e.job_id
         from executions as e
         left join jobs as j on j.id = e.job_id
         where e.ended_at is null and e.is_orphan = 0
           and (
             (j.id is not null and j.finished_at is null)
             or (e.claimed_at > ? and e.claimed_at > coalesce(j.finished_at, -1))
           )`,
        at - claimMs,
      )
      const held = taken.find(({ job_id }) => job_id === jobId)
      if (held !== undefined) return held.id
      if (taken.length >= limit) return null
      const claimed = this.connection.get<{ readonly id: number }>(
        `insert into executions (job_id, claimed_at) values (@job_id, @at)
         on conflict (job_id) where is_orphan = 0 do update
         set claimed_at = excluded.claimed_at, ended_at = null, is_trimmed = 0
         returning id`,
        claim,
      )
      return claimed!.id
    })
  }

  readExecution(jobId: string): ExecutionRow | null {
    const sql = `select id as execution, job_id as jobId, commit_number as "commit", progress, ended_at as endedAt
      from executions where job_id = ? and is_orphan = 0`
    return this.connection.get<ExecutionRow>(sql, jobId) ?? null
  }

  listExecutions(query: Argument<"listExecutions">) {
    const step = (end: string) =>
      `(select execution from pipeline_parked indexed by pipeline_parked_left
        where due_at is null and replayed_by is null and execution < ${end} order by execution desc limit 1)`
    const ids = query.hasDeadLetters
      ? `recursive step (id, steps) as (
           select ${step("@before")}, 1
           union all
           select ${step("step.id")}, steps + 1 from step where id is not null and steps < @scan
         ),
         seen as materialized (select id from step where id is not null)`
      : `seen as materialized (select id from executions where id < @before and is_orphan = 0 order by id desc limit @scan)`
    const rows = this.connection.all<ScannedExecution>(
      `with ${ids},
       found as (
         select e.id, e.job_id, e.progress, e.ended_at
         from seen as s
         join executions as e on e.id = s.id and e.is_orphan = 0
         join jobs as j on j.id = e.job_id
         where j.owner = @owner and j.status <> 'DELETED'
         order by e.id desc
         limit @limit
       )
       select f.id as execution, f.job_id as jobId, f.progress, f.ended_at as endedAt,
         (select min(id) from seen) as scanned, (select count(*) from seen) < @scan as isEnd
       from (select 1) as one
       left join found as f on true
       order by f.id desc`,
      query,
    )
    const read = rows.map(row => ({ ...row, isEnd: Boolean(row.isEnd) }))
    return executionPage(read, query.limit)
  }

  endExecution({ jobId, at }: Argument<"endExecution">): void {
    const sql = "update executions set ended_at = ? where job_id = ? and is_orphan = 0 and ended_at is null"
    this.connection.run(sql, at, jobId)
  }

  /** Two reads, then one statement for each row: the rows that are written most often are not read first. */
  commit(commit: PipelineCommit): { readonly isHeld: boolean } {
    checkJson(commit)
    return this.connection.transaction(() => {
      const { fence, execution } = commit
      if (heldPartitions(this.connection, [fence]).size === 0) return { isHeld: false }
      const known = this.connection.get<{ readonly commit_number: number }>(
        "select commit_number from executions where id = ? and is_orphan = 0",
        execution,
      )
      const last = known?.commit_number ?? null
      if (last === commit.commit - 1) this.#write(commit)
      else checkSentBefore(commit, last)
      return { isHeld: true }
    })
  }

  #write(commit: PipelineCommit): void {
    const { execution, progress } = commit
    const { parked, unparked, stored } = settled(commit)
    const sql = "update executions set commit_number = ?, progress = ? where id = ?"
    this.connection.run(sql, commit.commit, progress, execution)
    this.#insertMessages(execution, commit.messages)
    for (const { body } of commit.messages)
      if (body.includes(ARTIFACT_MARK)) this.#holdArtifacts(execution, body)
    this.#insertLineage(execution, commit)
    this.#park(execution, parked)
    const { statement: unpark } = this.connection.prepare(
      "delete from pipeline_parked where execution = ? and route = ? and seq = ?",
    )
    for (const { route, seq } of unparked) unpark.run(execution, route, seq)
    const { statement: put } = this.connection.prepare(
      `insert into pipeline_stored (execution, key, value) values (?, ?, ?)
       on conflict (execution, key) do update set value = excluded.value`,
    )
    for (const [key, value] of stored) put.run(execution, key, value)
  }

  /** The job of the execution holds the artifacts that its messages refer to. */
  #holdArtifacts(execution: number, body: string): void {
    const sql = `insert into held (held, by) select ?1 || ' ' || j.owner, j.id
      from executions as e join jobs as j on j.id = e.job_id where e.id = ?2 on conflict do nothing`
    for (const hash of artifactsInText(body)) this.connection.run(sql, hash, execution)
  }

  #insertMessages(execution: number, messages: readonly NewMessageRow[]): void {
    const { statement: insert } = this.connection.prepare(
      `insert into pipeline_messages (execution, route, seq, parent_route, parent_seq, root, hops, at, bytes, body)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    for (const { route, seq, parent, root, hops, at, body } of messages) {
      const [parentRoute, parentSeq] = [parent?.route ?? null, parent?.seq ?? null]
      insert.run(execution, route, seq, parentRoute, parentSeq, root, hops, at, Buffer.byteLength(body), body)
    }
  }

  #insertLineage(execution: number, { commit, lineage }: PipelineCommit): void {
    const { statement: insert } = this.connection.prepare(
      `insert into pipeline_lineage (execution, route, seq, attempt, commit_number, place, gathered_into, steps)
       values (?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    attemptRows(lineage).forEach(({ route, seq, attempt, into, steps }, place) => {
      insert.run(execution, route, seq, attempt, commit, place, into, steps)
    })
  }

  #park(execution: number, parked: readonly ParkedRow[]): void {
    const { statement: put } = this.connection.prepare(
      `insert into pipeline_parked (execution, route, seq, attempts, due_at, at, error) values (?, ?, ?, ?, ?, ?, ?)
       on conflict (execution, route, seq) do update
       set attempts = excluded.attempts, due_at = excluded.due_at, at = excluded.at, error = excluded.error,
         replayed_by = null, replayed_at = null, replay_body = null`,
    )
    for (const { route, seq, attempts, dueAt, at, error } of parked)
      put.run(execution, route, seq, attempts, dueAt, at, error)
  }

  /** First the sizes: bodies that are left out are not read. */
  readMessages({ execution, route, after, limit, maxBytes }: Argument<"readMessages">): MessageRow[] {
    const sql = `select seq, bytes from pipeline_messages
     where execution = ? and route = ? and seq > ? order by seq limit ?`
    const sizes = this.connection.all<{ readonly seq: number; readonly bytes: number }>(
      sql,
      execution,
      route,
      after,
      limit,
    )
    const last = withinBytes(sizes, maxBytes).at(-1)
    if (last === undefined) return []
    const rows = this.connection.all<StoredPipelineMessage>(
      `select ${MESSAGE} from pipeline_messages as m
       where m.execution = ? and m.route = ? and m.seq > ? and m.seq <= ? order by m.seq`,
      ...[execution, route, after, last.seq],
    )
    return rows.map(pipelineMessage)
  }

  findMessages(execution: number, keys: readonly MessageKey[]): MessageRow[] {
    return distinctKeys(keys).flatMap(key => this.#message(execution, key) ?? [])
  }

  #message(execution: number, { route, seq }: MessageKey): MessageRow | undefined {
    const sql = `select ${MESSAGE} from pipeline_messages as m where m.execution = ? and m.route = ? and m.seq = ?`
    const row = this.connection.get<StoredPipelineMessage>(sql, execution, route, seq)
    return row && pipelineMessage(row)
  }

  readRetries(query: Argument<"readRetries">): (MessageRow & ParkedState)[] {
    const { execution, route, after = { dueAt: -1, seq: -1 }, maxBytes } = query
    const due = this.connection.all<DueRow>(
      `select p.seq, p.attempts, p.due_at as dueAt, m.bytes
       from pipeline_parked as p join ${MESSAGE_OF_PARKED}
       where p.execution = @execution and p.route = @route and p.due_at <= @due_by
         and (p.due_at, p.seq) > (@due_at, @seq)
       order by p.due_at, p.seq
       limit @limit`,
      { ...query, ...after },
    )
    return withinBytes(due, maxBytes).map(({ seq, attempts, dueAt }) => ({
      ...{ ...this.#message(execution, { route, seq })!, attempts, dueAt },
    }))
  }

  listDeadLetters({
    route,
    after = BEFORE_ALL_KEYS,
    ...query
  }: Argument<"listDeadLetters">): DeadLetterRow[] {
    const first = { route: route ?? -1, seq: -1 }
    const start = inKeyOrder(first, after) > 0 ? first : after
    const rows = this.connection.all<StoredPipelineMessage & Omit<DeadLetterRow, "parent">>(
      `select ${MESSAGE}, p.attempts, p.at as failedAt, p.error, p.replayed_by as replayedBy,
         p.replay_body is not null as isEdited
       from ${DEAD_LETTERS} join ${MESSAGE_OF_PARKED}
       where p.execution = @execution and p.due_at is null and (p.route, p.seq) > (@route, @seq) and p.route <= @last
       order by p.route, p.seq
       limit @limit`,
      { ...query, ...start, last: route ?? LAST_ROUTE },
    )
    return rows.map(row => ({ ...pipelineMessage(row), isEdited: Boolean(row.isEdited) }))
  }

  deadLettersLeft({ execution, most }: Argument<"deadLettersLeft">): DeadLettersLeft {
    const left = `from ${DEAD_LETTERS} where p.execution = ? and p.due_at is null and p.replayed_by is null`
    const first = this.connection.get<MessageKey & { readonly error: string }>(
      `select p.route, p.seq, p.error ${left} order by p.route, p.seq limit 1`,
      execution,
    )
    if (first === undefined) return { count: 0, first: null }
    const count = this.counted(`select count(*) as count from (select 1 ${left} limit ?)`, execution, most)
    return { count, first: { route: first.route, seq: first.seq, error: first.error } }
  }

  /** The dead letters after this one: `claimDeadLettersInPages` claims them, a page at a time. */
  deadLetterKeys(execution: number, after: MessageKey, limit: number): MessageKey[] {
    const sql = `select p.route, p.seq from ${DEAD_LETTERS}
      where p.execution = @execution and p.due_at is null and (p.route, p.seq) > (@route, @seq)
      order by p.route, p.seq limit @limit`
    return this.connection.all<MessageKey>(sql, { ...after, execution, limit })
  }

  /** Skips a dead letter that another job has, unless that job does not exist after `claimMs`. */
  claimDeadLetters(claim: Argument<"claimDeadLetters"> & { readonly keys: readonly MessageKey[] }): number {
    const { execution, keys, replayedBy, at, claimMs, bodies = [] } = claim
    const editedBodies = new Map(bodies.map(edited => [formatMessageKey(edited), json(edited.body)]))
    return this.connection.transaction(() => {
      const { statement: mark } = this.connection.prepare(
        `update pipeline_parked set replayed_by = ?1, replayed_at = ?2, replay_body = ?7
         where execution = (select id from executions where id = ?3 and is_orphan = 0)
           and route = ?4 and seq = ?5 and due_at is null
           and (
             replayed_by is null
             or (
               replayed_by <> ?1 and replayed_at <= ?6
               and not exists (select 1 from jobs as j where j.id = pipeline_parked.replayed_by)
             )
           )`,
      )
      for (const { route, seq } of keys) {
        const body = editedBodies.get(formatMessageKey({ route, seq })) ?? null
        mark.run(replayedBy, at, execution, route, seq, at - claimMs, body)
      }
      const sql = "select count(*) as count from pipeline_parked where replayed_by = ? and execution = ?"
      return this.counted(sql, replayedBy, execution)
    })
  }

  readReplayed({ after, ...query }: Argument<"readReplayed">): ReplayedRow[] {
    const rows = this.connection.all<StoredPipelineMessage & { readonly execution: number }>(
      `select ${MESSAGE_BUT_BODY}, coalesce(p.replay_body, m.body) as body, m.execution
       from pipeline_parked as p join ${MESSAGE_OF_PARKED}
       where p.replayed_by = @replayed_by and (p.execution, p.route, p.seq) > (@execution, @route, @seq)
       order by p.execution, p.route, p.seq
       limit @limit`,
      { ...BEFORE_ALL_KEYS, execution: -1, ...after, ...query },
    )
    return rows.map(pipelineMessage)
  }

  countReplayedBefore(letter: Argument<"countReplayedBefore">): number {
    const sql = `select count(*) as count from pipeline_parked
      where replayed_by = @replayed_by and execution = @execution and route = @route and seq < @seq`
    return this.counted(sql, letter)
  }

  findReplayed(query: Argument<"findReplayed">): MessageKey | null {
    const sql = `select route, seq from pipeline_parked
      where replayed_by = @replayed_by and execution = @execution and route = @route order by seq limit 1 offset @before`
    return this.connection.get<MessageKey>(sql, query) ?? null
  }

  readLineage({ execution, keys, limit }: Argument<"readLineage">): LineageRow[] {
    const found: LineageRow[] = []
    for (const key of distinctKeys(keys).sort(inKeyOrder)) {
      if (found.length >= limit) break
      for (const row of this.#attempts(execution, key, limit - found.length)) found.push(...lineageRows(row))
    }
    return found.sort(inLineageOrder).slice(0, limit)
  }

  /** The first `limit` rows, and with the last of them all rows of the same attempt. */
  #attempts(execution: number, { route, seq }: MessageKey, limit: number): AttemptRow[] {
    const rows = `select route, seq, attempt, gathered_into as "into", steps from pipeline_lineage
      where execution = ? and route = ? and seq = ?`
    const sql = `${rows} order by attempt, commit_number, place limit ?`
    const found = this.connection.all<AttemptRow>(sql, execution, route, seq, limit)
    const last = found.at(-1)
    if (last === undefined || found.length < limit) return found
    const { attempt } = last
    const whole = this.connection.all<AttemptRow>(`${rows} and attempt = ?`, execution, route, seq, attempt)
    return [...found.filter(row => row.attempt !== attempt), ...whole]
  }

  readGathered({ execution, into, limit }: Argument<"readGathered">): MessageKey[] {
    const sql = `select distinct route, seq from pipeline_lineage
      where execution = @execution and route = @route and gathered_into = @seq order by seq limit @limit`
    const found = distinctKeys(into).flatMap(key =>
      this.connection.all<MessageKey>(sql, { ...key, execution, limit }),
    )
    return distinctKeys(found).sort(inKeyOrder).slice(0, limit)
  }

  readStored(execution: number, keys: readonly string[]): ReadonlyMap<string, string> {
    const found = new Map<string, string>()
    for (const key of keys) {
      const sql = "select value from pipeline_stored where execution = ? and key = ?"
      const row = this.connection.get<{ readonly value: string }>(sql, execution, storedKey(key))
      if (row !== undefined) found.set(key, row.value)
    }
    return found
  }

  purgeLineage(purge: Argument<"purgeLineage">): number {
    return this.connection.transaction(() => purgePipelines(this.connection, purge))
  }
}

export interface DeadLetterPages extends Pick<PipelineStore, "claimDeadLetters"> {
  deadLetterKeys(execution: number, after: MessageKey, limit: number): Promise<readonly MessageKey[]>
}

/**
 * There may be millions of dead letters: they are claimed in several transactions, and other requests may run
 * in between.
 */
export async function claimDeadLettersInPages(
  claim: Argument<"claimDeadLetters">,
  pipelines: DeadLetterPages,
): Promise<number> {
  const keysAfter = (after: MessageKey) => pipelines.deadLetterKeys(claim.execution, after, CLAIM_PAGE)
  let count = 0
  for await (const keys of deadLetterPages(claim.keys, keysAfter))
    count = await pipelines.claimDeadLetters({ ...claim, keys })
  return count
}

interface DueRow extends ParkedState {
  readonly seq: number
  readonly bytes: number
}

function checkJson({ progress, messages, lineage, parked, stored }: PipelineCommit): void {
  json(progress)
  for (const { body } of messages) json(body)
  for (const { invocations } of lineage) for (const { error } of invocations) if (error !== null) json(error)
  for (const { error } of parked) json(error)
  for (const { value } of stored) json(value)
}
