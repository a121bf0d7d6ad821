/** `umbra why JOB [NODE]`. */
import type { WhyView } from "../../client/index.ts"
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
