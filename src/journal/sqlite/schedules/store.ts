/** Schedules on one SQLite connection: each method is one transaction. */
import { artifactsInText } from "../../../core/artifacts.ts"
import type { FireRow, NewFire, ScheduleChange, ScheduleRow, ScheduleStore } from "../../port/schedules.ts"
import {
  freeText,
  json,
  list,
  type SqliteConnection,
  SqliteStore,
  type Sync,
  withinBytes,
} from "../database.ts"

type Argument<Verb extends keyof ScheduleStore> = Parameters<ScheduleStore[Verb]>[0]

const COLUMNS = `id, owner, name, partition, revision, document, created_at as createdAt, updated_at as updatedAt,
  paused_at as pausedAt, last_tick as lastTick, queued_tick as queuedTick, last_job as lastJob, next_at as nextAt`

const FIRE_COLUMNS = "tick, kind, at, outcome, job_id as jobId, reason, count"

const CREATE = `
insert into schedules (id, owner, name, partition, revision, document, created_at, updated_at, last_tick, next_at)
values (@id, @owner, @name, @partition, 1, @document, @created_at, @created_at, @last_tick, @next_at)
on conflict do nothing`

const CHANGE = `
update schedules
set
  revision = revision + 1, document = @document, updated_at = @updated_at, paused_at = @paused_at,
  last_tick = max(last_tick, @last_tick), next_at = @next_at,
  queued_tick = case when @drops_queued then null else queued_tick end
where id = @id and revision = @revision`

/** Ticks that wait and will not start, since their schedule was paused or got other times. */
const DROP_QUEUED = `
update fires
set
  outcome = 'skipped', at = s.updated_at,
  reason = case when s.paused_at is null then 'the schedule was changed' else 'the schedule was paused' end
from (select * from schedules where id = ?1) as s
where
  schedule_id = s.id and outcome = 'queued' and tick is not s.queued_tick
  and (s.paused_at is not null or tick <= s.last_tick)`

/**
 * An edit since the decision (another revision) keeps its own next_at. A tick that was queued stays queued, unless the
 * schedule was paused or got other times meanwhile. last_tick only rises; other times may have raised it above that of the
 * decision, whose job is the latest one all the same.
 */
const DECIDE = `
update schedules
set
  last_tick = max(last_tick, ?3),
  last_job = coalesce(?4, last_job),
  next_at = case when revision = ?2 then ?5 else next_at end,
  queued_tick = case
    when revision = ?2 or (?6 is not null and paused_at is null and last_tick <= ?3) then ?6
    when queued_tick = ?7 then null
    else queued_tick
  end
where id = ?1 and (last_tick <= ?3 or revision <> ?2)`

/** Of one partition. */
const DUE = `
select id, next_at as nextAt, octet_length(document) as bytes
from schedules
where partition = ? and next_at <= ?
order by next_at
limit ?`

interface DueKey {
  readonly id: string
  readonly nextAt: number
  readonly bytes: number
}

/** One entry of the index for each partition. */
const NEXT = `
select
  min((select next_at from schedules where partition = p.value and next_at > ?2 order by next_at limit 1)) as nextAt
from json_each(?1) as p`

const ADD_FIRE = `
insert into fires (schedule_id, tick, kind, at, outcome, job_id, reason, count) values (?, ?, ?, ?, ?, ?, ?, ?)
on conflict (schedule_id, tick, kind) do update
set at = excluded.at, outcome = excluded.outcome, job_id = excluded.job_id, reason = excluded.reason`

export class SqliteSchedules extends SqliteStore implements Sync<ScheduleStore> {
  create(schedule: Argument<"create">): boolean {
    const { id, document } = schedule
    json(document)
    return this.connection.transaction(() => {
      this.connection.run(CREATE, schedule)
      const isCreated = this.exists("select 1 from schedules where id = ?", id)
      if (isCreated) this.#holdArtifacts(id, document)
      return isCreated
    })
  }

  change(change: Argument<"change">): boolean {
    const { id, document } = change
    json(document)
    return this.connection.transaction(() => {
      const isChanged = this.connection.run(CHANGE, change) > 0
      if (isChanged) this.connection.run(DROP_QUEUED, id)
      if (isChanged) this.#holdArtifacts(id, document)
      return isChanged
    })
  }

  read({ owner, name }: Argument<"read">): ScheduleRow | null {
    const sql = `select ${COLUMNS} from schedules where owner = ? and name = ?`
    return this.connection.get<ScheduleRow>(sql, owner, name) ?? null
  }

  /** First the sizes: documents that are left out are not read. */
  list({ owner, after = "", limit, maxBytes }: Argument<"list">) {
    const page = "from schedules where owner = ? and name > ? order by name limit ?"
    const sql = `select octet_length(document) as bytes ${page}`
    const sizes = this.connection.all<{ readonly bytes: number }>(sql, owner, after, limit + 1)
    const count = withinBytes(sizes.slice(0, limit), maxBytes).length
    const schedules = this.connection.all<ScheduleRow>(`select ${COLUMNS} ${page}`, owner, after, count)
    return { schedules, isLast: count === sizes.length }
  }

  count({ owner, limit }: Argument<"count">): number {
    const sql = "select count(*) as count from (select 1 from schedules where owner = ? limit ?)"
    return this.counted(sql, owner, limit)
  }

  remove({ owner, name }: Argument<"remove">): boolean {
    return this.connection.transaction(() => {
      const found = this.read({ owner, name })
      if (found === null) return false
      this.connection.run("delete from fires where schedule_id = ?", found.id)
      this.connection.run("delete from schedules where id = ?", found.id)
      this.connection.run("delete from held where by = ?", found.id)
      return true
    })
  }

  /** The schedule holds the artifacts that its input refers to, and no others. */
  #holdArtifacts(id: string, document: string): void {
    this.connection.run("delete from held where by = ?", id)
    const sql = "insert into held (held, by) select ?1 || ' ' || owner, id from schedules where id = ?2"
    for (const hash of artifactsInText(document)) this.connection.run(sql, hash, id)
  }

  fires({ scheduleId, before, limit }: Argument<"fires">): FireRow[] {
    const { tick, kind } = before ?? { tick: Number.MAX_SAFE_INTEGER, kind: "" }
    const sql = `select ${FIRE_COLUMNS} from fires
      where schedule_id = ? and (tick, kind) < (?, ?) order by tick desc, kind desc limit ?`
    return this.connection.all<FireRow>(sql, scheduleId, tick, kind, limit)
  }

  firesBetween({ scheduleId, after, to, limit }: Argument<"firesBetween">): FireRow[] {
    const sql = `select ${FIRE_COLUMNS} from fires
      where schedule_id = ? and (tick, kind) > (?, ?) and tick < ? order by tick, kind limit ?`
    return this.connection.all<FireRow>(sql, scheduleId, after.tick, after.kind, to, limit)
  }

  addFire(fire: Argument<"addFire">): void {
    this.connection.transaction(() => addFire(this.connection, fire, "where fires.outcome = 'queued'"))
  }

  /** First keys and sizes: documents that are left out are not read. */
  due(query: Argument<"due">) {
    const { partitions, at, limit, limitOfPartition, maxBytes } = query
    const found = partitions
      .flatMap(partition => this.connection.all<DueKey>(DUE, partition, at, limitOfPartition))
      .sort((a, b) => a.nextAt - b.nextAt || (a.id < b.id ? -1 : 1))
    const page = withinBytes(found.slice(0, limit), maxBytes).map(({ id }) => id)
    const rows = `select ${COLUMNS} from schedules
      where id in (select value from json_each(?)) order by next_at, id`
    return {
      schedules: this.connection.all<ScheduleRow>(rows, JSON.stringify(page)),
      nextAt: this.connection.get<{ nextAt: number | null }>(NEXT, list(partitions), at)?.nextAt ?? null,
    }
  }

  queued(partitions: readonly number[]): string[] {
    const sql = `select id from schedules
      where partition in (select value from json_each(?)) and queued_tick is not null`
    return this.ids(sql, list(partitions))
  }

  readMany(ids: readonly string[]): ScheduleRow[] {
    const sql = `select ${COLUMNS} from schedules where id in (select value from json_each(?))`
    return this.connection.all<ScheduleRow>(sql, JSON.stringify(ids))
  }
}

/** Part of an append, before `decideSchedule`. A tick is not queued if the schedule was paused or got other times meanwhile. */
export function addDecidedFire(connection: SqliteConnection, fire: NewFire): void {
  const sql =
    "select paused_at as pausedAt from schedules where id = ? and (paused_at is not null or last_tick > ?)"
  const changed =
    fire.outcome === "queued"
      ? connection.get<{ pausedAt: number | null }>(sql, fire.scheduleId, fire.tick)
      : undefined
  const reason = `the schedule was ${changed?.pausedAt == null ? "changed" : "paused"}`
  addFire(connection, changed === undefined ? fire : { ...fire, outcome: "skipped", reason })
}

/** Part of an append. */
export function decideSchedule(connection: SqliteConnection, change: ScheduleChange): void {
  const { id, revision, lastTick, lastJob, nextAt, queuedTick, startedTick } = change
  connection.run(DECIDE, id, revision, lastTick, lastJob, nextAt, queuedTick, startedTick)
}

function addFire(connection: SqliteConnection, fire: Omit<NewFire, "partition">, where = ""): void {
  const { scheduleId, tick, kind, at, outcome, jobId, reason, count } = fire
  const cause = reason === null ? null : freeText(reason)
  connection.run(`${ADD_FIRE} ${where}`, scheduleId, tick, kind, at, outcome, jobId, cause, count)
}
