import { artifactsInText } from "../../core/artifacts.ts"
import type { FireRow, ScheduleRow, ScheduleStore } from "../port/schedules.ts"
import { SqlStore } from "./database.ts"

type Argument<Verb extends keyof ScheduleStore> = Parameters<ScheduleStore[Verb]>[0]

/** Schedules on PostgreSQL. */
export class SqlSchedules extends SqlStore implements ScheduleStore {
  async create(schedule: Argument<"create">) {
    return this.exists("createSchedule", { ...schedule, hashes: artifactsInText(schedule.document) })
  }

  async change(change: Argument<"change">) {
    const { id, document } = change
    return this.database.transaction(async session => {
      const isChanged = (await session.query("changeSchedule", change)).length > 0
      if (isChanged) await session.query("dropQueuedFires", { id })
      if (isChanged) await session.query("holdArtifacts", { id, hashes: artifactsInText(document) })
      return isChanged
    })
  }

  async read(key: Argument<"read">) {
    return (await this.first<ScheduleRow>("readSchedule", key)) ?? null
  }

  async list({ after = "", ...query }: Argument<"list">) {
    const values = { ...query, after }
    const rows = await this.database.query<ScheduleRow & { found: number }>("listSchedules", values)
    return {
      schedules: rows.map(({ found: _, ...row }) => row),
      isLast: (rows[0]?.found ?? 0) === rows.length,
    }
  }

  async count(query: Argument<"count">) {
    return (await this.first<{ count: number }>("countSchedules", query))!.count
  }

  async remove(key: Argument<"remove">) {
    return this.exists("removeSchedule", key)
  }

  async fires({ before = { tick: Number.MAX_SAFE_INTEGER, kind: "" }, ...query }: Argument<"fires">) {
    return this.database.query<FireRow>("listFires", { ...query, ...before })
  }

  async firesBetween({ after, ...query }: Argument<"firesBetween">) {
    return this.database.query<FireRow>("firesBetween", { ...query, ...after })
  }

  async addFire(fire: Argument<"addFire">) {
    await this.database.query("addFire", fire)
  }

  async due(query: Argument<"due">) {
    const schedules = await this.database.query<ScheduleRow>("dueSchedules", query)
    const next = await this.first<{ nextAt: number | null }>("nextSchedule", query)
    return { schedules, nextAt: next?.nextAt ?? null }
  }

  async queued(partitions: readonly number[]) {
    const rows = await this.database.query<{ id: string }>("queuedSchedules", { partitions })
    return rows.map(({ id }) => id)
  }

  async readMany(ids: readonly string[]) {
    return this.database.query<ScheduleRow>("readSchedules", { ids })
  }
}
