/** `umbra schedule create|list|show|ticks|pause|resume|run|backfill|delete`. */
import type { ScheduleFire, ScheduleRequest, ScheduleSummary, ScheduleTick } from "../../client/index.ts"
import { readJson, type SubmissionFlags, ttlSeconds } from "../input/source.ts"
import { follow } from "../jobs/bulk.ts"
import { factLines, print, tableLines } from "../output/print.ts"
import { count, printable } from "../output/terminal.ts"
import { listed, type TargetOptions, withTarget } from "../target/open.ts"

/** Past ticks that are shown. */
const SHOWN = 10

export interface CreateOptions extends TargetOptions {
  readonly workflow: string
  readonly cron?: string
  readonly zone?: string
  readonly every?: string
  readonly input?: string
  readonly label?: { readonly [name: string]: string }
  readonly priority?: number
  readonly ttl?: SubmissionFlags["ttl"]
  readonly start?: string
  readonly end?: string
  readonly jitter?: number
  readonly overlap?: string
  readonly catchUp?: string
  readonly catchUpSeconds?: number
  readonly dryRun?: boolean
}

export async function create(name: string, options: CreateOptions): Promise<number> {
  const { workflow, cron, zone, every, label: labels, priority, start, end, overlap } = options
  const input = await readJson("--input", options.input)
  const given = {
    ...{ workflow, cron, zone, every, input, labels, priority, start, end, overlap },
    ...{
      ttl_seconds: ttlSeconds(options.ttl),
      jitter_seconds: options.jitter,
      catch_up: options.catchUp,
      catch_up_seconds: options.catchUpSeconds,
    },
  }
  // Absent, not undefined: the document is JSON. The target checks it.
  const document = JSON.parse(JSON.stringify(given)) as ScheduleRequest
  if (options.dryRun) {
    const preview = await withTarget(options, ({ schedules }) => schedules.preview(document))
    const next = preview.next_ticks.map(tick => `  ${tick}\n`)
    return print(options, preview, () => `Would be stored. Next ticks\n${orNone(next)}`)
  }
  const schedule = await withTarget(options, ({ schedules }) => schedules.put(name, document), { make: true })
  return print(options, schedule, () => `Schedule ${name} is stored; ${nextText(schedule)}.\n`)
}

export async function list(options: TargetOptions): Promise<number> {
  const found = await withTarget(options, ({ schedules }) => listed(schedules.list({ fires: 1 })))
  return print(options, { schedules: found }, () => {
    if (found.length === 0) return "No schedules. Store one with `umbra schedule create`.\n"
    const rows = found.map(each => [each.name, timesText(each), `${nextText(each)}${lastText(each)}`])
    return tableLines(rows)
  })
}

export async function show(name: string, options: TargetOptions): Promise<number> {
  const [schedule, fires] = await withTarget(options, async ({ schedules }) => [
    await schedules.get(name),
    await listed(schedules.fires(name, { limit: SHOWN }), SHOWN),
  ])
  const facts = [
    ["schedule", schedule.name],
    ["workflow", printable(schedule.workflow)],
    ["times", timesText(schedule)],
    ["overlap", schedule.overlap],
    ["catch up", `${schedule.catch_up}, within ${schedule.catch_up_seconds} s`],
    ["problem", printable(schedule.problem ?? "")],
    ["paused", schedule.paused_at ?? ""],
    ["queued", schedule.queued_tick ?? ""],
  ] as const
  const next = schedule.next_ticks.map(tick => `  ${tick}\n`)
  const text = () =>
    `${factLines(facts).join("\n")}\n\nNext ticks\n${orNone(next)}\nLast ticks\n${orNone(fires.map(fireLine))}`
  return print(options, { ...schedule, fires }, text)
}

function orNone(lines: readonly string[]): string {
  return lines.length === 0 ? "  none\n" : lines.join("")
}

export interface TicksOptions extends TargetOptions {
  readonly from: string
  readonly to: string
}

export async function ticks(name: string, options: TicksOptions): Promise<number> {
  const { from, to } = options
  const found = await withTarget(options, ({ schedules }) => listed(schedules.ticks(name, { from, to })))
  return print(options, { ticks: found }, () => orNone(found.map(fireLine)))
}

export async function pause(name: string, options: TargetOptions): Promise<number> {
  const schedule = await withTarget(options, ({ schedules }) => schedules.pause(name))
  return print(options, schedule, `Schedule ${printable(name)} is paused.\n`)
}

export async function resume(name: string, options: TargetOptions): Promise<number> {
  const schedule = await withTarget(options, ({ schedules }) => schedules.resume(name))
  return print(options, schedule, `Schedule ${printable(name)} is resumed; ${nextText(schedule)}.\n`)
}

export async function start(name: string, options: TargetOptions): Promise<number> {
  const started = await withTarget(options, ({ schedules }) => schedules.run(name))
  return print(options, started, `${started.job_id}\n`)
}

export interface BackfillFlags extends TargetOptions {
  readonly from: string
  readonly to: string
  readonly rate?: number
  readonly dryRun?: boolean
  readonly detach?: boolean
}

export async function backfill(name: string, options: BackfillFlags): Promise<number> {
  const { from, to, rate, dryRun } = options
  return withTarget(options, async target => {
    const { schedules } = target
    if (dryRun) {
      const counted = await schedules.previewBackfill(name, { from, to })
      const { count: ticks, workflow, first_tick, last_tick } = counted
      const range = first_tick === null ? "" : `: the first is ${first_tick}, the last ${last_tick}`
      return print(
        options,
        counted,
        `Would start ${count(ticks, "job")} of ${printable(workflow)}${range}.\n`,
      )
    }
    return follow(await schedules.backfill(name, { from, to, rate }), target, options)
  })
}

export async function remove(name: string, options: TargetOptions): Promise<number> {
  await withTarget(options, ({ schedules }) => schedules.delete(name))
  return print(options, { name, deleted: true }, `Schedule ${printable(name)} is deleted; its jobs stay.\n`)
}

function timesText({ cron, zone, every }: ScheduleSummary): string {
  return every === undefined ? `${printable(cron ?? "")} ${printable(zone)}` : `every ${printable(every)}`
}

function nextText({ next_at, paused_at, problem }: ScheduleSummary): string {
  if (problem !== undefined) return `does not fire: ${printable(problem)}`
  if (paused_at !== null) return "paused"
  return next_at === null ? "no further tick" : `next at ${next_at}`
}

function lastText({ fires = [] }: ScheduleSummary): string {
  const [last] = fires
  return last === undefined ? "" : `; last ${last.outcome} at ${last.tick}`
}

function fireLine({ tick, kind, outcome, job_id, reason, count }: ScheduleFire | ScheduleTick): string {
  const many = count > 1 ? ` (${count} ticks)` : ""
  const asked = kind === "tick" ? "" : ` (${kind})`
  const detail = reason === null ? "" : `: ${printable(reason)}`
  return `  ${tick}  ${outcome}${asked}${many}${job_id === null ? "" : `  ${job_id}`}${detail}\n`
}
