/** What forms make of a JSON Schema: kinds of fields, first values, help texts, paths of problems. */
import { describe, expect, it } from "vitest"
import {
  findVariant,
  formatHelp,
  initialValue,
  pathText,
  type Schema,
  toShape,
} from "../../ui/src/schema-form/schema.ts"

const kindOf = (schema: Schema, root: Schema = schema) => toShape(schema, root).kind

describe("the kind of a field", () => {
  it.each([
    [{ type: "string" }, "string"],
    [{ type: ["string", "null"] }, "string"],
    [{ type: "integer" }, "number"],
    [{ type: "boolean" }, "boolean"],
    [{ enum: ["a", 1, null] }, "choice"],
    [{ const: "a" }, "choice"],
    [{ oneOf: [{ const: "a", title: "A" }, { const: "b" }] }, "choice"],
    [{ type: "object", properties: { a: {} } }, "object"],
    [{ properties: { a: {} } }, "object"],
    [{ type: "object" }, "json"],
    [{ type: "object", additionalProperties: { type: "string" } }, "json"],
    [{ type: "array", items: { type: "string" } }, "list"],
    [{ type: "array" }, "json"],
    [{ type: "array", prefixItems: [{}], items: {} }, "json"],
    [{ anyOf: [{ type: "string" }, { type: "null" }] }, "string"],
    [{ anyOf: [{ type: "string" }, { type: "number" }] }, "variants"],
    [{ type: ["string", "number"] }, "json"],
    [{}, "json"],
    [{ allOf: [{ properties: { a: {} } }, { properties: { b: {} } }] }, "object"],
  ])("%j is %s", (schema, kind) => {
    expect(kindOf(schema as Schema)).toBe(kind)
  })

  it("follows references, also where a schema contains itself", () => {
    const tree: Schema = {
      $defs: {
        node: {
          type: "object",
          required: ["name"],
          properties: {
            name: { type: "string", default: "root" },
            children: { type: "array", items: { $ref: "#/$defs/node" } },
            next: { $ref: "#/$defs/node" },
          },
        },
      },
      $ref: "#/$defs/node",
    }
    expect(kindOf(tree)).toBe("object")
    expect(initialValue(tree, tree)).toEqual({ name: "root" })
    const endless: Schema = { $defs: { a: { anyOf: [{ $ref: "#/$defs/a" }] } }, $ref: "#/$defs/a" }
    expect(kindOf(endless)).toBe("json")
  })

  it("merges the parts of allOf", () => {
    const shape = toShape(
      { allOf: [{ required: ["a"], properties: { a: {} } }, { properties: { b: {} } }] },
      {},
    )
    expect(
      shape.kind === "object" && shape.properties.map(({ key, isRequired }) => [key, isRequired]),
    ).toEqual([
      ["a", true],
      ["b", false],
    ])
  })
})

describe("first values", () => {
  it("are the defaults, and what must exist", () => {
    const schema: Schema = {
      type: "object",
      required: ["who", "tags", "kind"],
      properties: {
        who: { type: "object", required: ["name"], properties: { name: {}, age: { default: 3 } } },
        tags: { type: "array", items: {} },
        kind: { const: "order" },
        size: { enum: ["s", "m"], default: "m" },
        extra: { type: "object", properties: { a: { default: 1 } } },
        preset: { type: "object", properties: { a: { default: 1 } }, default: {} },
        text: { type: "string" },
      },
    }
    expect(initialValue(schema, schema)).toEqual({
      ...{ who: { age: 3 }, tags: [], kind: "order", size: "m", preset: { a: 1 } },
    })
  })

  it("a value finds its variant by constants and required keys", () => {
    const shape = toShape(
      {
        oneOf: [
          { type: "object", required: ["by"], properties: { by: { const: "card" } } },
          { type: "object", required: ["by"], properties: { by: { const: "bank" } } },
          { type: "string" },
        ],
      },
      {},
    )
    if (shape.kind !== "variants") throw new Error(shape.kind)
    expect(shape.variants.map(({ label }) => label)).toEqual(["card", "bank", "string"])
    const place = (value: never) => findVariant(shape.variants, value, {})
    expect([{ by: "bank" }, "x", { by: "card" }, 3].map(value => place(value as never))).toEqual([1, 2, 0, 0])
  })
})

describe("texts", () => {
  it.each([
    [
      { type: "string", description: "Who it is for", minLength: 2, maxLength: 4000 },
      "Who it is for. 2 to 4,000 characters.",
    ],
    [{ type: "integer", maximum: 180, default: 30 }, "At most 180. Default 30."],
    [{ type: "number", exclusiveMinimum: 0 }, "More than 0."],
    [{ type: "array", items: {}, minItems: 1 }, "At least 1 entry."],
    [{ type: "string", format: "date", title: "Day" }, "Day. Format date."],
    [{ enum: ["a"], default: "a" }, "Default a."],
  ])("help of %j", (schema, text) => {
    expect(formatHelp(toShape(schema as Schema, {}))).toBe(text)
  })

  it("paths are those of the API", () => {
    expect(pathText(["input", "a b", 0, "c-d", "0"])).toBe('input["a b"][0].c-d["0"]')
  })
})
