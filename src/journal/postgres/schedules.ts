import type { FireRow, ScheduleRow, ScheduleStore } from "../port/schedules.ts"
import type { Database } from "./database.ts"

/** Schedules on PostgreSQL. */
export class SqlSchedules implements ScheduleStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async create(schedule: Parameters<ScheduleStore["create"]>[0]) {
    const { id, owner, name, partition, document, createdAt, lastTick, nextAt } = schedule
    const values = [id, owner, name, partition, document, createdAt, lastTick, nextAt]
    return (await this.#database.query("createSchedule", values)).length > 0
  }

  async change(change: Parameters<ScheduleStore["change"]>[0]) {
    const { id, revision, document, updatedAt, pausedAt, lastTick, nextAt, dropsQueued } = change
    const values = [id, revision, document, updatedAt, pausedAt, lastTick, nextAt, dropsQueued]
    return (await this.#database.query("changeSchedule", values)).length > 0
  }

  async read({ owner, name }: Parameters<ScheduleStore["read"]>[0]) {
    return (await this.#database.query<ScheduleRow>("readSchedule", [owner, name]))[0] ?? null
  }

  async list({ owner, after = "", limit }: Parameters<ScheduleStore["list"]>[0]) {
    return this.#database.query<ScheduleRow>("listSchedules", [owner, after, limit])
  }

  async remove({ owner, name }: Parameters<ScheduleStore["remove"]>[0]) {
    return (await this.#database.query("removeSchedule", [owner, name])).length > 0
  }

  async fires({
    scheduleId,
    before = Number.MAX_SAFE_INTEGER,
    limit,
  }: Parameters<ScheduleStore["fires"]>[0]) {
    return this.#database.query<FireRow>("listFires", [scheduleId, before, limit])
  }

  async addFire(fire: Parameters<ScheduleStore["addFire"]>[0]) {
    const { scheduleId, tick, kind, at, outcome, jobId, reason, count } = fire
    await this.#database.query("addFire", [scheduleId, tick, kind, at, outcome, jobId, reason, count])
  }

  async due({ partitions, at, limit }: Parameters<ScheduleStore["due"]>[0]) {
    const schedules = await this.#database.query<ScheduleRow>("dueSchedules", [partitions, at, limit])
    const [next] = await this.#database.query<{ nextAt: number | null }>("nextSchedule", [partitions, at])
    return { schedules, nextAt: next?.nextAt ?? null }
  }

  async queued(partitions: readonly number[]) {
    return this.#database.query<ScheduleRow>("queuedSchedules", [partitions])
  }
}
