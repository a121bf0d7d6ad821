import { Validator } from "@cfworker/json-schema"
import { describe, expect, it } from "vitest"
import { workflowJsonSchema } from "../../src/definition/index.ts"
import { read } from "./files.ts"

const schema = JSON.parse(read("schema/workflow.schema.json")) as Record<string, unknown>
const TYPES = ["null", "boolean", "object", "array", "number", "integer", "string"]

/** Every object within, with the key it stands under. */
function* everyObject(value: unknown, key = ""): Generator<{ key: string; object: Record<string, unknown> }> {
  if (typeof value !== "object" || value === null) return
  if (!Array.isArray(value)) yield { key, object: value as Record<string, unknown> }
  for (const [name, child] of Object.entries(value)) yield* everyObject(child, name)
}

/** Objects that are schemas: a map of properties may itself have a property named `type` or `pattern`. */
const subschemas = [...everyObject(schema)]
  .filter(({ key }) => key !== "properties")
  .map(({ object }) => object)

describe("schema/workflow.schema.json", () => {
  it("is what the build makes of the definition's schema", () => {
    expect(schema).toEqual(JSON.parse(JSON.stringify(workflowJsonSchema())))
  })

  it("is valid JSON Schema 2020-12: types, patterns and references mean something", () => {
    expect(schema.$schema).toBe("https://json-schema.org/draft/2020-12/schema")
    const types = subschemas.flatMap(({ type }) => (type === undefined ? [] : [type].flat()))
    expect(types.length).toBeGreaterThan(0)
    expect(types.filter(type => !TYPES.includes(String(type)))).toEqual([])
    for (const { pattern } of subschemas) if (pattern !== undefined) new RegExp(String(pattern), "u")
    const definitions = Object.keys((schema.$defs ?? {}) as object).map(name => `#/$defs/${name}`)
    const references = subschemas.flatMap(({ $ref }) => ($ref === undefined ? [] : [$ref]))
    expect(references.filter(reference => !["#", ...definitions].includes(String(reference)))).toEqual([])
  })

  const node = { id: "fetch", handler: "input", config: {}, dependencies: [], timeout_seconds: 30 }

  it.each([
    ["the plain form of a node", { name: "w", nodes: [node] }, true],
    ["a heartbeat", { name: "w", nodes: [{ ...node, heartbeat_seconds: 5 }] }, true],
    ["an unknown key", { name: "w", nodes: [{ ...node, timeout: 30 }] }, false],
    ["no name", { nodes: [node] }, false],
    ["an id that cannot be read in a template", { name: "w", nodes: [{ ...node, id: "1 2" }] }, false],
  ])("lets an editor judge %s", (_, document, valid) => {
    expect(new Validator(schema, "2020-12").validate(document).valid).toBe(valid)
  })
})
