import { describe, expect, it } from "vitest"
import type { Json } from "../../src/core/json.ts"
import { UmbraError } from "../../src/errors.ts"
import { compileTemplate, compileValue } from "../../src/template/index.ts"
import fc from "../support/property.ts"
import { scopeOf } from "./scope.ts"

const scope = scopeOf({
  names: { input: { a: 1, s: "text", xs: [3, 1, 2], m: { k: null } }, job: { id: "j" } },
  nodes: { n: { x: [1, { y: "z" }] }, "a-b": "out" },
})

const words =
  `{{ }} {% %} {# #} {{- -}} {%- -%} if elif else endif for in endfor set endset raw endraw not and or is
   input input.a input.s input.xs input.m n n.x nodes nodes["a-b"] job loop loop.index range( namespace( ns ns.x
   | upper lower join sort map( select( default( tojson fromjson batch( slice( replace( length first groupby(
   defined odd mapping constructor __proto__ prototype toString valueOf length
   ( ) [ ] { } , . : ~ + - * / // % ** == != < > <= >= = 0 1 2 -1 1e9 1.5 'a' "b" 'attribute' true none`.split(
    /\s+/,
  )

const soup = fc.array(fc.constantFrom(...words), { maxLength: 30 }).map(parts => parts.join(" "))
const tagged = fc.tuple(
  soup,
  fc.constantFrom(
    "{{ X }}",
    "{% X %}",
    "{% if X %}a{% endif %}",
    "{% for i in X %}{{ i }}{% endfor %}",
    "{% set v = X %}{{ v }}",
  ),
)
const source = fc.oneof(
  fc.string({ unit: "binary", maxLength: 60 }),
  soup,
  tagged.map(([inner, frame]) => frame.replace("X", () => inner)),
)

/** The value, or the error, which must be one of Umbra's. */
function outcome(act: () => Json): Json | UmbraError {
  try {
    return act()
  } catch (error) {
    if (error instanceof UmbraError) return error
    throw error
  }
}

function isJson(value: unknown): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true
  if (typeof value === "number") return Number.isFinite(value)
  if (Array.isArray(value)) return value.every(isJson)
  const prototype = Object.getPrototypeOf(value)
  return (
    typeof value === "object" &&
    prototype === Object.prototype &&
    Object.values(value as object).every(isJson)
  )
}

describe("J11 random template text", () => {
  it("never crashes, hangs or escapes: it renders to JSON or raises an UmbraError", () => {
    const check = fc.property(source, text => {
      const start = process.cpuUsage()
      const result = outcome(() => compileTemplate(text).render(scope))
      expect(process.cpuUsage(start).user / 1000).toBeLessThan(1000)
      if (result instanceof UmbraError) expect(result.code).toMatch(/^(E110|E201|E202|E203)$/)
      else expect(isJson(result)).toBe(true)
    })
    fc.assert(check, { numRuns: 20_000 })
  })

  it("without a tag renders to itself", () => {
    const plain = fc.string({ unit: "binary" }).filter(text => !/\{[{%#]/.test(text))
    fc.assert(fc.property(plain, text => compileTemplate(text).render(scope) === text))
  })

  it("as a string literal gives the string back", () => {
    const text = fc.string({ unit: "grapheme" })
    fc.assert(
      fc.property(text, value => {
        const literal = `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`
        expect(compileTemplate(`{{ ${literal} }}`).render(scope)).toBe(value)
      }),
    )
  })

  it("in any JSON value is found or reported, and the rest of the value is untouched", () => {
    const value = fc.object({ values: [fc.integer(), source, fc.constant(null)], withNullPrototype: false })
    fc.assert(
      fc.property(value, raw => {
        const json = JSON.parse(JSON.stringify(raw)) as Json
        const before = JSON.stringify(json)
        const compiled = compileValue(json)
        outcome(() => compiled.value.render(scope))
        expect(JSON.stringify(json)).toBe(before)
        if (compiled.value.templates.length === 0) expect(compiled.value.render(scope)).toBe(json)
      }),
      { numRuns: 500 },
    )
  })

  it("any JSON goes through tojson and fromjson unchanged, and prints the same as text", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), raw => {
        const value = JSON.parse(JSON.stringify(raw)) as Json
        const names = { input: { value } }
        expect(compileTemplate("{{ input.value | tojson | fromjson }}").render(scopeOf({ names }))).toEqual(
          value,
        )
        const text = compileTemplate("<{{ input.value }}>").render(scopeOf({ names }))
        expect(text).toBe(`<${typeof value === "string" ? value : JSON.stringify(value)}>`)
      }),
    )
  })
})
