/**
 * Backfills: bulk operations that start a job for each past tick of a range.
 *
 * 1. The ticks, the input and the version of the workflow are those of the schedule when the backfill was accepted.
 * 2. The id of a job follows from operation and tick, so that a repetition finds it: one job for each.
 */
import { isoTime, parseIsoTime } from "../../engine/clock.ts"
import { backfillJobId } from "../../engine/ids.ts"
import type { FiredTick } from "../../engine/schedules/schedules.ts"
import { Versions } from "../../engine/versions.ts"
import { UmbraError } from "../../errors.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { ScheduleRow } from "../../journal/port/schedules.ts"
import { parseSchedule, renderInput, type ScheduleDocument, scheduleRules } from "../../schedule/document.ts"
import { nextTicks, type Rules } from "../../schedule/policy.ts"
import { inTurns, type Work } from "../../turns.ts"
import type { Submissions } from "../submit.ts"

/** Ticks of one backfill. */
const MOST_TICKS = 100_000
/** Ticks that are held in memory while they are counted. */
const PIECE = 100

/** Past ticks: from `from` on, before `to`. Times with their zone. */
export interface BackfillRange {
  readonly from: string
  readonly to: string
}

export interface BackfillRequest extends BackfillRange {
  /** Jobs per second; default 100. */
  readonly rate?: number | undefined
}

/** The answer of a dry run. */
export interface BackfillCount extends BackfillRange {
  readonly schedule: string
  /** The version that the jobs would run. */
  readonly workflow: string
  readonly count: number
  /** null: the range has no tick. */
  readonly first_tick: string | null
  readonly last_tick: string | null
}

/** The part of a bulk operation that describes what a backfill starts. */
export interface StoredBackfill extends Omit<BackfillCount, "count"> {
  readonly schedule_id: string
  readonly document: ScheduleDocument
}

/** Checks the range and counts its ticks. */
export async function prepareBackfill(
  row: ScheduleRow,
  { from, to }: BackfillRange,
  { journal, now }: { readonly journal: Journal; readonly now: number },
): Promise<StoredBackfill & { readonly count: number }> {
  const [start, end] = [parseIsoTime(from), parseIsoTime(to)]
  if (start === null || end === null)
    throw wrong('"from" and "to" must be times with their zone, such as 2026-11-15T12:00:00Z')
  if (start >= end) throw wrong('"to" must be after "from"')
  if (end > now) throw wrong('"to" must not be in the future: the schedule fires later ticks itself')
  const document = parseSchedule(JSON.parse(row.document))
  const { name, version } = await new Versions(journal).resolve(row.owner, document.workflow)
  const { count, first, last } = await inTurns(countTicks(scheduleRules(row.id, document), start, end))
  return {
    ...{ schedule: row.name, schedule_id: row.id, workflow: `${name}@${version}` },
    ...{ from: isoTime(start), to: isoTime(end), count },
    first_tick: first === null ? null : isoTime(first),
    last_tick: last === null ? null : isoTime(last),
    document,
  }
}

function* countTicks(
  rules: Rules,
  from: number,
  to: number,
): Work<{ count: number; first: number | null; last: number | null }> {
  let count = 0
  let first: number | null = null
  let last: number | null = null
  for (let after = from - 1; ; ) {
    const found = yield* nextTicks(rules, after, { count: PIECE, to })
    first ??= found[0] ?? null
    last = found.at(-1) ?? last
    count += found.length
    if (count > MOST_TICKS)
      throw wrong(`a backfill has at most ${MOST_TICKS.toLocaleString("en")} ticks; choose a shorter range`)
    if (found.length < PIECE) return { count, first, last }
    after = last!
  }
}

export interface BackfillTarget {
  readonly operation: string
  readonly owner: string
  readonly backfill: StoredBackfill
  readonly tick: string
  readonly submittedBy: string | undefined
  readonly maxUnfinished: number | null
}

export interface BackfillsParts {
  readonly journal: Journal
  readonly submit: Submissions["submitOnce"]
  readonly now: () => number
  /** The job of a tick is durable. */
  readonly fired: (fire: FiredTick) => void
  /** Limits of unfinished jobs. */
  readonly admit: (limits: {
    readonly owner: string
    readonly submittedBy?: string | undefined
    readonly maxUnfinished: number | null
  }) => Parameters<Submissions["submitOnce"]>[4]
}

/** What a process needs to run backfills. */
export class Backfills {
  readonly #parts: BackfillsParts

  constructor(parts: BackfillsParts) {
    this.#parts = parts
  }

  /** The next ticks after that time. Throws E331 if the schedule was deleted. */
  async page(
    owner: string,
    { schedule: name, schedule_id: id, document, to }: StoredBackfill,
    { after, limit }: { readonly after: string; readonly limit: number },
  ): Promise<string[]> {
    const row = await this.#parts.journal.schedules.read({ owner, name })
    if (row?.id !== id) throw noSuchSchedule(name)
    const range = { count: limit, to: Date.parse(to) }
    return (await inTurns(nextTicks(scheduleRules(id, document), Date.parse(after), range))).map(isoTime)
  }

  /** Starts the job of a tick, or finds the one that was started before. Throws why the tick is refused. */
  async start(target: BackfillTarget): Promise<void> {
    const { journal, submit, admit, now, fired } = this.#parts
    const { operation, owner, submittedBy, maxUnfinished } = target
    const { document, schedule: name, schedule_id: scheduleId, workflow } = target.backfill
    const tick = Date.parse(target.tick)
    const jobId = backfillJobId(operation, tick, journal.capabilities.partitions)
    const { labels, priority, ttl_seconds: ttlSeconds } = document
    const schedule = { name, tick }
    await submit(
      jobId,
      workflow,
      () => renderInput(document.input, name, tick),
      { owner, labels, priority, ttlSeconds, submittedBy, schedule, operation },
      admit({ owner, submittedBy, maxUnfinished }),
    )
    const fire = {
      ...{ tick, kind: `backfill:${operation}`, at: now(), count: 1 },
      ...{ outcome: "started" as const, jobId, reason: null },
    }
    await journal.schedules.addFire({ ...fire, scheduleId })
    fired({ ...fire, owner, schedule: name })
  }
}

export function noSuchSchedule(name: string): UmbraError {
  return new UmbraError(
    "E331",
    `There is no schedule "${name.slice(0, 200)}". Check the name in the list of schedules.`,
  )
}

function wrong(what: string): UmbraError {
  return new UmbraError("E330", `${what}.`)
}
