/** S2: requests made from the OpenAPI document, valid ones and mutated ones, never bring the server down. */
import { dereference, validate } from "@cfworker/json-schema"
import { Validator as DocumentValidator } from "@seriousme/openapi-schema-validator"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import fc from "../support/property.ts"
import { type Drawn, type Operation, requestOf } from "./drawn.ts"
import { type Answer, ask, hello, openStage, type Stage, type Store, stores } from "./stage.ts"

const RUNS = 700

describe.each(Object.entries(stores))("random requests on %s", (_, open) => {
  let store: Store
  let stage: Stage
  let document: { paths: Record<string, Record<string, Operation>> }
  let schemas: ReturnType<typeof dereference>
  const ids: string[] = []

  beforeAll(async () => {
    store = await open()
    stage = await openStage({ location: store.location, settings: { maxWaitSeconds: 0 } })
    document = (await stage.ask("/openapi.json")).body
    // Once: a validator for each answer would resolve all references of the document again.
    schemas = dereference(document as never)
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
    const routes = new Set<string>()
    await fc.assert(
      fc.asyncProperty(fc.oneof(...operations), async drawn => {
        const answer = await ask(stage.server.url, drawn.path, drawn)
        routes.add(`${drawn.method} ${drawn.template}`)
        seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1)
        expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(500)
        mustBePromised(drawn, answer)
      }),
      { numRuns: RUNS },
    )
    // A generator that only makes rubbish would prove nothing.
    for (const status of [200, 201, 400, 404, 422])
      expect(seen.get(status) ?? 0, `${status}`).toBeGreaterThan(0)
    expect(routes.size, "every route was asked").toBe(operations.length)
    expect((await stage.ask("/ready")).status).toBe(200)
  })

  function mustBePromised({ template, method }: Drawn, { status, headers, body }: Answer): void {
    // A text in a path may lead to another page, or to none.
    if (body?.code === "E634" || body?.code === "E647") return
    const promised = document.paths[template]?.[method.toLowerCase()]?.responses[status]
    expect(promised, `${method} ${template} answered ${status} ${JSON.stringify(body)}`).toBeDefined()
    const schema = promised?.content?.[headers.get("content-type")?.split(";")[0] ?? ""]?.schema
    if (schema === undefined) return
    const found = validate(body, schema, "2020-12", schemas)
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
    const validator = new DocumentValidator()
    expect(await validator.validate(body)).toEqual({ valid: true })
    expect(validator.version).toBe("3.1")
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

  it("S2 the check is one: a document with a mistake does not pass it", async () => {
    const validator = new DocumentValidator()
    const document = {
      openapi: "3.1.0",
      info: { title: "x", version: "1" },
      paths: { "/x": { get: { responses: 1 } } },
    }
    expect((await validator.validate(document)).valid).toBe(false)
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
