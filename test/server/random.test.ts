/** S2: requests made from the OpenAPI document, valid ones and twisted ones, never bring the server down. */
import { Validator } from "@cfworker/json-schema"
import fc from "fast-check"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { type Answer, ask, hello, openStage, type Stage, type Store, stores } from "./stage.ts"

interface Schema {
  readonly [key: string]: unknown
}

interface Operation {
  readonly parameters?: readonly { name: string; in: string; required?: boolean; schema: Schema }[]
  readonly requestBody?: { content: Record<string, { schema: Schema; example?: unknown }> }
  readonly responses: Record<string, { content?: Record<string, { schema?: Schema }> }>
}

const texts = fc.oneof(
  fc.constantFrom(
    "hello",
    "hello@1",
    "stable",
    "1",
    "0",
    "-1",
    "1e999",
    "NaN",
    "",
    "null",
    "%00",
    "..",
    "a/b",
  ),
  fc.string({ unit: "binary", maxLength: 20 }),
)

/** Mostly what the schema asks for, sometimes anything. */
function anyOf(schema: Schema): fc.Arbitrary<unknown> {
  return fc.oneof({ arbitrary: fitting(schema), weight: 6 }, { arbitrary: fc.jsonValue(), weight: 1 })
}

function fitting(schema: Schema): fc.Arbitrary<unknown> {
  const choices = (schema.anyOf ?? schema.oneOf) as Schema[] | undefined
  if (choices) return fc.oneof(...choices.map(anyOf))
  if (Array.isArray(schema.enum)) return fc.constantFrom(...(schema.enum as unknown[]))
  switch (schema.type) {
    case "string":
      return texts
    case "integer":
    case "number":
      return fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer(), fc.double())
    case "boolean":
      return fc.boolean()
    case "null":
      return fc.constant(null)
    case "array":
      return fc.array(anyOf((schema.items ?? {}) as Schema), { maxLength: 3 })
    case "object":
      return objectOf(schema)
    default:
      return fc.jsonValue()
  }
}

function objectOf(schema: Schema): fc.Arbitrary<unknown> {
  const properties = Object.entries((schema.properties ?? {}) as Record<string, Schema>)
  if (properties.length === 0) {
    const values = anyOf((schema.additionalProperties || {}) as Schema)
    return fc.dictionary(fc.oneof(texts, fc.constantFrom("1", "2")), values, { maxKeys: 3 })
  }
  const required = (schema.required ?? []) as string[]
  return fc.record(Object.fromEntries(properties.map(([name, found]) => [name, anyOf(found)])), {
    requiredKeys: required as never[],
  })
}

interface Drawn {
  readonly method: string
  readonly path: string
  readonly template: string
  readonly headers: Record<string, string>
  readonly body?: string
}

function requestOf(
  template: string,
  method: string,
  operation: Operation,
  ids: readonly string[],
): fc.Arbitrary<Drawn> {
  const parameters = operation.parameters ?? []
  const one = ({ name, schema }: { name: string; schema: Schema }) =>
    name === "job" ? fc.oneof({ arbitrary: fc.constantFrom(...ids), weight: 4 }, texts) : fitting(schema)
  const values = fc.record(
    Object.fromEntries(
      parameters.map(each => [`${each.in}.${each.name}`, fc.option(one(each), { nil: undefined, freq: 4 })]),
    ),
  )
  const types = Object.entries(operation.requestBody?.content ?? {})
  const body = types.length === 0 ? fc.constant(undefined) : fc.oneof(...types.map(bodyOf))
  return fc.tuple(values, body).map(([found, sent]) => {
    const path = template.replace(/\{(\w+)\}/g, (_, name) => encode(found[`path.${name}`] ?? "x") || "x")
    const query = parameters
      .filter(
        each => each.in === "query" && found[`query.${each.name}`] !== undefined && each.name !== "wait",
      )
      .map(each => `${each.name}=${encode(found[`query.${each.name}`])}`)
    return {
      method: method.toUpperCase(),
      template,
      path: `${path}${query.length > 0 ? `?${query.join("&")}` : ""}`,
      headers: sent === undefined ? {} : { "content-type": sent.type },
      ...(sent === undefined ? {} : { body: sent.text }),
    }
  })
}

function bodyOf([type, { schema, example }]: [string, { schema: Schema; example?: unknown }]) {
  const drawn = fc
    .oneof(anyOf(schema), fc.constant(example ?? null))
    .map(value => JSON.stringify(value) ?? "")
  const text = fc.oneof({ arbitrary: drawn, weight: 9 }, fc.string({ maxLength: 30 }))
  return text.map(found => ({ type, text: found }))
}

/** Half of a pair cannot be sent in a URL. */
function encode(value: unknown): string {
  return encodeURIComponent(
    String(typeof value === "object" ? JSON.stringify(value) : value).replace(/\p{Surrogate}/gu, ""),
  )
}

const RUNS = 700

describe.each(Object.entries(stores))("random requests on %s", (_, open) => {
  let store: Store
  let stage: Stage
  let document: { paths: Record<string, Record<string, Operation>>; components: unknown }
  const ids: string[] = []

  beforeAll(async () => {
    store = await open()
    stage = await openStage({ location: store.location, settings: { maxWaitSeconds: 0 } })
    document = (await stage.ask("/openapi.json")).body
    await stage.ask("/workflows", { method: "POST", body: hello })
    await stage.ask("/workflows/hello/aliases/stable", { method: "PUT", body: { version: 1 } })
    for (let n = 0; n < 3; n++) {
      const submitted = await stage.ask("/jobs", {
        method: "POST",
        body: { workflow: "hello", input: { name: n } },
      })
      ids.push(submitted.body.job_id)
    }
  })
  afterAll(async () => {
    await stage?.close()
    await store?.remove()
  })

  it(`S2 ${RUNS} of them: never a 500, always an answer that the document promises`, async () => {
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => requestOf(path, method, operation, ids)),
    )
    expect(operations.length).toBeGreaterThan(20)
    const seen = new Map<number, number>()
    await fc.assert(
      fc.asyncProperty(fc.oneof(...operations), async drawn => {
        const answer = await ask(stage.server.url, drawn.path, drawn)
        seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1)
        expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(500)
        mustBePromised(drawn, answer)
      }),
      { numRuns: RUNS },
    )
    // A generator that only makes rubbish would prove nothing.
    for (const status of [200, 201, 400, 404, 422])
      expect(seen.get(status) ?? 0, `${status}`).toBeGreaterThan(0)
    expect((await stage.ask("/ready")).status).toBe(200)
  })

  function mustBePromised({ template, method }: Drawn, { status, headers, body }: Answer): void {
    // A text in a path may lead to another page, or to none.
    if (body?.code === "E634") return
    const promised = document.paths[template]?.[method.toLowerCase()]?.responses[status]
    expect(promised, `${method} ${template} answered ${status} ${JSON.stringify(body)}`).toBeDefined()
    const schema = promised?.content?.[headers.get("content-type")?.split(";")[0] ?? ""]?.schema
    if (schema === undefined) return
    const found = new Validator({ ...schema, components: document.components } as never, "2020-12").validate(
      body,
    )
    expect(found.valid ? [] : found.errors, `${method} ${template} ${status}`).toEqual([])
  }
})

describe("header and path tricks", () => {
  it.each([
    ["/jobs/../metrics"],
    ["//jobs"],
    ["/jobs/%2e%2e/%2e%2e/etc/passwd"],
    ["/workflows/%"],
    ["/workflows/%ff"],
    [`/workflows/${"a".repeat(5000)}`],
    [`/jobs?${"a=b&".repeat(2000)}`],
    ["/jobs?limit=1&limit=2"],
    ["/jobs?__proto__[x]=1"],
  ])("%s is answered with a problem or a page, never a 500", async path => {
    const stage = await openStage()
    try {
      expect((await ask(stage.server.url, path, {})).status).toBeLessThan(500)
    } finally {
      await stage.close()
    }
  })
})

describe("the OpenAPI document", () => {
  it("S2 is 3.1, every operation has a summary, errors, and an example or a schema for what it takes", async () => {
    const stage = await openStage()
    const { body } = await stage.ask("/openapi.json")
    await stage.close()
    expect(body.openapi).toBe("3.1.0")
    const references = JSON.stringify(body).match(/"#\/components\/schemas\/[^"]+"/g) ?? []
    for (const reference of new Set(references))
      expect(Object.keys(body.components.schemas)).toContain(JSON.parse(reference).split("/").at(-1))
    for (const [path, methods] of Object.entries(
      body.paths as Record<string, Record<string, Operation & { summary: string }>>,
    )) {
      for (const [method, operation] of Object.entries(methods)) {
        expect(operation.summary, `${method} ${path}`).toBeTruthy()
        expect(Object.keys(operation.responses).some(status => status.startsWith("2"))).toBe(true)
        expect(operation.responses["500"]?.content?.["application/problem+json"]).toBeDefined()
      }
    }
  })

  it("S2 has a page that needs no script and nothing from elsewhere", async () => {
    const stage = await openStage()
    const { body, headers } = await stage.ask("/docs")
    await stage.close()
    expect(headers.get("content-type")).toContain("text/html")
    expect(body).toContain("/workflows/{name}/aliases/{alias}")
    expect(body).not.toMatch(/<script|src=|https?:\/\//)
  })
})
