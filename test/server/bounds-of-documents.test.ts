/** Bounds of what is read and answered over HTTP: YAML, and lists of problems. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { openStage, type Stage } from "./stage.ts"

describe("documents over HTTP", () => {
  let stage: Stage
  beforeAll(async () => {
    stage = await openStage()
  })
  afterAll(() => stage?.close())

  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    stage.ask(path, { method: "POST", body: body as string, headers })

  it("S2 refuses long YAML, and takes the same as JSON", async () => {
    const definition = {
      name: "long",
      nodes: Array.from({ length: 400 }, (_, i) => ({
        id: `n${i}`,
        handler: "transform",
        config: { value: i },
      })),
    }
    const text = JSON.stringify(definition)
    expect(text.length).toBeGreaterThan(8192)
    for (const type of ["application/yaml", "text/yaml"])
      expect(await post("/workflows/validate", text, { "content-type": type })).toMatchObject({
        status: 413,
        body: { code: "E635", detail: expect.stringMatching(/^YAML of more than 8192 bytes .* Send JSON/) },
      })
    expect(await post("/workflows/validate", text, { "content-type": "application/json" })).toMatchObject({
      status: 200,
      body: { nodes: 400 },
    })
  })

  it("S2 lists a hundred problems of a workflow or an input, and counts the others", async () => {
    const nodes = Array.from({ length: 5000 }, (_, i) => ({ id: `n${i}`, handler: "nothing" }))
    const { status, body } = await post("/workflows/validate", { name: "wrong", nodes })
    expect([status, body.detail]).toEqual([422, "The workflow has 5000 problems."])
    expect([body.errors.length, body.more_errors]).toEqual([100, 4900])
    const input = { properties: { a: { items: { type: "string" } } } }
    const typed = { name: "typed", input, nodes: [{ id: "a", handler: "transform", config: { value: 1 } }] }
    await post("/workflows", typed)
    const job = { workflow: "typed", input: { a: Array(3000).fill(1) } }
    const refused = await post("/jobs", job)
    expect([refused.status, refused.body.code]).toEqual([422, "E304"])
    expect([refused.body.errors.length, refused.body.more_errors]).toEqual([100, 2900])
    expect(refused.body.detail.length).toBeLessThan(20_000)
    const bulk = await post("/jobs/bulk", { jobs: [job] })
    expect(bulk.body.results[0].problem).toMatchObject({ code: "E304", more_errors: 2900 })
    const wrong = { workflow: "typed", input: { a: Array(100).fill(1) } }
    const many = await post("/jobs/bulk", { jobs: Array(100).fill(wrong) })
    const problems = many.body.results.map(({ problem }: { problem: { errors: object[] } }) => problem)
    expect(problems.every(({ errors }: { errors: object[] }) => errors.length > 0)).toBe(true)
    expect(problems.flatMap(({ errors }: { errors: object[] }) => errors).length).toBeLessThan(1200)
    expect(problems.at(-1)).toMatchObject({ code: "E304", more_errors: 99 })
  })
})
