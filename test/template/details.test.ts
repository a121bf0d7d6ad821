/** Rules of templates that concern one operator or filter each. */
import { describe, expect, it } from "vitest"
import type { Json } from "../../src/core/json.ts"
import { UmbraError } from "../../src/errors.ts"
import { compileTemplate, defaultLimits } from "../../src/template/index.ts"
import { Fault, Run } from "../../src/template/run.ts"
import { scopeOf } from "./scope.ts"

const scope = scopeOf({ names: { input: { list: [1, 2] } } })
const render = (source: string): Json => compileTemplate(source).render(scope)

function messageOf(source: string): string {
  try {
    return JSON.stringify(render(source))
  } catch (error) {
    return error instanceof UmbraError ? error.message : `not an UmbraError: ${String(error)}`
  }
}

describe("J11 operators", () => {
  it("not in is one operator", () => {
    expect(render("{{ 3 not in input.list }}")).toBe(true)
    expect(render("{{ 1 not in input.list }}")).toBe(false)
    expect(render("{{ 1 not in input.list or 2 in input.list }}")).toBe(true)
  })

  it("+ says how text is joined only when there is text", () => {
    const hint = "~ joins as text"
    expect(messageOf('{{ 1 + "a" }}')).toContain(hint)
    expect(messageOf('{{ "a" + 1 }}')).toContain(hint)
    expect(messageOf("{{ 1 + input.list }}")).not.toContain(hint)
    expect(messageOf('{{ "a" - 1 }}')).not.toContain(hint)
  })
})

describe("J11 filters", () => {
  it("round takes numbers and booleans, and says what else to do", () => {
    expect(render("{{ 2.6 | round }}")).toBe(3)
    expect(render("{{ true | round }}")).toBe(1)
    expect(messageOf('{{ "2.6" | round }}')).toContain("round needs a number, not a string")
    expect(messageOf("{{ input.list | round }}")).toContain("round needs a number, not a list")
  })

  it("truncate names the parameter that is wrong", () => {
    expect(messageOf('{{ "abc" | truncate(2, end=input.list) }}')).toMatch(/\bend\b/)
    expect(messageOf('{{ "abc" | truncate("x") }}')).toMatch(/\blength\b/)
  })
})

describe("the size of what a template inserts", () => {
  const inserted = (value: Json, bytes: number) => {
    const run = new Run(scope, { ...defaultLimits, bytes })
    run.insert(value)
  }

  it.each([
    ["text", "x".repeat(100)],
    ["a list", new Array(50).fill(1)],
    ["a mapping", Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`key ${n}`, n]))],
    ["a list in a mapping", { list: new Array(50).fill(1) }],
    ["mappings in a list", new Array(10).fill({ a: { b: 1.5 } })],
  ])("counts %s", (_, value) => {
    expect(() => inserted(value, 50)).toThrow(Fault)
    expect(() => inserted(value, 1000)).not.toThrow()
  })

  it("counts each time that a value is inserted, also a large one that it has counted before", () => {
    const large = new Array(5000).fill(1)
    const run = new Run(scope, { ...defaultLimits, bytes: 25_000 })
    run.insert(large)
    run.insert(large)
    expect(() => run.insert(large)).toThrow(/exceeds 25,000 bytes/)
  })
})
