/** `umbra why JOB [NODE]` and `umbra waits`. */
import type { WaitGroup, WaitPage, WhyView } from "../../client/index.ts"
import { print } from "../output/print.ts"
import { count, type Paint, paintFor, printable } from "../output/terminal.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"

export interface WhyOptions extends TargetOptions {
  readonly at?: string
}

export async function why(jobId: string, node: string | undefined, options: WhyOptions): Promise<number> {
  const found = await withTarget(options, ({ jobs }) => jobs.why(jobId, { node, at: options.at }))
  return print(options, found, () => `${whyLines(found, paintFor(process.stdout)).join("\n")}\n`)
}

export function whyLines(view: WhyView, paint: Paint): string[] {
  const { sentence, action, reasons, chain, routes, unknown } = view
  return [
    paint.bold(printable(sentence)),
    ...(action === null ? [] : [`→ ${printable(action)}`]),
    ...section(
      "Other reasons",
      reasons.slice(1).map(reason => reason.sentence),
      paint,
    ),
    ...section("Chain of causes", chain.length < 2 ? [] : chain.map(cause => cause.sentence), paint),
    ...section(
      "Routes",
      (routes ?? []).map(route => route.sentence),
      paint,
    ),
    ...reasons.slice(0, 1).flatMap(({ usual }) => (usual === null ? [] : usualLines(usual, paint))),
    ...section("Not recorded", unknown, paint),
  ]
}

function section(title: string, lines: readonly string[], paint: Paint): string[] {
  return lines.length === 0 ? [] : ["", paint.dim(title), ...lines.map(line => `  ${printable(line)}`)]
}

function usualLines(
  { count: nodes, p50, p90 }: { count: number; p50: number; p90: number },
  paint: Paint,
): string[] {
  return ["", paint.dim(`Usual wait, of ${count(nodes, "node")}: ${p50} ms (median), ${p90} ms (90 %)`)]
}

export interface WaitsOptions extends TargetOptions {
  readonly workflow?: string
  readonly after?: string
}

export async function waits(options: WaitsOptions): Promise<number> {
  const { workflow, after } = options
  return withTarget(options, async ({ jobs, flags }) => {
    const found = await jobs.waits({ workflow, after })
    return print(options, found, () => `${waitLines(found, flags, paintFor(process.stdout)).join("\n")}\n`)
  })
}

export function waitLines(page: WaitPage, flags: string, paint: Paint): string[] {
  const { groups, jobs, running, complete, next, scanned_to } = page
  const more = complete
    ? []
    : [paint.dim(`Searched back to ${scanned_to}. More: umbra waits --after ${next}${flags}`)]
  const none = `No job waits. ${count(jobs, "job")} not ended, ${running} running.`
  return [...(groups.length === 0 ? [none] : groups.flatMap(group => groupLines(group, paint))), ...more]
}

function groupLines(group: WaitGroup, paint: Paint): string[] {
  const { kind, subject, nodes, jobs, sentence, action, since, examples } = group
  const title = `${kind.replaceAll("_", " ")}${subject === "" ? "" : ` ${subject}`}`
  const first = examples[0]
  return [
    `${paint.bold(printable(title))}: ${count(nodes, kind === "breaker" || kind === "backpressure" ? "message" : "node")} of ${count(jobs, "job")}${since === null ? "" : `, since ${since}`}`,
    `  ${printable(sentence)}`,
    ...(action === null ? [] : [`  → ${printable(action)}`]),
    ...(first === undefined
      ? []
      : [paint.dim(`  for example ${first.job_id}, node ${printable(first.node)}`)]),
  ]
}
