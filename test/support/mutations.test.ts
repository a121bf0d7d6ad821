/** What `npm run mutate` changes in a source file, and how it hides all changes behind their switches. */
import { describe, expect, test } from "vitest"
import { instrumented, mutated } from "../../scripts/mutate/instrument.ts"
import { sitesOf } from "../../scripts/mutate/mutations.ts"

const FILE = "src/core/sample.ts"

/** Every mutated text of the source. */
function mutants(text: string): readonly string[] {
  return sitesOf(FILE, text).flatMap(({ replacements, ...site }) =>
    replacements.map(replacement => mutated(text, { ...site, replacement })),
  )
}

describe("mutations", () => {
  test.each([
    ["export const f = (a: number) => a < 2", ["=> a <= 2", "=> a >= 2", "=> a < 3", "=> a < 1"]],
    ["export const f = (a: boolean, b: boolean) => a && !b", ["=> a || !b", "=> a && b"]],
    ["export const f = (a?: number) => a ?? 0", ["=> (0)", "=> a ?? 1", "=> a ?? -1"]],
    ["export const f = (a: string[]) => a.some(Boolean)", ["=> a.every(Boolean)"]],
    ['export const state: string = "READY"', ['= ""']],
  ])("of %s", (text, ends) => {
    const all = mutants(text)
    expect(all).toHaveLength(ends.length)
    for (const end of ends) expect(all.some(one => one.endsWith(end))).toBe(true)
  })

  test("an effect and an early return are removed, a condition is negated and made constant", () => {
    const text = "export function f(a: string[]) {\n  if (a.length) return\n  a.pop()\n}"
    expect(mutants(text)).toEqual([
      "export function f(a: string[]) {\n  \n  a.pop()\n}",
      "export function f(a: string[]) {\n  if (!(a.length)) return\n  a.pop()\n}",
      "export function f(a: string[]) {\n  if (true) return\n  a.pop()\n}",
      "export function f(a: string[]) {\n  if (false) return\n  a.pop()\n}",
      "export function f(a: string[]) {\n  if (a.length) return\n  \n}",
    ])
  })

  test("types, imports, keys and texts for people are left alone", () => {
    const text = [
      'import { x } from "./x.ts"',
      'export type State = "READY" | 1',
      "export interface Row { readonly n: 1 }",
      'export const row = { "a-key": x, text: "two words" }',
      'export const error = () => new TypeError("wrong")',
    ].join("\n")
    expect(mutants(text)).toEqual([])
  })
})

describe("switches", () => {
  const text = "let n = 1\nexport function f(a: number) {\n  n++\n  a > 1 && (n += a)\n  return n\n}\n"
  const sites = sitesOf(FILE, text).flatMap(({ replacements, ...site }) =>
    replacements.map(replacement => ({ ...site, replacement })),
  )
  /** The switch of one mutation per place, in the order of the places. */
  const drawn = sites
    .filter(
      (site, index) =>
        sites.findIndex(
          ({ start, end, kind }) => start === site.start && end === site.end && kind === site.kind,
        ) === index,
    )
    .map((site, id) => ({ ...site, id }))
  const program = instrumented(FILE, text, drawn)
    .replace(/^import .*\n/, "")
    .replace("a: number", "a")
    .replace("export function", "return function")

  const withSwitch = (active: number) => new Function("$mutant", program)((id: number) => id === active)

  test("all off: nothing has changed, also where a line begins with the changed expression", () => {
    const f = withSwitch(-1)
    expect([f(5), f(1), f(2)]).toEqual([7, 8, 11])
  })

  test("each alone makes its own mistake, also inside another", () => {
    const results = drawn.map(({ id }) => withSwitch(id)(2))
    const expected = drawn.map(mutation => {
      const plain = mutated(text, mutation)
        .replace("a: number", "a")
        .replace("export function", "return function")
      return new Function(plain)()(2)
    })
    expect(results).toEqual(expected)
    expect(new Set(results).size).toBeGreaterThan(3)
  })
})
