/** `umbra schedule create|list|show|pause|resume|run|delete`. */
import type { Schedule, ScheduleFire, ScheduleRequest, ScheduleSummary } from "../../client/index.ts"
import { readJson } from "../input/source.ts"
import { factLines, padded, print } from "../output/print.ts"
import { printable } from "../output/terminal.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"

/** Ticks that are shown, past and next ones. */
const SHOWN = 10

export interface CreateOptions extends TargetOptions {
  readonly workflow: string
  readonly cron?: string
  readonly zone?: string
  readonly every?: string
  readonly input?: string
  readonly label?: { readonly [name: string]: string }
  readonly priority?: number
  readonly start?: string
  readonly end?: string
  readonly jitter?: number
  readonly overlap?: string
  readonly catchUp?: string
  readonly catchUpSeconds?: number
}

export async function create(name: string, options: CreateOptions): Promise<number> {
  const { workflow, cron, zone, every, label: labels, priority, start, end, overlap } = options
  const input = await readJson("--input", options.input)
  const given = {
    ...{ workflow, cron, zone, every, input, labels, priority, start, end, overlap },
    ...{
      jitter_seconds: options.jitter,
      catch_up: options.catchUp,
      catch_up_seconds: options.catchUpSeconds,
    },
  }
  // Absent, not undefined: the document is JSON. The target checks it.
  const document = JSON.parse(JSON.stringify(given)) as ScheduleRequest
  const schedule = await withTarget(options, ({ schedules }) => schedules.put(name, document), { make: true })
  return print(options, schedule, () => `Schedule ${name} is stored; ${nextText(schedule)}.\n`)
}

export async function list(options: TargetOptions): Promise<number> {
  const found = await withTarget(options, async ({ schedules }) => {
    const all: ScheduleSummary[] = []
    for await (const schedule of schedules.list()) all.push(schedule)
    return all
  })
  return print(options, { schedules: found }, () => {
    if (found.length === 0) return "No schedules. Store one with `umbra schedule create`.\n"
    const names = padded(found.map(({ name }) => name))
    const times = padded(found.map(timesText))
    return found.map((each, i) => `${names[i]}  ${times[i]}  ${nextText(each)}\n`).join("")
  })
}

export async function show(name: string, options: TargetOptions): Promise<number> {
  const [schedule, fires] = await withTarget(options, async ({ schedules }) => {
    const last: ScheduleFire[] = []
    const shown = await schedules.get(name)
    for await (const fire of schedules.fires(name, { limit: SHOWN })) if (last.push(fire) === SHOWN) break
    return [shown, last] as const
  })
  const facts = [
    ["schedule", schedule.name],
    ["workflow", printable(schedule.workflow)],
    ["times", timesText(schedule)],
    ["overlap", schedule.overlap],
    ["catch up", `${schedule.catch_up}, within ${schedule.catch_up_seconds} s`],
    ["paused", schedule.paused_at ?? ""],
    ["queued", schedule.queued_tick ?? ""],
  ] as const
  const next = schedule.next_ticks.slice(0, SHOWN).map(tick => `  ${tick}\n`)
  const lines = (found: readonly string[]) => (found.length === 0 ? "  none\n" : found.join(""))
  const text = () =>
    `${factLines(facts).join("\n")}\n\nNext ticks\n${lines(next)}\nLast ticks\n${lines(fires.map(fireLine))}`
  return print(options, { ...schedule, fires }, text)
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

export async function remove(name: string, options: TargetOptions): Promise<number> {
  await withTarget(options, ({ schedules }) => schedules.delete(name))
  return print(options, { name, deleted: true }, `Schedule ${printable(name)} is deleted; its jobs stay.\n`)
}

function timesText({ cron, zone, every }: ScheduleSummary): string {
  return every === undefined ? `${printable(cron!)} ${zone}` : `every ${every}`
}

function nextText({ next_at, paused_at }: Pick<Schedule, "next_at" | "paused_at">): string {
  if (paused_at !== null) return "paused"
  return next_at === null ? "no further tick" : `next at ${next_at}`
}

function fireLine({ tick, kind, outcome, job_id, reason, count }: ScheduleFire): string {
  const many = count > 1 ? ` (${count} ticks)` : ""
  const asked = kind === "run" ? " (run)" : ""
  const detail = reason === null ? "" : `: ${printable(reason)}`
  return `  ${tick}  ${outcome}${asked}${many}${job_id === null ? "" : `  ${job_id}`}${detail}\n`
}
