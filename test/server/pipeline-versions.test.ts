import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { openStage, type Stage } from "./stage.ts"

const json = { "content-type": "application/json" }

describe("definitions of pipelines through the API", () => {
  let stage: Stage
  const ask: Stage["ask"] = (path, asked) => stage.ask(path, asked)
  const post = (path: string, body?: unknown, headers = {}) => ask(path, { method: "POST", body, headers })
  const push = (definition: unknown) => post("/workflows", JSON.stringify(definition), json)

  beforeAll(async () => {
    stage = await openStage({ location: "memory:" })
  })
  afterAll(async () => {
    await stage?.close()
  })

  it("P1 checks, stores and compares pipelines", async () => {
    const route = (name: string, more = {}) => ({
      name,
      inbound: name,
      adapters: [{ type: "transform", config: { value: 1 } }],
      ...more,
    })
    const first = { name: "pipe", routes: [route("a", { outbound: "b" }), route("b")] }
    expect(await post("/workflows/validate", JSON.stringify(first), json)).toMatchObject({
      status: 200,
      body: { valid: true, name: "pipe", nodes: 0, routes: 2 },
    })
    const wrong = await post("/workflows/validate", JSON.stringify({ ...first, max_hops: 3 }), json)
    expect(wrong).toMatchObject({ status: 422, body: { errors: [{ code: "E101", path: "max_hops" }] } })
    expect(await push(first)).toMatchObject({ status: 201, body: { version: 1 } })
    await push({
      name: "pipe",
      max_hops: 3,
      routes: [route("a", { outbound: "c", concurrency: 2 }), route("c", { outbound: "a" })],
    })
    await push({ name: "pipe", nodes: [{ id: "n", handler: "transform", config: { value: 1 } }] })
    const none = { added: [], removed: [], changed: [] }
    const diff = async (from: number, to: number) => {
      const { body } = await ask(`/workflows/pipe/diff?from=${from}&to=${to}`)
      const of = (what: string) => ({
        added: body[`${what}_added`],
        removed: body[`${what}_removed`],
        changed: body[`${what}_changed`],
      })
      return { nodes: of("nodes"), routes: of("routes"), keys: body.keys_changed }
    }
    expect(await diff(1, 2)).toEqual({
      nodes: none,
      routes: { added: ["c"], removed: ["b"], changed: [{ name: "a", keys: ["concurrency", "outbound"] }] },
      keys: ["max_hops"],
    })
    expect(await diff(2, 3)).toEqual({
      nodes: { ...none, added: ["n"] },
      routes: { ...none, removed: ["a", "c"] },
      keys: ["max_hops"],
    })
  })
})
