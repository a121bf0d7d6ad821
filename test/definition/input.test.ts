import { describe, expect, it } from "vitest"
import type { JsonObject } from "../../src/core/json.ts"
import { type InputCheck, InputChecker, readInput } from "../../src/definition/input/input.ts"
import { CheckRun, StepsSpentError } from "../../src/definition/input/schema-checks.ts"
import { threadMatchers } from "../../src/definition/input/schema-matchers.ts"
import { problemsOf } from "./catalog.ts"

const checker = new InputChecker(threadMatchers())

/** As a thread checks it. */
function checkInput(schema: JsonObject | null, input: unknown): InputCheck {
  const read = readInput(input)
  if (read.problems !== undefined) return read
  return schema === null
    ? { value: read.given }
    : checker.check(schema, read, new CheckRun({ steps: 1_000_000 }))
}

const schema: JsonObject = {
  type: "object",
  properties: {
    count: { type: "integer", default: 3 },
    options: { type: "object", properties: { mode: { enum: ["a", "b"], default: "a" } } },
    items: { type: "array", items: { $ref: "#/$defs/item" } },
    nested: { type: "object", default: {}, properties: { deep: { default: [1] } } },
  },
  required: ["items"],
  additionalProperties: false,
  $defs: { item: { type: "object", properties: { price: { type: "number", default: 0 } } } },
}

describe("defaults of the input schema", () => {
  it("are filled in at every level that exists, without touching what was given", () => {
    const given = { items: [{}, { price: 2 }], options: {} }
    const { value } = checkInput(schema, given)
    expect(value).toEqual({
      count: 3,
      items: [{ price: 0 }, { price: 2 }],
      nested: { deep: [1] },
      options: { mode: "a" },
    })
    expect(given).toEqual({ items: [{}, { price: 2 }], options: {} })
  })

  it("are copied, so that one job cannot change another's", () => {
    const first = checkInput(schema, { items: [] }).value as { nested: { deep: number[] } }
    first.nested.deep.push(9)
    expect(checkInput(schema, { items: [] }).value).toMatchObject({ nested: { deep: [1] } })
  })

  it("no input is an empty mapping, and no schema accepts everything", () => {
    expect(checkInput(null, undefined)).toEqual({ value: {} })
    expect(checkInput(null, { a: [1] })).toEqual({ value: { a: [1] } })
  })
})

describe("input that does not fit", () => {
  it("is reported with path and what was expected, all at once", () => {
    const { problems } = checkInput(schema, {
      count: "x",
      items: [{ price: "free" }],
      options: { mode: "c" },
      more: 1,
    })
    expect(problems).toEqual([
      { path: "input.count", message: "Expected integer, found string." },
      { path: "input.options.mode", message: 'The value does not match any of ["a","b"].' },
      { path: "input.items[0].price", message: "Expected number, found string." },
      { path: "input.more", message: "Unknown key. Remove it." },
    ])
    expect(checkInput(schema, {}).problems).toEqual([
      { path: "input.items", message: "This value is required." },
    ])
    expect(checkInput(schema, [1]).problems?.[0]).toEqual({
      path: "input",
      message: "Expected object, found array.",
    })
  })

  it("names the choice, not every branch of it", () => {
    const choice = { properties: { a: { anyOf: [{ type: "string" }, { type: "number" }] } } }
    expect(checkInput(choice, { a: true }).problems).toEqual([
      { path: "input.a", message: "The value does not match any subschema." },
    ])
  })

  it("that is not JSON is refused", () => {
    expect(checkInput(null, { a: Number.NaN }).problems).toEqual([
      { path: "input.a", message: expect.any(String) },
    ])
  })
})

describe("hostile schemas and inputs end", () => {
  it("a pattern that backtracks without end in other engines is matched", () => {
    const hostile = { properties: { a: { type: "string", pattern: "^(a+)+$" } } }
    expect(checkInput(hostile, { a: `${"a".repeat(50_000)}b` }).problems).toEqual([
      { path: "input.a", message: "String does not match pattern." },
    ])
    expect(checkInput(hostile, { a: "aaa" })).toEqual({ value: { a: "aaa" } })
  })

  it("references that double at each step are cut off", () => {
    const $defs: Record<string, JsonObject> = { s9: { type: "object" } }
    // Eight steps per level of the input, each twice as many: 2^32 for four levels.
    for (let i = 0; i < 7; i++)
      $defs[`s${i}`] = { allOf: [{ $ref: `#/$defs/s${i + 1}` }, { $ref: `#/$defs/s${i + 1}` }] }
    $defs.s7 = { properties: { a: { $ref: "#/$defs/s0" } } }
    const hostile = { properties: { a: { $ref: "#/$defs/s0" } }, $defs }
    const input = { a: { a: { a: { a: { a: { a: {} } } } } } }
    expect(() => checkInput(hostile, input)).toThrow(StepsSpentError)
  })

  it("defaults that would take more memory than there is are cut off", () => {
    const hostile = { properties: { a: { items: { properties: { b: { default: "x".repeat(10_000) } } } } } }
    expect(() => checkInput(hostile, { a: Array.from({ length: 10_000 }, () => ({})) })).toThrow(
      StepsSpentError,
    )
  })

  it("a schema that never passed a definition's checks is checked first", () => {
    expect(checkInput({ $ref: "#" }, {}).problems?.[0]?.message).toMatch(
      /^The schema cannot be used.*without end/,
    )
    expect(checkInput({ $ref: "https://example.com" }, {}).problems?.[0]?.message).toMatch(
      /Nothing is fetched/,
    )
    expect(checkInput({ required: 3, properties: 7 }, {}).problems).toHaveLength(1)
  })

  it("input too deep for its schema's chains of references is refused before the stack is at risk", () => {
    const $defs: Record<string, JsonObject> = {
      s7: { properties: { a: { $ref: "#/$defs/s0" }, p: { pattern: "^(x|y)*$" } } },
    }
    for (let i = 0; i < 7; i++) $defs[`s${i}`] = { allOf: [{ $ref: `#/$defs/s${i + 1}` }] }
    const nested = (levels: number) => {
      let value: JsonObject = { p: "xy" }
      for (let i = 0; i < levels; i++) value = { a: value, p: "x" }
      return checkInput({ properties: { a: { $ref: "#/$defs/s0" } }, $defs }, value)
    }
    expect(nested(10).problems).toBeUndefined()
    expect(nested(60).problems?.[0]?.message).toContain("nested too deeply for its schema")
  })

  it("input that is too deep is refused", () => {
    let deep: unknown = 1
    for (let i = 0; i < 10_000; i++) deep = [deep]
    expect(checkInput(null, { deep }).problems?.[0]?.message).toContain("64 levels")
  })
})

describe("E101 an input schema that cannot be used", () => {
  const places = (input: object) =>
    problemsOf(JSON.stringify({ name: "x", input, nodes: [{ id: "a", handler: "echo" }] })).map(
      ({ code, path }) => `${code} ${path}`,
    )

  it.each<[object, string[]]>([
    [{ type: "array" }, ["E101 input.type"]],
    [{ type: "objekt" }, ["E101 input.type"]],
    [{ properties: { a: { type: "strin" } } }, ["E101 input.properties.a.type"]],
    [{ properties: { a: 3 } }, ["E101 input.properties.a"]],
    [{ required: "a" }, ["E101 input.required"]],
    [
      { properties: { a: { minimum: "3", maxLength: -1 } } },
      ["E101 input.properties.a.minimum", "E101 input.properties.a.maxLength"],
    ],
    [{ properties: { a: { pattern: "(" } } }, ["E101 input.properties.a.pattern"]],
    [{ properties: { a: { pattern: "a".repeat(1001) } } }, ["E101 input.properties.a.pattern"]],
    [{ properties: { a: { $ref: "https://example.com/s" } } }, ["E101 input.properties.a.$ref"]],
    [{ properties: { a: { $ref: "#/$defs/gone" } } }, ["E101 input.properties.a.$ref"]],
    [{ $id: "https://example.com/s" }, ["E101 input.$id"]],
    [{ allOf: [{ $ref: "#" }] }, ["E101 input"]],
    [{ items: [{}] }, ["E101 input.items"]],
  ])("%j", (input, expected) => {
    expect(places(input)).toEqual(expected)
  })

  it("recursion through properties is fine", () => {
    const tree = {
      type: "object",
      properties: { left: { $ref: "#" }, right: { $ref: "#" }, n: { type: "number" } },
    }
    expect(places(tree)).toEqual([])
    expect(checkInput(tree, { left: { left: { n: "x" } } }).problems).toEqual([
      { path: "input.left.left.n", message: "Expected number, found string." },
    ])
  })
})
