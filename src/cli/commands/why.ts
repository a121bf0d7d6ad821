/** `umbra why JOB [NODE]` and `umbra waits`. */
import type { WaitGroup, WaitPage, WhyView } from "../../client/index.ts"
import { print } from "../output/print.ts"
import { count, duration, type Paint, paintFor, printable, wrapped, wrapWidth } from "../output/terminal.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"

export interface WhyOptions extends TargetOptions {
  readonly at?: string
}

export async function why(jobId: string, node: string | undefined, options: WhyOptions): Promise<number> {
  const found = await withTarget(options, ({ jobs }) => jobs.why(jobId, { node, at: options.at }))
  return print(options, found, () => whyLines(found, paintFor(process.stdout), wrapWidth(process.stdout)))
}

/** Commands are not wrapped: a terminal does so itself, and they can be copied. */
export function whyLines(view: WhyView, paint: Paint, columns: number): string[] {
  const { at, sentence, action, reasons, chain, routes, unknown } = view
  return [
    ...wrapped(sentence, columns).map(line => paint.bold(line)),
    ...(action === null ? [] : [`→ ${printable(action)}`]),
    ...section(
      "Other reasons",
      // The sentence has the pause of a job that holds no node.
      reasons.slice(1).flatMap(({ count, sentence }) => (count === 0 ? [] : sentence)),
      { paint, columns },
    ),
    ...section("Chain of causes", chain.length < 2 ? [] : chain.map(cause => cause.sentence), {
      paint,
      columns,
    }),
    ...section(
      "Routes",
      (routes ?? []).map(route => route.sentence),
      { paint, columns },
    ),
    ...reasons.slice(0, 1).flatMap(reason => waitLine(reason, { at, paint, columns })),
    ...section("Not recorded", unknown, { paint, columns }),
  ]
}

interface Shown {
  readonly paint: Paint
  readonly columns: number
}

function section(title: string, texts: readonly string[], { paint, columns }: Shown): string[] {
  return texts.length === 0 ? [] : ["", paint.dim(title), ...texts.flatMap(text => indented(text, columns))]
}

/** With a hanging indent, so that it is seen where the next one begins. */
function indented(text: string, columns: number): string[] {
  return wrapped(text, columns - 4).map((line, n) => `${n === 0 ? "  " : "    "}${line}`)
}

/** How long the nodes have waited, beside how long such nodes usually do. */
function waitLine(
  { kind, since, usual }: WhyView["reasons"][number],
  { at, paint, columns }: Shown & { readonly at: string },
): string[] {
  if (since === null) return []
  const waited = Math.max(0, Date.parse(at) - Date.parse(since))
  const soFar = `${kind === "running" ? "Runs" : "Waits"} for ${duration(waited)}`
  if (usual === null) return ["", paint.dim(`${soFar}.`)]
  const { count: nodes, p50, p90, p99 } = usual
  const known = `usually ${duration(p50)} (median), ${duration(p90)} (90 %), of ${count(nodes, "run")}.`
  const isLong = waited > p99
  const lines = wrapped(`${soFar}${isLong ? ", unusually long" : ""}; ${known}`, columns)
  return ["", ...lines.map(line => (isLong ? paint.yellow(line) : paint.dim(line)))]
}

export interface WaitsOptions extends TargetOptions {
  readonly workflow?: string
  readonly after?: string
}

export async function waits(options: WaitsOptions): Promise<number> {
  const { workflow, after } = options
  return withTarget(options, async ({ jobs, flags }) => {
    const found = await jobs.waits({ workflow, after })
    const shown = { paint: paintFor(process.stdout), columns: wrapWidth(process.stdout) }
    return print(options, found, () => waitLines(found, flags, shown))
  })
}

export function waitLines(page: WaitPage, flags: string, shown: Shown): string[] {
  const { groups, jobs, running, complete, next, scanned_to } = page
  const more = complete
    ? []
    : [shown.paint.dim(`Searched back to ${scanned_to}. More: umbra waits --after ${next}${flags}`)]
  const none = `No job waits. ${count(jobs, "job")} not ended, ${running} running.`
  return [...(groups.length === 0 ? [none] : groups.flatMap(group => groupLines(group, shown))), ...more]
}

function itemText({ item }: WaitGroup["examples"][number]): string {
  return item === null ? "" : `, item ${item}`
}

function groupLines(group: WaitGroup, { paint, columns }: Shown): string[] {
  const { kind, subject, nodes, jobs, sentence, action, since, examples } = group
  const title = `${kind.replaceAll("_", " ")}${subject === "" ? "" : ` ${subject}`}`
  const first = examples[0]
  return [
    `${paint.bold(printable(title))}: ${count(nodes, kind === "breaker" || kind === "backpressure" ? "message" : "node")} of ${count(jobs, "job")}${since === null ? "" : `, since ${since}`}`,
    ...indented(sentence, columns),
    ...(action === null ? [] : [`  → ${printable(action)}`]),
    ...(first === undefined
      ? []
      : [paint.dim(`  for example ${first.job_id}, node ${printable(first.node)}${itemText(first)}`)]),
  ]
}
