/** `umbra jobs diff A B`: where two jobs, or two moments of one job, diverge. */
import type { RemoteComparison } from "../../client/index.ts"
import { print } from "../output/print.ts"
import { duration, type Paint, paintFor, printable } from "../output/terminal.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"

export interface DiffOptions extends TargetOptions {
  readonly atA?: string
  readonly atB?: string
  readonly node?: readonly string[]
}

export async function diff(a: string, b: string, options: DiffOptions): Promise<number> {
  const { atA, atB, node } = options
  const compared = await withTarget(options, ({ jobs }) => jobs.compare(a, b, { atA, atB, diff: node }))
  return print(options, compared, () => text(compared, paintFor(process.stdout)))
}

function text(compared: RemoteComparison, paint: Paint): string {
  const { a, b, moments, nodes, diffs = [], delta } = compared
  const side = (name: string, of: typeof a, { index }: { readonly index: number }) =>
    `${paint.dim(name)} ${of.job_id}  ${printable(of.workflow)}@${of.workflow_version}  ${of.status}  ${duration(of.took_ms)}  ${paint.dim(`#${index}`)}`
  const changed = nodes.filter(node => isChanged(node))
  const lines = [
    side("a", a, moments.a),
    side("b", b, moments.b),
    paint.bold(divergenceText(compared)),
    ...[`time ${signed(delta.took_ms)}`, ...usageTexts(delta.usage)].map(each => `  ${each}`),
    ...changed.map(node => nodeLine(node, paint)),
    paint.dim(`${nodes.length - changed.length} of ${nodes.length} nodes are the same.`),
    ...(compared.complete ? [] : [paint.yellow("Some outputs were too large to compare.")]),
    ...diffs.flatMap(each => diffLines(each, paint)),
  ]
  return `${lines.join("\n")}\n`
}

type NodeComparison = RemoteComparison["nodes"][number]

function isChanged({ a, b, same_definition, same_output, divergence }: NodeComparison): boolean {
  return divergence !== null || !same_definition || same_output !== true || a?.status !== b?.status
}

const kinds: { readonly [kind: string]: string } = {
  input: "The inputs of the jobs differ.",
  only_a: "only in a",
  only_b: "only in b",
  definition: "is defined differently",
  status: "had the same inputs, and another state",
  output: "had the same inputs, and another output",
}

function divergenceText({ divergence }: RemoteComparison): string {
  if (divergence === null) return "No divergence."
  const { kind, node } = divergence
  return node === null ? kinds[kind]! : `First divergence: node ${printable(node)} ${kinds[kind]}.`
}

function nodeLine({ id, a, b, divergence, same_output, delta }: NodeComparison, paint: Paint): string {
  const states = a?.status === b?.status ? (a?.status ?? "") : `${a?.status ?? "–"} → ${b?.status ?? "–"}`
  const parts = [
    states,
    divergence === null ? "follows from an earlier difference" : kinds[divergence]!,
    same_output === null ? "output not compared" : "",
    delta?.took_ms ? `time ${signed(delta.took_ms)}` : "",
    delta?.attempts ? `attempts ${delta.attempts > 0 ? "+" : ""}${delta.attempts}` : "",
    ...usageTexts(delta?.usage ?? {}),
  ].filter(part => part !== "")
  const name = printable(id)
  return `${divergence === null ? name : paint.red(name)}  ${parts.join(", ")}`
}

function usageTexts(usage: { readonly [key: string]: number }): string[] {
  return Object.entries(usage).map(([key, by]) => `${printable(key)} ${by > 0 ? "+" : ""}${by}`)
}

function signed(ms: number | null): string {
  if (ms === null) return "not known"
  return ms < 0 ? `-${duration(-ms)}` : `+${duration(ms)}`
}

function diffLines(
  { node, changes, complete, not_compared }: NonNullable<RemoteComparison["diffs"]>[number],
  paint: Paint,
): string[] {
  const head = paint.bold(node === "input" ? "input" : `output of ${printable(node)}`)
  if (changes === undefined)
    return [`${head}: ${not_compared === "missing" ? "one of the jobs has none" : "too large to compare"}`]
  if (changes.length === 0) return [`${head}: the same values`]
  return [
    head,
    ...changes.flatMap(({ path, a, b }) => [
      `  ${printable(path)}`,
      ...(a === undefined ? [] : [paint.red(`    - ${printable(a)}`)]),
      ...(b === undefined ? [] : [paint.green(`    + ${printable(b)}`)]),
    ]),
    ...(complete ? [] : [paint.dim("  … there are more changes")]),
  ]
}
