/** Our validator against an independent one, over random schemas and values. */
import { type Schema, Validator } from "@cfworker/json-schema"
import { describe, expect, it } from "vitest"
import type { Json, JsonObject } from "../../src/core/json.ts"
import { InputChecker } from "../../src/definition/input/input.ts"
import { inspectSchema } from "../../src/definition/input/input-schema.ts"
import { CheckRun, StepsSpentError } from "../../src/definition/input/schema-checks.ts"
import { threadMatchers } from "../../src/definition/input/schema-matchers.ts"
import fc from "../support/property.ts"

const checker = new InputChecker(threadMatchers())
const fits = (schema: JsonObject, given: Json, steps = 10_000_000) =>
  checker.check(schema, { given, depth: 6 }, new CheckRun({ steps })).problems === undefined

const key = fc.constantFrom("a", "b", "c")
const value: fc.Arbitrary<Json> = fc.letrec<{ value: Json }>(tie => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom<Json>(null, true, false, 0, 1, 2, 0.3, -1.5, "", "a", "ab", "é😀", "2024-02-30"),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(key, tie("value"), { maxKeys: 3 }),
  ),
})).value

const small = fc.nat(3)
const schema: fc.Arbitrary<Json> = fc.letrec<{ schema: Json; list: Json; map: Json }>(tie => ({
  list: fc.array(tie("schema"), { minLength: 1, maxLength: 3 }),
  map: fc.dictionary(key, tie("schema"), { maxKeys: 3 }),
  schema: fc.oneof(
    { maxDepth: 3 },
    fc.boolean(),
    fc
      .array(
        fc.oneof(
          ...Object.entries({
            type: fc.constantFrom<Json>("object", "array", "string", "number", "integer", [
              "null",
              "boolean",
              "object",
            ]),
            const: value,
            enum: fc.array(value, { minLength: 1, maxLength: 3 }),
            minimum: small,
            exclusiveMaximum: small,
            multipleOf: fc.constantFrom(0.1, 1, 2),
            minLength: small,
            maxLength: small,
            pattern: fc.constantFrom("a", "^[ab]*$", "^.$"),
            format: fc.constantFrom("date", "uri", "nothing"),
            minItems: small,
            uniqueItems: fc.boolean(),
            required: fc.uniqueArray(key, { maxLength: 2 }),
            maxProperties: small,
            dependentRequired: fc.dictionary(key, fc.uniqueArray(key, { maxLength: 2 }), { maxKeys: 1 }),
            properties: tie("map"),
            patternProperties: fc.dictionary(fc.constantFrom("[ab]", "^c$"), tie("schema"), { maxKeys: 2 }),
            additionalProperties: tie("schema"),
            unevaluatedProperties: tie("schema"),
            propertyNames: tie("schema"),
            dependentSchemas: tie("map"),
            prefixItems: tie("list"),
            items: tie("schema"),
            unevaluatedItems: tie("schema"),
            contains: tie("schema"),
            maxContains: small,
            anyOf: tie("list"),
            allOf: tie("list"),
            oneOf: tie("list"),
            not: tie("schema"),
            if: tie("schema"),
            // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
            then: tie("schema"),
            else: tie("schema"),
            $ref: fc.constant("#/$defs/leaf"),
          }).map(([keyword, argument]) =>
            (argument as fc.Arbitrary<Json>).map((drawn): [string, Json] => [keyword, drawn]),
          ),
        ),
        { maxLength: 3 },
      )
      .map(keywords => Object.fromEntries(keywords) as Json),
  ),
})).schema

describe("a schema is understood as another validator understands it", () => {
  it("whatever its keywords, and whatever the value", () => {
    let valid = 0
    fc.assert(
      fc.property(schema, fc.array(value, { minLength: 3, maxLength: 6 }), (drawn, values) => {
        fc.pre(typeof drawn === "object" && drawn !== null)
        const root = { ...(drawn as JsonObject), $defs: { leaf: { type: ["string", "object"] } } }
        fc.pre(inspectSchema(root).unsafe === undefined)
        const other = new Validator(structuredClone(root) as Schema, "2020-12", false)
        for (const each of values) {
          const expected = other.validate(each).valid
          if (expected) valid++
          expect([root, each, fits(root, each)]).toEqual([root, each, expected])
        }
      }),
      { numRuns: 1000, examples: [[{ type: "string" }, ["a", 1, null]]] },
    )
    // One of the example is valid; how many of the drawn ones are is a matter of chance.
    expect(valid).toBeGreaterThan(0)
  })
})

describe("the work of a check is counted", () => {
  it("50,000 strings that must be unique take steps in proportion", () => {
    const unique = { properties: { a: { uniqueItems: true, items: { type: "string" } } } }
    const strings = Array.from({ length: 50_000 }, (_, i) => `s${i}`)
    expect(fits(unique, { a: strings }, 300_000)).toBe(true)
    expect(fits(unique, { a: [...strings, "s7"] }, 300_000)).toBe(false)
    const objects = strings.map((a, i) => (i % 2 === 0 ? { a, b: [i] } : { b: [i], a }))
    expect(fits(unique, { a: [...objects, { b: [0], a: "s0" }] }, 600_000)).toBe(false)
  })

  it.each<[string, JsonObject, Json]>([
    [
      "alternatives",
      { items: { anyOf: Array.from({ length: 500 }, () => ({ type: "null" })) } },
      Array(500).fill(1),
    ],
    ["a long list of required keys", { items: { required: Array(1000).fill("k") } }, Array(500).fill({})],
    ["a long text whose length counts", { minLength: 1 }, "x".repeat(4_000_000)],
    [
      "unique objects",
      { uniqueItems: true },
      Array.from({ length: 2000 }, (_, i) => ({ i, text: "x".repeat(500) })),
    ],
  ])("%s", (_, hostile, given) => {
    expect(() => fits(hostile, given, 100_000)).toThrow(StepsSpentError)
  })
})

describe("problems have a bound", () => {
  it("a hundred are reported, the others counted", () => {
    const result = checker.check(
      { items: { type: "string" } },
      { given: Array(5000).fill(1), depth: 1 },
      new CheckRun({ steps: 1e6 }),
    )
    expect(result.problems).toHaveLength(100)
    expect(result).toMatchObject({ more: 4900 })
  })
})
