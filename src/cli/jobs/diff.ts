/** `umbra jobs diff A B`: where two jobs, or two moments of one job, diverge. */
import type { RemoteComparison } from "../../client/index.ts"
import { formatWorkflow, print } from "../output/print.ts"
import { duration, type Paint, paintFor, printable, wrapped, wrapWidth } from "../output/terminal.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"

export interface DiffOptions extends TargetOptions {
  readonly atA?: string
  readonly atB?: string
  readonly node?: readonly string[]
}

export async function diff(a: string, b: string, options: DiffOptions): Promise<number> {
  const { atA, atB, node } = options
  const compared = await withTarget(options, ({ jobs }) => jobs.compare(a, b, { atA, atB, diff: node }))
  return print(options, compared, () =>
    comparisonText(compared, paintFor(process.stdout), wrapWidth(process.stdout)),
  )
}

export function comparisonText(compared: RemoteComparison, paint: Paint, columns: number): string {
  const { a, b, moments, nodes, diffs = [], delta } = compared
  const side = (name: string, of: typeof a, { index }: { readonly index: number }) => {
    const details = [printable(formatWorkflow(of)), of.status, duration(of.took_ms), `#${index}`].join("  ")
    const [first = "", ...more] = wrapped(`${of.job_id}  ${details}`, columns - 2)
    return [`${paint.dim(name)} ${first}`, ...more.map(line => `  ${line}`)]
  }
  const changed = nodes.filter(node => isChanged(node))
  const lines = [
    ...side("a", a, moments.a),
    ...side("b", b, moments.b),
    ...wrapped(divergenceText(compared), columns).map(line => paint.bold(line)),
    ...[`time ${signed(delta.took_ms)}`, ...usageTexts(delta.usage)].map(each => `  ${each}`),
    ...changed.flatMap(node => nodeLines(node, { paint, columns })),
    paint.dim(`${nodes.length - changed.length} of ${nodes.length} nodes are the same.`),
    ...notCompared(compared).flatMap(each => wrapped(each, columns).map(line => paint.yellow(line))),
    ...diffs.flatMap(each => diffLines(each, paint)),
  ]
  return `${lines.join("\n")}\n`
}

function notCompared({ same_input, input_by_hash, nodes }: RemoteComparison): string[] {
  return [
    ...(same_input === null ? ["The inputs of the jobs were not compared: too large."] : []),
    ...(input_by_hash ? ["The inputs of the jobs were compared by hash, not by value: too large."] : []),
    ...(nodes.some(({ same_output }) => same_output === null)
      ? ["Some outputs were too large to compare."]
      : []),
  ]
}

type NodeComparison = RemoteComparison["nodes"][number]
type NodeSide = NonNullable<NodeComparison["a"]>

function isChanged({ a, b, same_definition, same_output, divergence }: NodeComparison): boolean {
  return divergence !== null || !same_definition || same_output !== true || a?.status !== b?.status
}

const kinds: { readonly [kind: string]: string } = {
  input: "The inputs of the jobs differ.",
  only_a: "is only in a",
  only_b: "is only in b",
  definition: "is defined differently",
  status: "had the same inputs, but a different state",
  output: "had the same inputs, but a different output",
}

function divergenceText({ divergence, complete }: RemoteComparison): string {
  if (divergence === null)
    return complete ? "No divergence." : "No divergence was found, but not everything was compared."
  const { kind, node } = divergence
  return node === null ? kinds[kind]! : `First divergence: node ${printable(node)} ${kinds[kind]}.`
}

function nodeLines(
  { id, a, b, divergence, same_inputs, same_output, by_hash, delta }: NodeComparison,
  { paint, columns }: { readonly paint: Paint; readonly columns: number },
): string[] {
  const states = a?.status === b?.status ? (a?.status ?? "") : `${a?.status ?? "–"} → ${b?.status ?? "–"}`
  const formatItems = ({ items }: NodeSide) =>
    items === undefined ? "" : `${items.done} of ${items.total} items`
  const items = [...new Set([a, b].map(side => (side === null ? "" : formatItems(side))))].filter(
    text => text !== "",
  )
  const parts = [
    states,
    items.join(" → "),
    divergence === null ? follows(same_inputs) : kinds[divergence]!,
    same_output === null ? "output not compared, too large" : "",
    by_hash ? "outputs compared by hash, not by value: too large" : "",
    delta?.took_ms ? `time ${signed(delta.took_ms)}` : "",
    delta?.attempts ? `attempts ${delta.attempts > 0 ? "+" : ""}${delta.attempts}` : "",
    ...usageTexts(delta?.usage ?? {}),
  ].filter(part => part !== "")
  const name = printable(id)
  const [first = "", ...more] = wrapped(`${name}  ${parts.join(", ")}`, columns - 2)
  const shown = divergence === null ? first : first.replace(name, () => paint.red(name))
  return [shown, ...more.map(line => `  ${line}`)]
}

function follows(sameInputs: boolean | null): string {
  if (sameInputs === null) return "its inputs were not compared"
  return sameInputs ? "" : "follows from an earlier difference"
}

function usageTexts(usage: { readonly [key: string]: number }): string[] {
  return Object.entries(usage).map(
    ([key, by]) => `${printable(key)} ${by > 0 ? "+" : ""}${Number(by.toPrecision(6))}`,
  )
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
