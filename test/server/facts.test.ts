/** The journal of a job over HTTP: its facts in pages and as a stream, their payloads, and the graph at a past moment. */
import { createHash } from "node:crypto"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { apply, graphView, newState } from "../../src/core/index.ts"
import { isoGraphAt } from "../../src/jobs/iso-times.ts"
import { openStage, type Stage, type Store, stores } from "./stage.ts"

const text = "ä".repeat(3000)
const flow = {
  name: "flow",
  nodes: [
    { id: "small", handler: "transform", config: { value: "{{ input.n }}" } },
    {
      id: "large",
      handler: "transform",
      config: { value: { text: "{{ input.text }}", list: [1, { a: "b" }] } },
    },
    { id: "each", handler: "transform", for_each: "{{ input.list }}", config: { value: "{{ item }}" } },
    { id: "ask", handler: "approval", dependencies: ["small", "large", "each"] },
  ],
}
const input = { n: 7, text, list: Array.from({ length: 400 }, (_, n) => n) }

describe.each(Object.entries(stores))("the facts of a job on %s", (_, open) => {
  let store: Store
  let stage: Stage
  let job: string
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects.
  let all: any[]
  const get = async (path: string, headers = {}) => stage.ask(`/jobs/${job}${path}`, { headers })

  beforeAll(async () => {
    store = await open()
    stage = await openStage({ location: store.location })
    await stage.umbra.register(flow as never)
    job = (await stage.umbra.submit("flow", input)).id
    await stage.umbra.signal(job, "approved", { by: "Ada" })
    await stage.umbra.wait(job)
    all = (await get("/facts?limit=1000")).body.facts
  })
  afterAll(async () => {
    await stage?.close()
    await store?.remove()
  })

  it("come oldest first, numbered from 1, large payloads by reference", async () => {
    expect(all.length).toBeGreaterThan(400)
    expect(all.map(({ index }) => index)).toEqual(all.map((_, i) => i + 1))
    expect(all.map(({ seq }) => seq)).toEqual(all.map(({ seq }) => seq).toSorted((a, b) => a - b))
    expect(all[0]).toMatchObject({ type: "job_submitted", workflow: "flow" })
    const json = JSON.stringify(input)
    expect(all[0].input).toEqual({
      $payload: {
        seq: all[0].seq,
        field: "input",
        bytes: Buffer.byteLength(json),
        hash: createHash("sha256").update(json).digest("hex"),
        preview: json.slice(0, 200),
      },
    })
    const done = all.filter(({ type, node }) => type === "node_completed" && node === 0)
    expect(done).toMatchObject([{ output: 7 }])
  })

  it.each([7, 100])("pages of %i, put together, are the whole, and full pages never change", async limit => {
    const found = []
    for (let after = ""; ; ) {
      const { body, headers } = await get(`/facts?limit=${limit}${after}`)
      found.push(...body.facts)
      if (body.next === null) {
        expect(headers.get("cache-control")).toBe("no-store")
        break
      }
      expect(body.facts).toHaveLength(limit)
      expect(headers.get("cache-control")).toContain("immutable")
      const etag = headers.get("etag")!
      expect(etag).toContain(`${body.facts[0].seq}-${body.facts.at(-1).seq}`)
      after = `&after=${body.next}`
    }
    expect(found).toEqual(all)
  })

  it("a full page that the client has is answered with 304; the last page is not kept", async () => {
    const first = await get("/facts?limit=10")
    const etag = first.headers.get("etag")!
    const again = await get("/facts?limit=10", { "if-none-match": etag })
    expect([again.status, again.body]).toEqual([304, ""])
    const last = await get(`/facts?after=${all.at(-2).seq}`)
    expect(last.headers.get("etag")).toBeNull()
    expect(last.body).toEqual({ facts: [all.at(-1)], next: null })
  })

  it("a payload is the stored JSON, whole or the part at a path", async () => {
    const { seq } = all.find(({ type, node }) => type === "node_completed" && node === 1)
    const whole = await get(`/payloads/${seq}/output`)
    expect(whole.body).toEqual({ text, list: [1, { a: "b" }] })
    expect(whole.headers.get("cache-control")).toContain("immutable")
    const { hash } = all.find(fact => fact.seq === seq).output.$payload
    expect(whole.headers.get("etag")).toBe(`"${hash}"`)
    expect((await get(`/payloads/${seq}/output`, { "if-none-match": `"${hash}"` })).status).toBe(304)
    const part = async (path: string) => get(`/payloads/${seq}/output?path=${encodeURIComponent(path)}`)
    expect((await part("$.list[1].a")).body).toBe("b")
    expect((await part('$["list"][0]')).body).toBe(1)
    expect((await part("$")).body).toEqual(whole.body)
    expect((await part("$.list[2]")).body).toMatchObject({ code: "E313" })
    expect((await part("list")).body).toMatchObject({ code: "E633" })
    expect((await part("$..a")).body).toMatchObject({ code: "E633" })
  })

  it("what is no payload is not found", async () => {
    const { seq } = all[0]
    for (const path of [
      `${seq}/output`,
      `${seq}/owner`,
      `${seq}/__proto__`,
      `${seq + 10_000_000}/input`,
      "0/input",
    ])
      expect((await get(`/payloads/${path}`)).body, path).toMatchObject({ code: "E313", status: 404 })
    expect((await get("/payloads/x/input")).status).toBe(400)
  })

  it("the graph at a moment is the fold of the facts up to it, in the client too", async () => {
    const { version } = (await stage.ask("/workflows/flow")).body
    const compiled = await stage.ask(`/workflows/flow/versions/${version}/graph`)
    expect(compiled.headers.get("cache-control")).toContain("immutable")
    const state = newState(compiled.body)
    for (const [i, fact] of all.entries()) {
      apply(state, fact)
      if (i > 5 && i < all.length - 5 && i % 37 > 0) continue
      const view = graphView(state, { now: fact.at })
      const place = { seq: fact.seq, index: fact.index, at: fact.at }
      const expected = JSON.parse(JSON.stringify(isoGraphAt({ ...view, moment: place } as never)))
      expect((await get(`/graph?at=${fact.seq}`)).body).toEqual(expected)
      expect((await get(`/graph?at=%23${fact.index}`)).body).toEqual(expected)
    }
    expect(state.unknownFacts).toBe(0)
    expect(state.status).toBe("COMPLETED")
  })

  it("items at a moment are those of that moment, with their values wherever these are stored", async () => {
    const pad = "p".repeat(300)
    const list = Array.from({ length: 12 }, (_, n) => ({ n, pad }))
    const each = (id: string, over: string) => {
      return { id, handler: "transform", for_each: over, config: { value: "{{ item }}" } }
    }
    await stage.umbra.register({
      name: "lists",
      nodes: [
        { id: "made", handler: "transform", config: { value: "{{ input.list }}" } },
        each("of_input", "{{ input.list }}"),
        each("of_node", "{{ made }}"),
        each("of_items", "{{ of_node }}"),
        each("computed", "{{ (of_items | list) + [1] }}"),
        { id: "end", handler: "transform", dependencies: ["computed"], config: { value: "{{ 1 / 0 }}" } },
      ],
    } as never)
    const origin = await stage.umbra.submit("lists", { list })
    await origin.wait()
    const overrides = { made: { output: list.toReversed() }, end: { config: { value: 1 } } }
    const forks = [
      await stage.umbra.fork(origin.id, { overrides: { end: overrides.end } }),
      await stage.umbra.fork(origin.id, { overrides }),
    ]
    for (const fork of forks) await fork.wait()
    for (const { id } of [origin, ...forks])
      for (const node of ["of_input", "of_node", "of_items", "computed"]) {
        const items = `/jobs/${id}/nodes/${node}/items?limit=5`
        for (const after of [-1, 4, 9]) {
          const now = (await stage.ask(`${items}&after=${after}`)).body
          const { moment, ...past } = (await stage.ask(`${items}&after=${after}&at=999999999999999`)).body
          expect(past).toEqual(now)
          expect(moment.index).toBeGreaterThan(0)
          expect(now.items[0].item).not.toBeNull()
        }
      }
    const items = `/jobs/${origin.id}/nodes/of_input/items`
    expect((await stage.ask(`${items}?at=%231`)).body).toMatchObject({ items: [], next: null })
    expect((await stage.ask(`${items}?at=%23999`)).body.code).toBe("E313")
    expect((await stage.ask(`/jobs/${origin.id}/nodes/zzz/items?at=%231`)).body.code).toBe("E310")
  })

  it("a time means the longest prefix whose facts were all decided by then", async () => {
    for (const fact of [all[0], all[200], all.at(-1)]) {
      const { body } = await get(`/graph?at=${new Date(fact.at).toISOString()}`)
      const later = all.findIndex(({ at }) => at > fact.at)
      expect(body.moment.index).toBe(later === -1 ? all.length : later)
      expect(body.live).toBeUndefined()
    }
  })

  it("a moment that the job does not have is not found, and what is none is refused", async () => {
    const before = new Date(all[0].at - 1).toISOString()
    for (const at of [before, "0", `%23${all.length + 1}`])
      expect((await get(`/graph?at=${at}`)).body, at).toMatchObject({ code: "E313" })
    for (const at of [
      "x",
      "",
      "%230",
      "2026-11-15",
      "-1",
      "1.5",
      "2026-11-15T12:00:00",
      "2026-02-30T12:00:00Z",
    ])
      expect((await get(`/graph?at=${at}`)).body, at).toMatchObject({ code: "E633" })
    const { detail } = (await get("/facts?follow=yes")).body
    expect(detail).toBe('The parameter follow must be true, or have no value; it is "yes".')
  })
})
