import { artifactsInText } from "../../core/artifacts.ts"
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
    const hashes = artifactsInText(document)
    const values = [id, owner, name, partition, document, createdAt, lastTick, nextAt, hashes]
    return (await this.#database.query("createSchedule", values)).length > 0
  }

  async change(change: Parameters<ScheduleStore["change"]>[0]) {
    const { id, revision, document, updatedAt, pausedAt, lastTick, nextAt, dropsQueued } = change
    const values = [id, revision, document, updatedAt, pausedAt, lastTick, nextAt, dropsQueued]
    return this.#database.transaction(async session => {
      const isChanged = (await session.query("changeSchedule", values)).length > 0
      if (isChanged) await session.query("dropQueuedFires", [id])
      if (isChanged) await session.query("holdArtifacts", [id, artifactsInText(document)])
      return isChanged
    })
  }

  async read({ owner, name }: Parameters<ScheduleStore["read"]>[0]) {
    return (await this.#database.query<ScheduleRow>("readSchedule", [owner, name]))[0] ?? null
  }

  async list({ owner, after = "", limit, maxBytes }: Parameters<ScheduleStore["list"]>[0]) {
    const values = [owner, after, limit, maxBytes]
    const rows = await this.#database.query<ScheduleRow & { found: number }>("listSchedules", values)
    return {
      schedules: rows.map(({ found: _, ...row }) => row),
      isLast: (rows[0]?.found ?? 0) === rows.length,
    }
  }

  async count({ owner, limit }: Parameters<ScheduleStore["count"]>[0]) {
    return (await this.#database.query<{ count: number }>("countSchedules", [owner, limit]))[0]!.count
  }

  async remove({ owner, name }: Parameters<ScheduleStore["remove"]>[0]) {
    return (await this.#database.query("removeSchedule", [owner, name])).length > 0
  }

  async fires({ scheduleId, before, limit }: Parameters<ScheduleStore["fires"]>[0]) {
    const { tick = Number.MAX_SAFE_INTEGER, kind = "" } = before ?? {}
    return this.#database.query<FireRow>("listFires", [scheduleId, tick, kind, limit])
  }

  async firesBetween({ scheduleId, after, to, limit }: Parameters<ScheduleStore["firesBetween"]>[0]) {
    return this.#database.query<FireRow>("firesBetween", [scheduleId, after.tick, after.kind, to, limit])
  }

  async addFire(fire: Parameters<ScheduleStore["addFire"]>[0]) {
    const { scheduleId, tick, kind, at, outcome, jobId, reason, count } = fire
    await this.#database.query("addFire", [scheduleId, tick, kind, at, outcome, jobId, reason, count])
  }

  async due(query: Parameters<ScheduleStore["due"]>[0]) {
    const { partitions, at, limit, limitOfPartition, maxBytes } = query
    const values = [partitions, at, limit, limitOfPartition, maxBytes]
    const schedules = await this.#database.query<ScheduleRow>("dueSchedules", values)
    const [next] = await this.#database.query<{ nextAt: number | null }>("nextSchedule", [partitions, at])
    return { schedules, nextAt: next?.nextAt ?? null }
  }

  async queued(partitions: readonly number[]) {
    const rows = await this.#database.query<{ id: string }>("queuedSchedules", [partitions])
    return rows.map(({ id }) => id)
  }

  async readMany(ids: readonly string[]) {
    return this.#database.query<ScheduleRow>("readSchedules", [ids])
  }
}
