/** `umbra jobs list`: newest first, one page at a time. */

import { type JobPage, type RemoteEvent, type RemoteItem, withLiveItems } from "../../client/index.ts"
import type { JobStatus } from "../../core/states.ts"
import { exitCode } from "../exit.ts"
import { durationsChart } from "../output/durations-chart.ts"
import { formatWorkflow, padded, print } from "../output/print.ts"
import { duration, type Paint, paintFor, printable, shorten, tookText } from "../output/terminal.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"
import { buildFilter, type FilterOptions, isFiltered } from "./filter.ts"

export interface ListOptions extends TargetOptions, FilterOptions {
  readonly limit: number
  readonly after?: string
  readonly deleted?: boolean
}

function listFilter(options: FilterOptions & { readonly deleted?: boolean }) {
  const { status, deleted } = options
  return { ...buildFilter(options), deleted: deleted || status?.includes("DELETED") || undefined }
}

export interface DurationsOptions extends TargetOptions, FilterOptions {
  readonly deleted?: boolean
  readonly points: number
}

/** `umbra jobs durations`: how long jobs took, over the time of their creation. */
export async function durations(options: DurationsOptions): Promise<number> {
  return withTarget(options, async ({ jobs }) => {
    const found = await jobs.durations({ ...listFilter(options), points: options.points })
    return print(options, found, () => `${durationsChart(found, paintFor(process.stdout)).join("\n")}\n`)
  })
}

export async function list(options: ListOptions): Promise<number> {
  const { limit, after } = options
  return withTarget(options, async ({ jobs: target, flags }) => {
    const filter = listFilter(options)
    const page = await target.jobPage({ ...filter, limit, after })
    return print(options, page, () => table(page, { flags, hasFilter: isFiltered(filter) }))
  })
}

/** The options of the page, except those of `flags`, are not repeated in the line for the next page. */
function table(
  { jobs, next, complete, scanned_to }: JobPage,
  { flags, hasFilter }: { readonly flags: string; readonly hasFilter: boolean },
): string {
  if (jobs.length === 0 && next === null) return "No jobs.\n"
  const paint = paintFor(process.stdout)
  const names = padded(jobs.map(job => printable(formatWorkflow(job))))
  const lines = jobs.map((job, i) =>
    `${job.job_id}  ${paintStatus(job.status, paint)}  ${names[i]}  ${job.created_at}  ${job.paused == null ? tookText(job) : "paused"}`.trimEnd(),
  )
  const searched = complete ? "More" : `Searched back to ${scanned_to}. More`
  const same = hasFilter ? ", with the same options" : ""
  const more = next === null ? "" : paint.dim(`${searched}${same}: umbra jobs list --after ${next}${flags}\n`)
  return `${lines.map(line => `${line}\n`).join("")}${more}`
}

const LONGEST_STATUS = "DISPATCHING".length

export function paintStatus(status: JobStatus, paint: Paint): string {
  const text = status.padEnd(LONGEST_STATUS)
  if (status === "COMPLETED") return paint.green(text)
  if (status === "FAILED" || status === "EXPIRED") return paint.red(text)
  return status === "CANCELLED" || status === "DELETED" ? paint.yellow(text) : paint.cyan(text)
}

/** `umbra jobs events JOB`: everything that happened to the job (J18). */
export async function events(jobId: string, options: TargetOptions): Promise<number> {
  const found = await withTarget(options, ({ jobs }) => jobs.events(jobId))
  // One line of JSON per event: a job may have a hundred thousand.
  const paint = paintFor(process.stdout)
  for (const event of found)
    process.stdout.write(`${options.json ? JSON.stringify(event) : text(event, paint)}\n`)
  return exitCode.ok
}

const LONGEST_TYPE = "job.dispatching".length

export function text(event: RemoteEvent, paint: Paint): string {
  const { at, type, source, node, item, attempt, payload } = event
  const which =
    node === undefined ? "" : `${printable(node)}${item === undefined ? "" : `[${item}]`}#${attempt}`
  const particulars = Object.keys(payload).length === 0 ? "" : shorten(JSON.stringify(payload), 160)
  return [
    paint.dim(at),
    type.padEnd(LONGEST_TYPE),
    source.padEnd("command".length),
    which,
    paint.dim(printable(particulars)),
  ]
    .join("  ")
    .trimEnd()
}

export interface ItemsCommandOptions extends TargetOptions {
  readonly limit: number
  readonly after?: number
  readonly at?: string
}

/** `umbra jobs items JOB NODE`. */
export async function items(jobId: string, node: string, options: ItemsCommandOptions): Promise<number> {
  const { limit, after, at } = options
  return withTarget(options, async ({ jobs, flags }) => {
    const page = await jobs.items(jobId, node, { limit, after, at })
    return print(options, page, () => {
      const paint = paintFor(process.stdout)
      const lines = withLiveItems(page).items.map(item => itemLine(item, paint))
      const moment = at === undefined ? "" : ` --at ${at}`
      const more = `More: umbra jobs items ${jobId} ${node} --after ${page.next}${moment}${flags}`
      return [...lines, ...(page.next === null ? [] : [paint.dim(more)])].map(line => `${line}\n`).join("")
    })
  })
}

function itemLine({ index, status, item, error, started_at, finished_at }: RemoteItem, paint: Paint): string {
  const took =
    started_at === null || finished_at === null
      ? ""
      : duration(Date.parse(finished_at) - Date.parse(started_at))
  const fault = error === null ? "" : paint.red(printable(`${error.code} ${error.message}`))
  const parts = [
    String(index).padStart(5),
    status.padEnd(9),
    took,
    shorten(printable(JSON.stringify(item)), 80),
  ]
  return [...parts, fault].filter(part => part !== "").join("  ")
}
