/** What the builder writes, the template engine reads back as what was meant: checked with the real engine. */

import { describe, expect, it } from "vitest"
import { z } from "zod"
import type { Json } from "../../src/core/json.ts"
import { compileWorkflow, handlerCatalog } from "../../src/definition/index.ts"
import { expr, orElse, text, workflow } from "../../src/definition/typed/builder.ts"
import { transformSpec } from "../../src/worker/handlers/specs.ts"
import fc from "../support/property.ts"

const anything = z.any()
/** A ref to `any`: every field of it is another. */
type Open = z.infer<typeof anything>
const open = { name: "open", output: anything }
const handlers = handlerCatalog([transformSpec, open])

/** Builds `{value: …}` over a node `source` with the given output, compiles it, and renders it. */
function rendered(output: Json, value: (source: Open) => unknown): Json {
  const built = workflow("w", flow => {
    const source = flow.node("source", open)
    flow.transform("n", value(source.output) as Json)
  })
  const { plan, problems } = compileWorkflow(built.definition, { handlers })
  if (plan === undefined) throw new Error(JSON.stringify(problems))
  const scope = {
    names: {},
    node: (id: string) => (id === "source" ? output : undefined),
    nodeIds: () => ["source"],
  }
  const config = plan.nodes[1]?.config.render(scope) as { value: Json }
  return config.value
}

/** Strings made of what templates are made of. */
const marks = [
  "{",
  "}",
  "{{",
  "}}",
  "{%",
  "%}",
  "{#",
  "#}",
  "-",
  '"',
  "'",
  "\\",
  "\n",
  " ",
  "x",
  "é",
  "\u2028",
  "😀",
  "raw",
]
const templateLike = fc.array(fc.constantFrom(...marks), { maxLength: 12 }).map(parts => parts.join(""))
const anyText = fc.oneof(templateLike, fc.string({ unit: "binary" }))
const number = fc
  .oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }))
  .map(n => (n === 0 ? 0 : n))
const key = fc
  .oneof(anyText, fc.constantFrom("if", "a", "content-type", "output", "items", "0", "-1"))
  .filter(name => !isHidden(name))
const json = fc.letrec<{ value: Json }>(tie => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom(null, true, false),
    number,
    anyText,
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(key, tie("value"), { maxKeys: 4 }),
  ),
})).value

/** Names no template can reach, whoever writes it, and those that JavaScript asks every value for. */
function isHidden(name: string): boolean {
  return /^(constructor|prototype|__proto__|then|toJSON)$/.test(name)
}

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

describe("what the builder writes renders to what was meant", () => {
  it("a literal of any JSON stays itself, braces and all", () => {
    fc.assert(
      fc.property(json, value => {
        expect(plain(rendered(null, () => value))).toEqual(plain(value))
      }),
    )
  })

  it("a literal inside an expression is itself", () => {
    fc.assert(
      fc.property(json, value => {
        expect(plain(rendered(null, () => expr`${value}`))).toEqual(plain(value))
      }),
    )
  })

  it("text is its pieces and its refs, whatever stands between them", () => {
    const part = fc.tuple(anyText, anyText)
    fc.assert(
      fc.property(fc.array(part, { maxLength: 4 }), anyText, (parts, last) => {
        const output = parts.map(([, value]) => value)
        const pieces = [...parts.map(([piece]) => piece), last]
        const strings = Object.assign(pieces, { raw: pieces }) as TemplateStringsArray
        const expected = parts.map(([piece, value]) => piece + value).join("") + last
        expect(rendered(output, source => text(strings, ...output.map((_, i) => source[i])))).toBe(expected)
        // The same as part of an expression.
        const inside = rendered(
          output,
          source => expr`[${text(strings, ...output.map((_, i) => source[i]))}]`,
        )
        expect(inside).toEqual([expected])
      }),
    )
  })

  it("text of a single number is text", () => {
    expect(rendered({ n: 3 }, source => text`${source.n}`)).toBe("3")
    expect(rendered({ n: 3 }, source => text` ${source.n}`)).toBe(" 3")
    expect(rendered({ n: 3 }, source => text`${source.n}\n`)).toBe("3\n")
    expect(rendered({ n: 3 }, source => source.n)).toBe(3)
  })

  it("a path of any keys and indexes reaches its value", () => {
    const step = fc.oneof(key, fc.nat({ max: 3 }))
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 5 }), json, (path, leaf) => {
        const output = path.reduceRight<Json>(
          (inner, at) => (typeof at === "number" ? [...Array(at).fill(0), inner] : { [at]: inner }),
          leaf,
        )
        const value = rendered(output, source => path.reduce((ref, at) => ref[at], source))
        expect(plain(value)).toEqual(plain(leaf))
      }),
    )
  })

  it("orElse stands in for what is missing, and for nothing else", () => {
    const or = (output: Json, value: Json) => rendered(output, source => orElse(source.x, value))
    expect(or({}, { deep: ["{{", 1] })).toEqual({ deep: ["{{", 1] })
    expect(or({ x: null }, "d")).toBe(null)
    expect(or({ x: "" }, "d")).toBe("")
    expect(or({ x: 0 }, "d")).toBe(0)
    expect(rendered([], source => orElse(source[3], "past the end"))).toBe("past the end")
    expect(rendered({}, source => orElse(source.x, { y: 1 }).y)).toBe(1)
    expect(rendered([1, 2], source => source[-1])).toBe(2)
  })
})
