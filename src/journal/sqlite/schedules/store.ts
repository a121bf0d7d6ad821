/** Schedules on one SQLite connection: each method is one transaction. */
import type { FireRow, NewFire, ScheduleChange, ScheduleRow, ScheduleStore } from "../../port/schedules.ts"
import { type Connection, freeText, json, list, type Sync } from "../database.ts"

const COLUMNS = `id, owner, name, partition, revision, document, created_at as createdAt, updated_at as updatedAt,
  paused_at as pausedAt, last_tick as lastTick, queued_tick as queuedTick, last_job as lastJob, next_at as nextAt`

const CREATE = `
insert into schedules (id, owner, name, partition, revision, document, created_at, updated_at, last_tick, next_at)
values (?1, ?2, ?3, ?4, 1, ?5, ?6, ?6, ?7, ?8)
on conflict do nothing`

const CHANGE = `
update schedules
set
  revision = revision + 1, document = ?3, updated_at = ?4, paused_at = ?5, last_tick = max(last_tick, ?6),
  next_at = ?7, queued_tick = case when ?8 then null else queued_tick end
where id = ?1 and revision = ?2`

/**
 * An edit since the decision (another revision) keeps its own next_at. A tick that was queued stays queued, unless the
 * schedule was paused meanwhile. last_tick only rises.
 */
const DECIDE = `
update schedules
set
  last_tick = ?3,
  last_job = coalesce(?4, last_job),
  next_at = case when revision = ?2 then ?5 else next_at end,
  queued_tick = case
    when revision = ?2 or (?6 is not null and paused_at is null) then ?6
    when queued_tick = ?7 then null
    else queued_tick
  end
where id = ?1 and last_tick <= ?3`

const ADD_FIRE = `
insert into fires (schedule_id, tick, kind, at, outcome, job_id, reason, count) values (?, ?, ?, ?, ?, ?, ?, ?)
on conflict (schedule_id, tick, kind) do update
set at = excluded.at, outcome = excluded.outcome, job_id = excluded.job_id, reason = excluded.reason`

export class SqliteSchedules implements Sync<ScheduleStore> {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  create(schedule: Parameters<ScheduleStore["create"]>[0]): boolean {
    const { id, owner, name, partition, document, createdAt, lastTick, nextAt } = schedule
    json(document)
    const values = [
      freeText(owner),
      freeText(name),
      partition,
      document,
      createdAt,
      lastTick,
      nextAt,
    ] as const
    return this.#connection.transaction(() => {
      this.#connection.run(CREATE, id, ...values)
      return this.#connection.get("select 1 from schedules where id = ?", id) !== undefined
    })
  }

  change(change: Parameters<ScheduleStore["change"]>[0]): boolean {
    const { id, revision, document, updatedAt, pausedAt, lastTick, nextAt, dropsQueued } = change
    json(document)
    const values = [
      id,
      revision,
      document,
      updatedAt,
      pausedAt,
      lastTick,
      nextAt,
      Number(dropsQueued),
    ] as const
    return this.#connection.transaction(() => this.#connection.run(CHANGE, ...values)) > 0
  }

  read({ owner, name }: Parameters<ScheduleStore["read"]>[0]): ScheduleRow | null {
    const sql = `select ${COLUMNS} from schedules where owner = ? and name = ?`
    return this.#connection.get<ScheduleRow>(sql, owner, name) ?? null
  }

  list({ owner, after = "", limit }: Parameters<ScheduleStore["list"]>[0]): ScheduleRow[] {
    const sql = `select ${COLUMNS} from schedules where owner = ? and name > ? order by name limit ?`
    return this.#connection.all<ScheduleRow>(sql, owner, after, limit)
  }

  remove({ owner, name }: Parameters<ScheduleStore["remove"]>[0]): boolean {
    return this.#connection.transaction(() => {
      const found = this.read({ owner, name })
      if (found === null) return false
      this.#connection.run("delete from fires where schedule_id = ?", found.id)
      this.#connection.run("delete from schedules where id = ?", found.id)
      return true
    })
  }

  fires({
    scheduleId,
    before = Number.MAX_SAFE_INTEGER,
    limit,
  }: Parameters<ScheduleStore["fires"]>[0]): FireRow[] {
    const sql = `select tick, kind, at, outcome, job_id as jobId, reason, count from fires
      where schedule_id = ? and tick < ? order by tick desc, kind desc limit ?`
    return this.#connection.all<FireRow>(sql, scheduleId, before, limit)
  }

  addFire(fire: Parameters<ScheduleStore["addFire"]>[0]): void {
    this.#connection.transaction(() => addFire(this.#connection, fire, "where fires.outcome = 'queued'"))
  }

  due({ partitions, at, limit }: Parameters<ScheduleStore["due"]>[0]) {
    const due = `select ${COLUMNS} from schedules
      where partition in (select value from json_each(?)) and next_at <= ? order by next_at, id limit ?`
    const next = `select min(next_at) as nextAt from schedules
      where partition in (select value from json_each(?)) and next_at > ?`
    return {
      schedules: this.#connection.all<ScheduleRow>(due, list(partitions), at, limit),
      nextAt: this.#connection.get<{ nextAt: number | null }>(next, list(partitions), at)?.nextAt ?? null,
    }
  }

  queued(partitions: readonly number[]): ScheduleRow[] {
    const sql = `select ${COLUMNS} from schedules
      where partition in (select value from json_each(?)) and queued_tick is not null order by id`
    return this.#connection.all<ScheduleRow>(sql, list(partitions))
  }
}

/** Part of an append, before `decideSchedule`. A tick is not queued if the schedule was paused or got other times meanwhile. */
export function addDecidedFire(connection: Connection, fire: NewFire): void {
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
export function decideSchedule(connection: Connection, change: ScheduleChange): void {
  const { id, revision, lastTick, lastJob, nextAt, queuedTick, startedTick } = change
  connection.run(DECIDE, id, revision, lastTick, lastJob, nextAt, queuedTick, startedTick)
}

function addFire(connection: Connection, fire: Omit<NewFire, "partition">, where = ""): void {
  const { scheduleId, tick, kind, at, outcome, jobId, reason, count } = fire
  const cause = reason === null ? null : freeText(reason)
  connection.run(`${ADD_FIRE} ${where}`, scheduleId, tick, kind, at, outcome, jobId, cause, count)
}
