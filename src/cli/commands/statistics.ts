/** `umbra stats WORKFLOW` and `umbra failures`. */
import type {
  FailureGroup,
  FailurePage,
  JobStatistics,
  NodeStatistics,
  Percentiles,
  UsageStatistics,
  WorkflowStatistics,
} from "../../client/index.ts"
import { factLines, print, tableLines } from "../output/print.ts"
import { count, duration, type Paint, paintFor, printable, shorten, width } from "../output/terminal.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"

/** Narrower terminals get lines instead of a table. */
const TABLE_COLUMNS = 72
const USUAL_COLUMNS = 100

export interface StatisticsOptions extends TargetOptions {
  readonly version?: number
  /** Milliseconds. */
  readonly since: number
}

export async function stats(
  workflow: { readonly name: string; readonly version?: number },
  options: StatisticsOptions,
): Promise<number> {
  const { name } = workflow
  const version = options.version ?? workflow.version
  const from = Date.now() - options.since
  const found = await withTarget(options, ({ workflows }) => workflows.statistics(name, { version, from }))
  const columns = process.stdout.columns ?? USUAL_COLUMNS
  return print(options, found, () => statisticsText(found, columns, paintFor(process.stdout)))
}

export function statisticsText(found: WorkflowStatistics, columns: number, paint: Paint): string {
  const { jobs, nodes, critical_path: path } = found
  const which = found.version === null ? "all versions" : `version ${found.version}`
  const head = [
    `${printable(found.workflow)}, ${which}`,
    paint.dim(`${hour(found.from)} to ${hour(found.to)}`),
  ]
  if (jobs.count === 0) return lines([...head, "No job of it ended in this time."])
  const sum = path.reduce((ms, node) => ms + (node.duration_ms ?? 0) + (node.queued_ms ?? 0), 0)
  const facts = factLines(
    [
      ["jobs", jobsText(jobs)],
      ["took", percentileText(jobs.duration_ms)],
      ["waited", percentileText(jobs.queued_ms)],
      ...usageFacts(jobs.usage),
      ["errors", errorsText(jobs)],
      ["slowest", path.length < 2 ? "" : `${path.map(({ node }) => node).join(" → ")}: ${duration(sum)}`],
    ],
    paint,
  )
  const isNarrow = columns < TABLE_COLUMNS
  const body = isNarrow
    ? nodeLines(nodes, columns, paint)
    : [...nodeTable(nodes, paint), ...usageTable(nodes, paint)]
  return lines([...head, ...facts.map(fact => shortenPainted(fact, columns)), "", ...body])
}

const lines = (all: readonly string[]): string => all.map(line => `${line}\n`).join("")

/** The first nine columns may be dimmed. */
function shortenPainted(fact: string, columns: number): string {
  const escapes = fact.length - withoutEscapes(fact).length
  return shorten(fact, columns + escapes)
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the sequences that colours consist of.
const withoutEscapes = (text: string): string => text.replaceAll(/\u001b\[\d+m/g, "")

function hour(time: string): string {
  return `${time.slice(0, 10)} ${time.slice(11, 16)}Z`
}

function jobsText({ count: ended, failed, failure_rate, cancelled, expired }: JobStatistics): string {
  const parts = [
    `${ended.toLocaleString("en")} ended`,
    `${failed.toLocaleString("en")} failed (${percent(failure_rate)})`,
    cancelled === 0 ? "" : `${cancelled.toLocaleString("en")} cancelled`,
    expired === 0 ? "" : `${expired.toLocaleString("en")} expired`,
  ]
  return parts.filter(part => part !== "").join(", ")
}

function percent(rate: number | null): string {
  if (rate === null) return "no data"
  const hundredths = rate * 100
  return `${hundredths > 0 && hundredths < 10 ? hundredths.toFixed(1) : Math.round(hundredths)} %`
}

function percentileText(found: Percentiles | null): string {
  if (found === null) return "no data"
  return `p50 ${duration(found.p50)}, p90 ${duration(found.p90)}, p99 ${duration(found.p99)}`
}

function usageFacts(usage: UsageStatistics | null): [name: string, value: string][] {
  return Object.entries(usage ?? {}).map(([key, used], index) => {
    const range = used.p50 === null ? "" : `, ${usagePercentiles(used)}`
    return [index === 0 ? "usage" : "", `${key} ${amount(used.total)}, ${amount(used.mean)} per job${range}`]
  })
}

function usagePercentiles({ p50, p90, p99 }: UsageStatistics[string]): string {
  return `p50 ${amount(p50)}, p90 ${amount(p90)}, p99 ${amount(p99)}`
}

const amount = (value: number | null): string =>
  value?.toLocaleString("en", { maximumSignificantDigits: 6 }) ?? "-"

function errorsText({ errors }: Pick<JobStatistics, "errors">): string {
  return errors.map(({ code, count }) => `${code} ${count.toLocaleString("en")}`).join(", ")
}

const HEADINGS = ["NODE", "RUNS", "FAILED", "P50", "P90", "P99", "WAIT P50", "WAIT P90", "TRIES"]

function nodeTable(nodes: readonly NodeStatistics[], paint: Paint): string[] {
  const rows = nodes.map(({ node, count, failed, failure_rate, duration_ms, queued_ms, attempts }) => [
    shorten(printable(node), 24),
    count.toLocaleString("en"),
    failed === 0 ? "0" : `${failed.toLocaleString("en")} (${percent(failure_rate)})`,
    ...[duration_ms?.p50, duration_ms?.p90, duration_ms?.p99, queued_ms?.p50, queued_ms?.p90].map(shown),
    attempts.toLocaleString("en"),
  ])
  return table(HEADINGS, rows, paint)
}

function table(headings: readonly string[], rows: readonly (readonly string[])[], paint: Paint): string[] {
  const [head = "", ...lines] = tableLines([headings, ...rows])
  return [paint.dim(head), ...lines]
}

const USAGE_HEADINGS = ["NODE", "USAGE", "TOTAL", "MEAN", "P50", "P90", "P99"]

/** Nothing, if no node has reported any. */
function usageTable(nodes: readonly NodeStatistics[], paint: Paint): string[] {
  const rows = nodes.flatMap(({ node, usage }) =>
    Object.entries(usage ?? {}).map(([key, { total, mean, p50, p90, p99 }]) => [
      ...[node, key].map(text => shorten(printable(text), 24)),
      ...[total, mean, p50, p90, p99].map(amount),
    ]),
  )
  return rows.length === 0 ? [] : ["", ...table(USAGE_HEADINGS, rows, paint)]
}

const shown = (ms: number | undefined): string => (ms === undefined ? "-" : duration(ms))

function nodeLines(nodes: readonly NodeStatistics[], columns: number, paint: Paint): string[] {
  return nodes.flatMap(({ node, count: runs, failed, failure_rate, duration_ms, queued_ms, usage }) => [
    shorten(printable(node), 40),
    `  ${count(runs, "run")}${failed === 0 ? "" : `, ${failed.toLocaleString("en")} failed (${percent(failure_rate)})`}`,
    paint.dim(`  took   ${short(duration_ms)}`),
    paint.dim(`  waited ${short(queued_ms)}`),
    ...Object.entries(usage ?? {}).map(([key, { p50, p90, p99 }]) => {
      const used = p50 === null ? "no data" : [p50, p90, p99].map(amount).join(" / ")
      return paint.dim(shorten(`  ${printable(key)} ${used}`, columns))
    }),
  ])
}

function short(found: Percentiles | null): string {
  return found === null ? "no data" : [found.p50, found.p90, found.p99].map(duration).join(" / ")
}

export interface FailuresOptions extends TargetOptions {
  readonly workflow?: string
  readonly since: number
  readonly after?: string
}

export async function failures(options: FailuresOptions): Promise<number> {
  const { workflow, after, since } = options
  const from = Date.now() - since
  return withTarget(options, async ({ jobs, flags }) => {
    const found = await jobs.failures({ workflow, after, from })
    const columns = process.stdout.columns ?? USUAL_COLUMNS
    return print(options, found, () =>
      failuresText(found, { columns, flags, paint: paintFor(process.stdout) }),
    )
  })
}

export function failuresText(
  { groups, complete, next, scanned_to }: FailurePage,
  { columns, flags, paint }: { readonly columns: number; readonly flags: string; readonly paint: Paint },
): string {
  const more = complete
    ? []
    : [paint.dim(`Searched back to ${scanned_to}. More: umbra failures --after ${next}${flags}`)]
  if (groups.length === 0) return lines([...(complete ? ["No failed jobs."] : []), ...more])
  return lines([...groups.flatMap(group => groupLines(group, columns, paint)), ...more])
}

function groupLines(group: FailureGroup, columns: number, paint: Paint): string[] {
  const { fingerprint, workflow, code, node, message, count: jobs, first_at, last_at, example_job_id } = group
  const where = node === null ? workflow : `${workflow}, node ${node}`
  const head = `${jobs.toLocaleString("en")} × `
  const title = shorten(printable(`${code} ${message}`), columns - width(head))
  const when = first_at === last_at ? last_at : `${first_at} to ${last_at}`
  return [
    `${head}${paint.red(title)}`,
    ...[where, when, `for example ${example_job_id}`, `fingerprint ${fingerprint}`].map(text =>
      paint.dim(`  ${shorten(printable(text), Math.max(columns - 2, 52))}`),
    ),
  ]
}
