/** Schedules as callers see them: store, show, pause, run and delete them, and list what their ticks did. */
import { createHash, randomUUID } from "node:crypto"
import { localOwner } from "../../core/facts.ts"
import { isoTime } from "../../engine/clock.ts"
import type { Schedules as FiringSchedules } from "../../engine/schedules/schedules.ts"
import { TickLimits } from "../../engine/schedules/tick-limits.ts"
import { Versions } from "../../engine/versions.ts"
import { UmbraError } from "../../errors.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { FireRow, ScheduleRow } from "../../journal/port/schedules.ts"
import {
  checkScheduleName,
  parseSchedule,
  renderInput,
  type ScheduleDocument,
  type ScheduleRequest,
  scheduleRules,
} from "../../schedule/document.ts"
import { nextFire, nextTicks } from "../../schedule/policy.ts"
import { checkOptions } from "../arguments.ts"
import type { Admit, Submissions } from "../submit.ts"

const NEXT_TICKS = 20
const DEFAULT_LIMIT = 100

/** A schedule in a list: its document, and its state. */
export interface ScheduleSummary extends ScheduleDocument {
  readonly name: string
  readonly owner: string
  readonly created_at: string
  readonly updated_at: string
  /** null: it is not paused. */
  readonly paused_at: string | null
  /** When the next tick fires, with its jitter; null: never, or it is paused. */
  readonly next_at: string | null
  /** A tick that starts when the latest job has ended. */
  readonly queued_tick: string | null
  /** The latest job that a tick has started. */
  readonly last_job: string | null
}

export interface ScheduleView extends ScheduleSummary {
  /** The next 20 ticks, without their jitter. A paused schedule has those that it would have. */
  readonly next_ticks: readonly string[]
}

/** What a tick did, or a run that was requested. */
export interface FireView extends Pick<FireRow, "kind" | "outcome" | "reason" | "count"> {
  readonly tick: string
  readonly at: string
  readonly job_id: string | null
}

export interface OwnerOption {
  readonly owner?: string | undefined
}

export interface ScheduleRequestsParts {
  readonly journal: Journal
  readonly firing: Pick<FiringSchedules, "changed">
  readonly submit: Submissions["submit"]
  readonly now: () => number
  /** Absent: no engine is in this process. */
  readonly limits?: TickLimits
}

export class ScheduleRequests {
  readonly #parts: ScheduleRequestsParts
  readonly #versions: Versions
  /** The limits that ticks keep. */
  readonly limits: TickLimits
  #lastRun = 0

  constructor(parts: ScheduleRequestsParts) {
    this.#parts = parts
    this.limits = parts.limits ?? new TickLimits()
    this.#versions = new Versions(parts.journal)
  }

  /** Stores a schedule, or changes it. The same document again changes nothing. */
  async put(
    name: string,
    given: ScheduleRequest,
    { owner = localOwner }: OwnerOption = {},
  ): Promise<{ readonly schedule: ScheduleView; readonly isNew: boolean }> {
    const { journal, now } = this.#parts
    checkScheduleName(name)
    const document = parseSchedule(given)
    const { labels, priority, ttl_seconds: ttlSeconds } = document
    checkOptions({ owner, labels, priority, ttlSeconds })
    await this.#versions.resolve(owner, document.workflow)
    const text = JSON.stringify(document)
    for (;;) {
      const row = await journal.schedules.read({ owner, name })
      const at = now()
      if (row === null) {
        const id = randomUUID()
        const partition = this.#partition(owner, name)
        const nextAt = nextFire(scheduleRules(id, document), at)
        const created = { id, owner, name, partition, document: text, createdAt: at, lastTick: at, nextAt }
        if (!(await journal.schedules.create(created))) continue
        this.#parts.firing.changed(partition)
        return { schedule: await this.get(name, { owner }), isNew: true }
      }
      if (row.document === text || (await this.#change(row, document, { at, pausedAt: row.pausedAt })))
        return { schedule: await this.get(name, { owner }), isNew: false }
    }
  }

  async get(name: string, { owner = localOwner }: OwnerOption = {}): Promise<ScheduleView> {
    const row = await this.#read(name, owner)
    const rules = scheduleRules(row.id, documentOf(row))
    const after = Math.max(row.lastTick, row.pausedAt === null ? 0 : this.#parts.now())
    return { ...summary(row), next_ticks: nextTicks(rules, after, NEXT_TICKS).map(isoTime) }
  }

  /** By name. `next`: pass it as `after` for the next page; null: this was the last. */
  async list({
    owner = localOwner,
    after,
    limit = DEFAULT_LIMIT,
  }: OwnerOption & {
    readonly after?: string | undefined
    readonly limit?: number | undefined
  } = {}): Promise<{
    readonly schedules: readonly ScheduleSummary[]
    readonly next: string | null
  }> {
    const rows = await this.#parts.journal.schedules.list({ owner, after, limit: limit + 1 })
    const schedules = rows.slice(0, limit).map(summary)
    return { schedules, next: rows.length > limit ? schedules.at(-1)!.name : null }
  }

  /** Its jobs stay. */
  async delete(name: string, { owner = localOwner }: OwnerOption = {}): Promise<void> {
    if (!(await this.#parts.journal.schedules.remove({ owner, name }))) throw noSuchSchedule(name)
  }

  /** No tick fires until `resume`; those that come meanwhile never do. A queued tick does not start. */
  async pause(name: string, { owner = localOwner }: OwnerOption = {}): Promise<ScheduleView> {
    const { journal, now } = this.#parts
    for (;;) {
      const row = await this.#read(name, owner)
      const at = now()
      if (row.pausedAt !== null) break
      if (!(await this.#change(row, documentOf(row), { at, pausedAt: at }))) continue
      if (row.queuedTick !== null) {
        const fire = {
          scheduleId: row.id,
          tick: row.queuedTick,
          kind: "tick",
          at,
          jobId: null,
          count: 1,
        } as const
        await journal.schedules.addFire({ ...fire, outcome: "skipped", reason: "the schedule was paused" })
      }
      break
    }
    return this.get(name, { owner })
  }

  async resume(name: string, { owner = localOwner }: OwnerOption = {}): Promise<ScheduleView> {
    for (;;) {
      const row = await this.#read(name, owner)
      if (row.pausedAt === null) break
      if (await this.#change(row, documentOf(row), { at: this.#parts.now(), pausedAt: null })) break
    }
    return this.get(name, { owner })
  }

  /** Starts a job now, whatever runs, also of a paused schedule. `schedule.time` of its input is now. Its ticks do not wait for this job. */
  async run(
    name: string,
    { owner = localOwner, submittedBy }: OwnerOption & { readonly submittedBy?: string | undefined } = {},
    admit?: Admit,
  ): Promise<{ readonly job_id: string }> {
    const { journal, submit, now } = this.#parts
    const row = await this.#read(name, owner)
    const { workflow, input, labels, priority, ttl_seconds: ttlSeconds } = documentOf(row)
    const at = Math.max(now(), this.#lastRun + 1)
    this.#lastRun = at
    const options = { owner, labels, priority, ttlSeconds, submittedBy }
    const { jobId } = await submit(workflow, renderInput(input, name, at), options, admit)
    const fire = { scheduleId: row.id, tick: at, kind: "run", at, jobId, count: 1 } as const
    await journal.schedules.addFire({ ...fire, outcome: "started", reason: null })
    return { job_id: jobId }
  }

  /** What its ticks did, newest first. `next`: pass it as `before` for the next page; null: this was the last. */
  async fires(
    name: string,
    {
      owner = localOwner,
      before,
      limit = DEFAULT_LIMIT,
    }: OwnerOption & { readonly before?: string | undefined; readonly limit?: number | undefined } = {},
  ): Promise<{ readonly fires: readonly FireView[]; readonly next: string | null }> {
    const { id: scheduleId } = await this.#read(name, owner)
    const until = before === undefined ? undefined : Date.parse(before)
    const rows = await this.#parts.journal.schedules.fires({ scheduleId, before: until, limit: limit + 1 })
    const fires = rows.slice(0, limit).map(fireView)
    return { fires, next: rows.length > limit ? fires.at(-1)!.tick : null }
  }

  async #read(name: string, owner: string): Promise<ScheduleRow> {
    const row = await this.#parts.journal.schedules.read({ owner, name })
    if (row === null) throw noSuchSchedule(name)
    return row
  }

  /** False: the row has changed since it was read. */
  async #change(
    row: ScheduleRow,
    document: ScheduleDocument,
    { at, pausedAt }: { readonly at: number; readonly pausedAt: number | null },
  ): Promise<boolean> {
    const { journal, firing } = this.#parts
    const { id, revision } = row
    // A resumed schedule, and one with another timing, begins with the next tick from now.
    const isResumed = row.pausedAt !== null && pausedAt === null
    const isRetimed = timing(documentOf(row)) !== timing(document)
    const lastTick = isResumed || isRetimed ? Math.max(row.lastTick, at) : row.lastTick
    const isChanged = await journal.schedules.change({
      ...{ id, revision, document: JSON.stringify(document), updatedAt: at, pausedAt, lastTick },
      nextAt: pausedAt === null ? nextFire(scheduleRules(id, document), lastTick) : null,
      dropsQueued: pausedAt !== null,
    })
    if (isChanged) firing.changed(row.partition)
    return isChanged
  }

  /** The partition that owns the schedule, and its jobs. */
  #partition(owner: string, name: string): number {
    const digest = createHash("sha256").update(`${owner}\nschedule\n${name}`).digest()
    return digest.readUInt32BE(0) % this.#parts.journal.capabilities.partitions
  }
}

function timing({ cron, zone, every, start, end, jitter_seconds: jitter }: ScheduleDocument): string {
  return JSON.stringify([cron, zone, every, start, end, jitter])
}

function documentOf(row: ScheduleRow): ScheduleDocument {
  return parseSchedule(JSON.parse(row.document))
}

function summary(row: ScheduleRow): ScheduleSummary {
  return {
    name: row.name,
    owner: row.owner,
    ...documentOf(row),
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
    paused_at: timeOrNull(row.pausedAt),
    next_at: timeOrNull(row.nextAt),
    queued_tick: timeOrNull(row.queuedTick),
    last_job: row.lastJob,
  }
}

function fireView({ tick, kind, at, outcome, jobId, reason, count }: FireRow): FireView {
  return { tick: isoTime(tick), kind, at: isoTime(at), outcome, job_id: jobId, reason, count }
}

function timeOrNull(at: number | null): string | null {
  return at === null ? null : isoTime(at)
}

function noSuchSchedule(name: string): UmbraError {
  return new UmbraError(
    "E331",
    `There is no schedule "${name.slice(0, 200)}". Check the name in the list of schedules.`,
  )
}
