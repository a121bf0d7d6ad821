import type { StandardSchemaV1 } from "@standard-schema/spec"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { handlerCatalog, validateWorkflow } from "../../src/definition/index.ts"

function check(schema: StandardSchemaV1, config: object): string[] {
  const handlers = handlerCatalog([{ name: "h", config: schema }])
  const workflow = { name: "x", nodes: [{ id: "a", handler: "h", config }] }
  return validateWorkflow(workflow, { handlers }).map(
    ({ code, path }) => `${code} ${path.replace("nodes[0].", "")}`,
  )
}

describe("E102 config against the handler's schema, with templates anywhere", () => {
  it("says nothing of a value that only a run can know", () => {
    const schema = z.strictObject({ n: z.number(), u: z.url(), l: z.array(z.int()), e: z.enum(["a", "b"]) })
    const t = "{{ input.x }}"
    expect(check(schema, { n: t, u: t, l: t, e: t })).toEqual([])
    expect(check(schema, { n: t, u: `http://${t}`, l: [1, t], e: "a" })).toEqual([])
  })

  it("reports what no template can mend: other values, missing keys, unknown keys", () => {
    const schema = z.strictObject({ n: z.number(), s: z.string(), inner: z.strictObject({ a: z.string() }) })
    const config = { n: "5", inner: { a: "{{ input.x }}", b: 1 }, extra: "{{ input.y }}" }
    expect(check(schema, config).sort()).toEqual([
      "E102 config.extra",
      "E102 config.inner.b",
      "E102 config.n",
      "E102 config.s",
    ])
  })

  it("reports the first wrong entries of a long list or mapping, with their places", () => {
    const status = z.union([z.int(), z.array(z.int()).min(1)])
    const schema = z.strictObject({
      status: status.optional(),
      by: z.record(z.string(), z.string()).optional(),
    })
    const long = Array.from({ length: 50_000 }, (_, i): unknown => (i < 20_000 ? i : "x"))
    const wrong = check(schema, { status: long })
    expect(wrong[0]).toBe("E102 config.status[20000]")
    expect(wrong.length).toBeLessThanOrEqual(1000)
    expect(check(schema, { status: long.slice(0, 20_000) })).toEqual([])
    const by = Object.fromEntries(long.map((value, i) => [`k${i}`, i < 20_000 ? "x" : value]))
    expect(check(schema, { by })).toEqual([])
    expect(check(schema, { by: { ...by, last: 1 } })).toEqual(["E102 config.by.last"])
  })

  it("says that a long list is too long, and nothing of its entries", () => {
    const schema = z.strictObject({ list: z.array(z.int()).max(1000) })
    expect(check(schema, { list: Array(5000).fill("x") })).toEqual(["E102 config.list"])
  })

  it("accepts a union that some branch may still satisfy, and refuses one that none can", () => {
    const target = z.union([z.string(), z.strictObject({ host: z.string(), port: z.number() })])
    const schema = z.strictObject({ target })
    expect(check(schema, { target: { host: "h", port: "{{ input.port }}" } })).toEqual([])
    expect(check(schema, { target: { host: "{{ input.host }}" } })).toEqual(["E102 config.target"])
    expect(check(schema, { target: 3 })).toEqual(["E102 config.target"])
  })

  it("accepts a discriminated union whose discriminator is a template", () => {
    const schema = z.discriminatedUnion("kind", [
      z.strictObject({ kind: z.literal("a"), x: z.number() }),
      z.strictObject({ kind: z.literal("b") }),
    ])
    expect(check(schema, { kind: "{{ input.kind }}", x: 1 })).toEqual([])
    expect(check(schema, { kind: "c" })).toEqual(["E102 config.kind"])
  })

  it("leaves rules over a whole mapping to the run if it holds templates", () => {
    const schema = z.object({ min: z.any(), max: z.any() }).refine(({ min, max }) => min < max)
    expect(check(schema, { min: 2, max: 1 })).toEqual(["E102 config"])
    expect(check(schema, { min: 2, max: "{{ input.max }}" })).toEqual([])
  })

  it("still counts the items of a list that holds templates", () => {
    expect(check(z.object({ l: z.array(z.string()).max(1) }), { l: ["{{ input.a }}", "b"] })).toEqual([
      "E102 config.l",
    ])
  })

  it("survives schemas that throw, and leaves asynchronous ones to the run", () => {
    const standard = (validate: () => never | Promise<never>): StandardSchemaV1 => ({
      "~standard": { version: 1, vendor: "test", validate },
    })
    const throwing = standard(() => {
      throw new Error("boom")
    })
    expect(check(throwing, {})).toEqual([])
    expect(
      check(
        standard(() => Promise.reject(new Error("later"))),
        {},
      ),
    ).toEqual([])
  })

  it("understands issues of any Standard Schema", () => {
    const schema: StandardSchemaV1 = {
      "~standard": {
        version: 1,
        vendor: "test",
        validate: () => ({
          issues: [
            { message: "bad", path: [{ key: "a" }, 0] },
            { message: "bad", path: ["t"] },
          ],
        }),
      },
    }
    expect(check(schema, { a: [1], t: "{{ input.t }}" })).toEqual(["E102 config.a[0]"])
  })

  it("suggests the key that was meant, and says it plainly where any value would do", () => {
    const config = z.strictObject({ value: z.unknown(), timeout: z.number().optional() })
    const handlers = handlerCatalog([{ name: "h", config }])
    const node = { id: "a", handler: "h", config: { timout: 3 } }
    const problems = validateWorkflow({ name: "x", nodes: [node] }, { handlers })
    expect(problems.map(({ message }) => message).sort()).toEqual([
      'The config does not fit handler "h": "value" is missing. Add it.',
      'The config does not fit handler "h": Unknown key "timout". Did you mean "timeout"?',
    ])
  })

  it("says which key is missing", () => {
    const handlers = handlerCatalog([{ name: "h", config: z.object({ prompt: z.string() }) }])
    const [problem] = validateWorkflow({ name: "x", nodes: [{ id: "a", handler: "h" }] }, { handlers })
    expect(problem?.message).toBe(
      'The config does not fit handler "h": "prompt" is missing. Invalid input: expected string.',
    )
  })
})
