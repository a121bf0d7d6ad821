/**
 * Measures templates: the cost of a reference, a config with five of them over outputs of 1 MB (goal: under
 * 0.1 ms), compiling, and text without templates. Ratios are to plain property reads that do the same.
 */
import type { Json } from "../src/core/json.ts"
import { compileTemplate, compileValue, type Scope } from "../src/template/index.ts"

export interface TemplateFigure {
  readonly name: string
  readonly microseconds: number
  /** A multiple of the cost of the same reads in JavaScript. */
  readonly ratio: number
}

const text = "x".repeat(1000)
const outputs: Record<string, Json> = Object.fromEntries(
  ["a", "b", "c", "d", "e"].map(id => [
    id,
    {
      status: 200,
      body: { rows: Array.from({ length: 200 }, (_, i) => ({ id: i, text: text + i })), name: id },
    },
  ]),
)
const scope: Scope = {
  names: { input: { user: "Ada" } },
  node: id => outputs[id],
  nodeIds: () => Object.keys(outputs),
}

const config = compileValue({
  prompt: "Summarise {{ a.body.rows[7].text }} for {{ input.user }}",
  rows: "{{ b.body.rows }}",
  status: "{{ c.output.status }}",
  name: "{{ nodes['d'].body.name | upper }}",
  deep: [{ last: "{{ e.body.rows[-1].id }}" }],
}).value

const plainRead = (): unknown => (scope.node("a") as { body: { name: string } }).body.name
const reference = compileTemplate("{{ a.body.name }}")
const loop = compileTemplate("{% for r in a.body.rows %}{{ loop.index }}. {{ r.id }}\n{% endfor %}")
let fresh = 0
/** The result is kept, or the compiler would remove the computation. */
let kept: unknown

const cases: readonly (readonly [string, () => unknown, number])[] = [
  ["plain property reads", plainRead, 1_000_000],
  ["one reference, {{ a.body.name }}", () => reference.render(scope), 200_000],
  ["config with 5 references over 1 MB of outputs", () => config.render(scope), 50_000],
  ["loop over 200 rows", () => loop.render(scope), 1_000],
  ["compile, seen before", () => compileTemplate("{{ a.body.name }}"), 200_000],
  ["compile, new", () => compileTemplate(`Summarise {{ node_${fresh++}.text | upper }} in brief`), 50_000],
  [
    "value of 20 strings without a template",
    () => compileValue(Array.from({ length: 20 }, () => "plain {text}")),
    50_000,
  ],
]

function microseconds(act: () => unknown, times: number): number {
  for (let i = 0; i < times / 10; i++) kept = act()
  const start = performance.now()
  for (let i = 0; i < times; i++) kept = act()
  return ((performance.now() - start) * 1000) / times
}

export async function templates(): Promise<readonly TemplateFigure[]> {
  const measured = cases.map(([name, act, times]) => ({ name, microseconds: microseconds(act, times) }))
  const base = measured[0]?.microseconds ?? 1
  const figures = measured.map(each => ({ ...each, ratio: each.microseconds / base }))
  if (kept === undefined) throw new Error("nothing was measured")
  console.log("templates")
  for (const { name, microseconds: cost, ratio } of figures) {
    console.log(`  ${name.padEnd(48)} ${cost.toFixed(3).padStart(10)} µs ${ratio.toFixed(0).padStart(8)} ×`)
  }
  return figures
}
