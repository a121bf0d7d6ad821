/** Schedules as callers see them: store, show, pause, run and delete them, and list what their ticks did. */
import { createHash, randomUUID } from "node:crypto"
import { localOwner } from "../../core/facts.ts"
import { readInput } from "../../definition/input/input.ts"
import { isoTime, maybeTime, parseIsoTime } from "../../engine/clock.ts"
import { JobArtifacts } from "../../engine/owner/job-artifacts.ts"
import type { FiredTick, FiringSchedules } from "../../engine/schedules/schedules.ts"
import { TickLimits } from "../../engine/schedules/tick-limits.ts"
import { Versions } from "../../engine/versions.ts"
import { UmbraError } from "../../errors.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { FireKey, FireRow, ScheduleRow } from "../../journal/port/schedules.ts"
import {
  checkScheduleName,
  checkScheduleSize,
  knownFields,
  type PreviewRequest,
  parseSchedule,
  renderInput,
  type ScheduleDocument,
  type ScheduleRequest,
  scheduleRules,
} from "../../schedule/document.ts"
import { fireTime, nextFire, nextTicks, type Rules } from "../../schedule/policy.ts"
import { inTurns, nextTurnIfLate } from "../../turns.ts"
import { checkOptions } from "../arguments.ts"
import type { BulkOperations, BulkOptions, BulkView } from "../bulk/bulk.ts"
import type { Admit, Submissions } from "../submit.ts"
import {
  type BackfillCount,
  type BackfillRange,
  type BackfillRequest,
  noSuchSchedule,
  prepareBackfill,
} from "./backfill.ts"

const NEXT_TICKS = 20
const DEFAULT_LIMIT = 100
/** Of documents and fires: a page of a list ends after that many. */
const PAGE_BYTES = 4 * 1024 * 1024

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
  /** Present: this release does not accept the stored document, and no tick fires. */
  readonly problem?: string
  /** What its newest ticks did, newest first; only if the list was asked for them. */
  readonly fires?: readonly FireView[]
}

export interface ScheduleView extends ScheduleSummary {
  /** The next 20 ticks, without their jitter. A paused schedule has those that it would have. */
  readonly next_ticks: readonly string[]
}

/** What people see of the `kind` of a fire. */
interface KindFields {
  readonly kind: "tick" | "run" | "backfill"
  /** The operation of a backfill; null: it is none. */
  readonly bulk_id: string | null
}

/** What a tick did, or a run that was requested, or a tick of a backfill. */
export interface FireView extends Pick<FireRow, "outcome" | "reason" | "count">, KindFields {
  readonly tick: string
  readonly at: string
  readonly job_id: string | null
}

/** A tick of a range: what it did, or that it is planned. */
export interface TickView extends Omit<FireView, "outcome"> {
  /** `planned`: not decided yet; `at` is when it fires. */
  readonly outcome: FireView["outcome"] | "planned"
}

/** What a form shows of a schedule that is not stored. */
export interface SchedulePreview {
  /** The next 20 ticks, without their jitter. */
  readonly next_ticks: readonly string[]
}

export interface OwnerOption {
  readonly owner?: string | undefined
}

interface PageOptions extends OwnerOption {
  readonly after?: string | undefined
  readonly limit?: number | undefined
}

export interface ScheduleRequestsParts {
  readonly journal: Journal
  readonly firing: Pick<FiringSchedules, "changed">
  readonly submit: Submissions["submit"]
  readonly now: () => number
  readonly startBackfill: BulkOperations["startBackfill"]
  /** A job that a user requested is durable. Absent: this process has no streams. */
  readonly fired?: (fire: FiredTick) => void
  /** Absent: no engine is in this process. */
  readonly limits?: TickLimits
}

export class ScheduleRequests {
  readonly #parts: ScheduleRequestsParts
  readonly #versions: Versions
  /** The limits that ticks keep. */
  readonly limits: TickLimits

  constructor(parts: ScheduleRequestsParts) {
    this.#parts = parts
    this.limits = parts.limits ?? new TickLimits()
    this.#versions = new Versions(parts.journal)
  }

  /**
   * Stores a schedule, or changes it. The same document again changes nothing. `max`: E332 if it is new and the owner has that many;
   * requests at the same time may exceed it by their number.
   */
  async put(
    name: string,
    given: ScheduleRequest,
    { owner = localOwner, max = null }: OwnerOption & { readonly max?: number | null } = {},
  ): Promise<{ readonly schedule: ScheduleView; readonly isNew: boolean }> {
    const { journal, now } = this.#parts
    checkScheduleName(name)
    await nextTurnIfLate()
    const document = checkSchedule(given, owner)
    await this.#versions.resolve(owner, document.workflow)
    await new JobArtifacts(journal, now).check(owner, document.input)
    const text = JSON.stringify(document)
    for (;;) {
      const row = await journal.schedules.read({ owner, name })
      const at = now()
      if (row === null) {
        await this.#mustHaveRoom(owner, max)
        const id = randomUUID()
        const partition = this.#partition(owner, name)
        const nextAt = nextFire(scheduleRules(id, document), at)
        const created = { id, owner, name, partition, document: text, createdAt: at, lastTick: at, nextAt }
        if (!(await journal.schedules.create(created))) continue
        this.#parts.firing.changed(partition)
        return { schedule: await this.get(name, { owner }), isNew: true }
      }
      if (row.document === text || (await this.#change(row, { document, at, pausedAt: row.pausedAt })))
        return { schedule: await this.get(name, { owner }), isNew: false }
    }
  }

  /** Checks a document as `put` does, except that its workflow may be left out and need not exist. Stores nothing. */
  async preview({ workflow = "-", ...given }: PreviewRequest): Promise<SchedulePreview> {
    await nextTurnIfLate()
    const document = checkSchedule({ workflow, ...given }, localOwner)
    return { next_ticks: await shownTicks(scheduleRules("", document), this.#parts.now()) }
  }

  async get(name: string, { owner = localOwner }: OwnerOption = {}): Promise<ScheduleView> {
    const row = await this.#read(name, owner)
    const shown = summary(row)
    if (shown.problem !== undefined) return { ...shown, next_ticks: [] }
    const rules = scheduleRules(row.id, parseStoredSchedule(row))
    const after = Math.max(row.lastTick, row.pausedAt === null ? 0 : this.#parts.now())
    return { ...shown, next_ticks: await shownTicks(rules, after) }
  }

  /** By name: at most `limit`, and at most 4 MiB unless the first is larger. `next`: pass it as `after` for the next page; null: this was the last. `fires`: how many of the newest fires of each schedule are included. */
  async list(
    query: PageOptions & { readonly fires?: number | undefined } = {},
  ): Promise<{ readonly schedules: readonly ScheduleSummary[]; readonly next: string | null }> {
    const { owner = localOwner, after, limit = DEFAULT_LIMIT, fires = 0 } = query
    const page = { owner, after, limit, maxBytes: PAGE_BYTES }
    const { schedules: rows, isLast } = await this.#parts.journal.schedules.list(page)
    const schedules: ScheduleSummary[] = []
    let bytes = 0
    for (const row of rows) {
      const newest = fires === 0 ? [] : await this.#newest(row.id, fires)
      bytes += row.document.length + JSON.stringify(newest).length
      if (bytes > PAGE_BYTES && schedules.length > 0) return { schedules, next: schedules.at(-1)!.name }
      await nextTurnIfLate()
      schedules.push(fires === 0 ? summary(row) : { ...summary(row), fires: newest })
    }
    return { schedules, next: isLast ? null : schedules.at(-1)!.name }
  }

  /** Its jobs stay. */
  async delete(name: string, { owner = localOwner }: OwnerOption = {}): Promise<void> {
    if (!(await this.#parts.journal.schedules.remove({ owner, name }))) throw noSuchSchedule(name)
  }

  /** No tick fires until `resume`; those that are due while it is paused never do. A queued tick does not start. */
  async pause(name: string, { owner = localOwner }: OwnerOption = {}): Promise<ScheduleView> {
    for (;;) {
      const row = await this.#read(name, owner)
      const at = this.#parts.now()
      if (row.pausedAt !== null || (await this.#change(row, { at, pausedAt: at }))) break
    }
    return this.get(name, { owner })
  }

  async resume(name: string, { owner = localOwner }: OwnerOption = {}): Promise<ScheduleView> {
    for (;;) {
      const row = await this.#read(name, owner)
      if (row.pausedAt === null) break
      if (await this.#change(row, { at: this.#parts.now(), pausedAt: null })) break
    }
    return this.get(name, { owner })
  }

  /** Starts a job now, even if a job of the schedule is running or the schedule is paused. `schedule.time` of its input is now. Its ticks do not wait for this job. */
  async run(
    name: string,
    { owner = localOwner, submittedBy }: OwnerOption & { readonly submittedBy?: string | undefined } = {},
    admit?: Admit,
  ): Promise<{ readonly job_id: string }> {
    const { journal, submit, now, fired } = this.#parts
    const row = await this.#read(name, owner)
    const { workflow, input, labels, priority, ttl_seconds: ttlSeconds } = parseStoredSchedule(row)
    const at = now()
    const options = { owner, labels, priority, ttlSeconds, submittedBy }
    const { jobId } = await submit(workflow, renderInput(input, name, at), options, admit)
    // Runs of the same moment differ by their jobs.
    const fire = {
      ...{ tick: at, kind: `run:${jobId}`, at, jobId, count: 1 },
      ...{ outcome: "started" as const, reason: null },
    }
    await journal.schedules.addFire({ ...fire, scheduleId: row.id })
    fired?.({ ...fire, owner, schedule: name })
    return { job_id: jobId }
  }

  /** Counts the ticks that a backfill would start. */
  async previewBackfill(
    name: string,
    range: BackfillRange,
    { owner = localOwner }: OwnerOption = {},
  ): Promise<BackfillCount> {
    const { journal, now } = this.#parts
    const row = await this.#read(name, owner)
    const {
      document: _,
      schedule_id: __,
      ...shown
    } = await prepareBackfill(row, range, { journal, now: now() })
    return shown
  }

  /**
   * Starts a job for each tick of the range, regardless of running jobs and of what the ticks did, as a bulk operation. Resolves when
   * the operation is durable.
   */
  async backfill(
    name: string,
    { rate, ...range }: BackfillRequest,
    options: BulkOptions = {},
    admit?: Admit,
  ): Promise<BulkView & { readonly is_new: boolean }> {
    const { journal, now, startBackfill } = this.#parts
    const row = await this.#read(name, options.owner ?? localOwner)
    const prepared = await prepareBackfill(row, range, { journal, now: now() })
    return startBackfill(prepared, { rate }, options, admit)
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
    const until = before === undefined ? undefined : fireKey(before)
    const rows = await this.#parts.journal.schedules.fires({ scheduleId, before: until, limit: limit + 1 })
    const shown = rows.slice(0, limit)
    return { fires: shown.map(fireView), next: rows.length > limit ? cursor(shown.at(-1)!) : null }
  }

  /**
   * Ticks from `from` on and before `to`, oldest first: what they did, and those that are planned. `next`: pass it as `after` for
   * the next page; null: this was the last. A paused schedule has no planned ticks.
   */
  async ticks(
    name: string,
    { owner = localOwner, from, to, after, limit = DEFAULT_LIMIT }: PageOptions & BackfillRange,
  ): Promise<{ readonly ticks: readonly TickView[]; readonly next: string | null }> {
    const row = await this.#read(name, owner)
    const range = {
      after: fireKey(after ?? from),
      to: fireKey(to).tick,
      limit: limit + 1,
    }
    const fires = await this.#parts.journal.schedules.firesBetween({ scheduleId: row.id, ...range })
    const found = [...fires.map(fire => [fire, fireView(fire)] as const), ...(await plannedTicks(row, range))]
    found.sort(([a], [b]) => a.tick - b.tick || (a.kind < b.kind ? -1 : 1))
    const shown = found.slice(0, limit)
    return {
      ticks: shown.map(([, view]) => view),
      next: found.length > limit ? cursor(shown.at(-1)![0]) : null,
    }
  }

  async #newest(scheduleId: string, limit: number): Promise<readonly FireView[]> {
    return (await this.#parts.journal.schedules.fires({ scheduleId, before: undefined, limit })).map(fireView)
  }

  async #read(name: string, owner: string): Promise<ScheduleRow> {
    const row = await this.#parts.journal.schedules.read({ owner, name })
    if (row === null) throw noSuchSchedule(name)
    return row
  }

  async #mustHaveRoom(owner: string, max: number | null): Promise<void> {
    if (max === null || (await this.#parts.journal.schedules.count({ owner, limit: max })) < max) return
    throw new UmbraError(
      "E332",
      `There are ${max} schedules, as many as an owner may have. Delete one, or raise max_schedules.`,
    )
  }

  /** False: the row has changed since it was read. Without a `document` it keeps its own. */
  async #change(
    row: ScheduleRow,
    given: {
      readonly document?: ScheduleDocument
      readonly at: number
      readonly pausedAt: number | null
    },
  ): Promise<boolean> {
    const { journal, firing } = this.#parts
    const { id, revision } = row
    const { document, at, pausedAt } = given
    // A resumed schedule, and one with another timing, begins with the next tick from now.
    const isResumed = row.pausedAt !== null && pausedAt === null
    const isRetimed = document !== undefined && timing(shownDocument(row).document) !== timing(document)
    const lastTick = isResumed || isRetimed ? Math.max(row.lastTick, at) : row.lastTick
    const text = document === undefined ? row.document : JSON.stringify(document)
    const isChanged = await journal.schedules.change({
      ...{ id, revision, document: text, updatedAt: at, pausedAt, lastTick },
      nextAt:
        pausedAt === null
          ? nextFire(scheduleRules(id, document ?? parseStoredSchedule(row)), lastTick)
          : null,
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

/** A document as a caller gives it. A stored one may break limits that came after it. */
export function checkSchedule(given: ScheduleRequest, owner: string): ScheduleDocument {
  const { problems } = readInput(given?.input)
  if (problems !== undefined) throw new UmbraError("E330", `"${problems[0]!.path}": ${problems[0]!.message}.`)
  checkScheduleSize(given?.input)
  const document = parseSchedule(given)
  if (document.every !== undefined && document.zone !== "UTC")
    throw new UmbraError(
      "E330",
      'Leave out "zone": it applies to "cron" only; "every" counts elapsed time from "start".',
    )
  checkScheduleSize(document)
  const { labels, priority, ttl_seconds: ttlSeconds } = document
  checkOptions({ owner, labels, priority, ttlSeconds })
  return document
}

function timing({ cron, zone, every, start, end, jitter_seconds: jitter }: ScheduleDocument): string {
  return JSON.stringify([cron, zone, every, start, end, jitter])
}

function parseStoredSchedule(row: ScheduleRow): ScheduleDocument {
  return parseSchedule(JSON.parse(row.document))
}

/** An earlier release, or one with other time zones, may have accepted what this one does not. */
function shownDocument(row: ScheduleRow): {
  readonly document: ScheduleDocument
  readonly problem?: string
} {
  try {
    return { document: parseStoredSchedule(row) }
  } catch (error) {
    if (!(error instanceof UmbraError)) throw error
    return { document: knownFields(JSON.parse(row.document)), problem: error.message }
  }
}

function summary(row: ScheduleRow): ScheduleSummary {
  const { document, problem } = shownDocument(row)
  return {
    ...document,
    name: row.name,
    owner: row.owner,
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
    paused_at: maybeTime(row.pausedAt),
    next_at: problem === undefined ? maybeTime(row.nextAt) : null,
    queued_tick: maybeTime(row.queuedTick),
    last_job: row.lastJob,
    ...(problem === undefined ? {} : { problem }),
  }
}

/** Of the `kind` of a fire. */
export function kindFields(stored: string): KindFields {
  const [kind, id = null] = stored.split(":")
  return { kind: kind as KindFields["kind"], bulk_id: kind === "backfill" ? id : null }
}

function fireView({ tick, kind, at, outcome, jobId, reason, count }: FireRow): FireView {
  return {
    ...{ tick: isoTime(tick), ...kindFields(kind), at: isoTime(at) },
    ...{ outcome, job_id: jobId, reason, count },
  }
}

async function shownTicks(rules: Rules, after: number): Promise<string[]> {
  return (await inTurns(nextTicks(rules, after, { count: NEXT_TICKS }))).map(isoTime)
}

async function plannedTicks(
  row: ScheduleRow,
  { after, to, limit }: { readonly after: FireKey; readonly to: number; readonly limit: number },
): Promise<(readonly [FireKey, TickView])[]> {
  const { document, problem } = shownDocument(row)
  if (row.pausedAt !== null || problem !== undefined) return []
  const rules = scheduleRules(row.id, document)
  // The tick of the cursor itself is not planned if the cursor is after it.
  const from = Math.max(row.lastTick, after.kind < "tick" ? after.tick - 1 : after.tick)
  const ticks = await inTurns(nextTicks(rules, from, { count: limit, to }))
  return ticks.map(tick => [
    { tick, kind: "tick" },
    {
      ...{ tick: isoTime(tick), kind: "tick", at: isoTime(fireTime(rules, tick)), outcome: "planned" },
      ...{ job_id: null, bulk_id: null, reason: null, count: 1 },
    },
  ])
}

function cursor({ tick, kind }: FireKey): string {
  return `${isoTime(tick)}/${kind}`
}

/** Of a cursor, or of a time: then before and after all that happened at it. */
function fireKey(text: string): FireKey {
  const [time, kind = ""] = String(text).split("/") as [string, string?]
  const tick = parseIsoTime(time)
  if (tick === null)
    throw new UmbraError(
      "E330",
      `"${time.slice(0, 100)}" is not a time with its zone, such as 2026-11-15T12:00:00Z.`,
    )
  return { tick, kind }
}
