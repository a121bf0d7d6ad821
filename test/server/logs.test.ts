/** The log of a job over HTTP: what handlers logged, with what the engine did with their nodes. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest"
import { connect } from "../../src/client/index.ts"
import type { Json } from "../../src/core/json.ts"
import type { UmbraOptions } from "../../src/umbra.ts"
import { fail } from "../../src/worker/fail.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { EventStream } from "./event-stream.ts"
import { openStage, type Stage, type Store, stores } from "./stage.ts"

let release: () => void = () => {}
let printLater: (text: string) => void = () => {}

const handlers = [
  defineHandler({
    name: "talks",
    async run(config, ctx) {
      const { lines = 3, waits } = config as { lines?: number; waits?: boolean }
      for (let n = 1; n <= lines; n++) ctx.log.info({ n }, `line ${n}`)
      ctx.log.warn({ odd: 10n, error: new RangeError("too far") }, "two\nlines\u0000")
      console.error("printed %d", 7)
      await new Promise<void>(resolve => {
        if (waits) release = resolve
        else setImmediate(resolve)
      })
      ctx.log.debug({}, "done")
      return null
    },
  }),
  defineHandler({
    name: "second_time",
    run(_, ctx) {
      ctx.log.error({}, `attempt ${ctx.attempt}`)
      if (ctx.attempt === 1) fail("not yet", { code: "NOT_YET", retryable: true })
      return null
    },
  }),
  defineHandler({ name: "silent", run: () => null }),
  /** A module whose queue works in the context of the attempt that has started it. */
  defineHandler({
    name: "queues",
    run: () => {
      console.log("queued")
      const work = new Promise<string>(resolve => {
        printLater = resolve
      })
      work.then(text => console.log(text))
      return null
    },
  }),
  defineHandler({
    name: "leaks",
    run: (config, ctx) => {
      const { key } = config as { key: string }
      ctx.log.info({ key, inside: { url: `https://x/?k=${key}` } }, `the key is ${key}`)
      console.log("key", { key })
      throw new Error(`refused ${key}`)
    },
  }),
]

const flow = (name: string, nodes: readonly object[]) => ({ name, nodes }) as never
const umbra: UmbraOptions = {
  handlers,
  capturesConsole: true,
  worker: { maxLogLines: 2000 },
  engine: { retryInitialSeconds: 0.01, retryJitter: 0 },
}

// Once, before the first attempt replaces the methods: handlers print while this file runs.
const printed = [vi.spyOn(console, "error"), vi.spyOn(console, "log")].map(spy =>
  spy.mockImplementation(() => {}),
)
afterAll(() => {
  for (const spy of printed) spy.mockRestore()
})

// biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects.
type Line = any

describe.each(Object.entries(stores))("the log of a job on %s", (_, open) => {
  let store: Store
  let stage: Stage

  beforeAll(async () => {
    store = await open()
    stage = await openStage({ location: store.location, umbra })
  })
  afterAll(async () => {
    await stage?.close()
    await store?.remove()
  })

  const page = async (job: string, query = "") =>
    (await stage.ask(`/jobs/${job}/logs?limit=1000${query}`)).body
  const lines = async (job: string, query = ""): Promise<Line[]> => (await page(job, query)).lines
  const messages = (found: readonly Line[]) => found.map(({ message }) => message)
  const run = async (name: string, nodes: readonly object[], input: Json = {}) => {
    await stage.umbra.register(flow(name, nodes))
    const { id } = await stage.umbra.submit(name, input)
    await stage.umbra.wait(id)
    return id
  }
  /** Lines are stored behind the facts. */
  const stored = (job: string, message: string) =>
    expect.poll(async () => messages(await lines(job))).toContainEqual(expect.stringContaining(message))

  it("has time, level, message and fields, with what the engine did around them; messages stay whole", async () => {
    const job = await run("talk", [{ id: "a", handler: "talks" }])
    await stored(job, "done")
    const found = await lines(job)
    expect(found.map(({ source, level, message, line }) => [source, level, message, line])).toEqual([
      ["engine", "info", "dispatched", undefined],
      ["engine", "info", expect.stringMatching(/^started on /), undefined],
      ["handler", "info", "line 1", 1],
      ["handler", "info", "line 2", 2],
      ["handler", "info", "line 3", 3],
      ["handler", "warn", "two\nlines\u0000", 4],
      ["handler", "error", "printed 7", 5],
      ["handler", "debug", "done", 6],
      ["engine", "info", expect.stringMatching(/^completed after \d+ ms$/), undefined],
    ])
    expect(found[2]).toMatchObject({ node: "a", attempt: 1, fields: { n: 1 } })
    expect(found[5].fields).toMatchObject({ odd: "10", error: { type: "RangeError", message: "too far" } })
    // The engine computes the start from the duration of the run, so it may be shown later than the first line of the handler.
    for (const from of ["engine", "handler"]) {
      const times = found.filter(({ source }) => source === from).map(({ at }) => at)
      expect(times).toEqual(times.toSorted())
    }
    expect(messages(await lines(job, "&level=warn"))).toEqual(["two\nlines\u0000", "printed 7"])
  })

  it("is the same in pages of any size, and after any line", async () => {
    const nodes = ["a", "b", "c"].map(id => ({ id, handler: "talks", config: { lines: 40 } }))
    const job = await run("pages", nodes)
    await expect
      .poll(async () => (await lines(job)).filter(({ message }) => message === "done").length)
      .toBe(3)
    const whole = await lines(job)
    for (const limit of [1, 7]) {
      const read: Line[] = []
      for (let after = ""; ; ) {
        const { body } = await stage.ask(`/jobs/${job}/logs?limit=${limit}${after}`)
        read.push(...body.lines)
        if (body.next === null) break
        after = `&after=${body.next}`
      }
      expect(read).toEqual(whole)
    }
    for (const at of [0, 17, whole.length - 2])
      expect(await lines(job, `&after=${whole[at].id}`)).toEqual(whole.slice(at + 1))
    const ofB = await lines(job, "&node=b")
    expect(messages(ofB).toSorted()).toEqual(messages(whole.filter(({ node }) => node === "b")).toSorted())
  })

  it("has the lines of every attempt between its start and its end, although attempts run in parallel", async () => {
    const each = { id: "each", handler: "talks", config: { lines: 11 }, for_each: "{{ input.list }}" }
    const nodes = ["a", "b", "c"].map(id => ({ id, handler: "talks", config: { lines: 900 } }))
    const job = await run("parallel", [...nodes, each], { list: [1, 2, 3, 4, 5] })
    const all = async () => {
      const found: Line[] = []
      for (let after = ""; ; ) {
        const { body } = await stage.ask(`/jobs/${job}/logs?limit=300${after}`)
        found.push(...body.lines)
        if (body.next === null) return found
        after = `&after=${body.next}`
      }
    }
    await expect.poll(async () => messages(await all()).filter(text => text === "done").length).toBe(8)
    const found = await all()
    for (const [node, item, count] of [
      ...["a", "b", "c"].map(id => [id, undefined, 903] as const),
      ...[0, 1, 2, 3, 4].map(item => ["each", item, 14] as const),
    ]) {
      const own = found.filter(line => line.node === node && line.item === item)
      expect(messages(own).slice(0, 2)).toEqual(["dispatched", expect.stringMatching(/^started on /)])
      expect(own.slice(2, -1).map(({ line }) => line)).toEqual(Array.from({ length: count }, (_, n) => n + 1))
      expect(own.at(-1).message).toMatch(/^completed after/)
      const query = `&node=${node}${item === undefined ? "" : `&item=${item}`}`
      if (item !== undefined) expect(messages(await lines(job, query))).toEqual(messages(own))
    }
  })

  it("shows when an attempt began, not when that was stored", async () => {
    await stage.umbra.register(flow("begins", [{ id: "a", handler: "talks", config: { waits: true } }]))
    const { id } = await stage.umbra.submit("begins", {})
    const started = async () =>
      (await lines(id, "&source=engine")).find(({ message }) => message.startsWith("started"))
    await expect.poll(started).toBeDefined()
    release()
    await stage.umbra.wait(id)
    const { body } = await stage.ask(`/jobs/${id}/events`)
    const running = body.events.find(({ type }: { type: string }) => type === "node.running")
    const { at } = await started()
    expect(at).toBe(running.payload.started_at)
    // It is stored a second later.
    expect(Date.parse(running.at) - Date.parse(at)).toBeGreaterThan(500)
  })

  it("is read backwards from its end or any line in pages of any size, with the same lines and ids", async () => {
    const job = await run("back", [{ id: "a", handler: "talks", config: { lines: 700 } }])
    await stored(job, "done")
    const whole = await lines(job, "&source=handler")
    expect(whole).toHaveLength(703)
    expect(await lines(job, "&source=engine")).toHaveLength(3)
    for (const [limit, more] of [
      [1000, ""],
      [7, ""],
      [2, "&level=warn"],
      [300, "&node=a&attempt=1"],
    ] as const) {
      const read: Line[] = []
      for (let before: string | null = "end"; before !== null; ) {
        const { body } = await stage.ask(`/jobs/${job}/logs?limit=${limit}&before=${before}${more}`)
        expect(body.lines.length).toBeLessThanOrEqual(limit)
        read.unshift(...body.lines)
        before = body.next
      }
      const isWarning = ({ level }: Line) => level === "warn" || level === "error"
      expect(read).toEqual(more === "&level=warn" ? whole.filter(isWarning) : whole)
    }
    for (const at of [1, 350, 702]) {
      const { body } = await stage.ask(`/jobs/${job}/logs?limit=100&before=${whole[at].id}`)
      expect(body.lines).toEqual(whole.slice(Math.max(0, at - 100), at))
      // What follows the last of them begins with the line itself.
      expect((await lines(job, `&source=handler&after=${body.lines.at(-1).id}`))[0]).toEqual(whole[at])
    }
    expect(await page(job, `&before=${whole[0].id}`)).toEqual({ lines: [], next: null })
  })

  it("is cut at a time, in both directions", async () => {
    await stage.umbra.register(flow("times", [{ id: "a", handler: "talks", config: { waits: true } }]))
    const { id } = await stage.umbra.submit("times", {})
    await stored(id, "printed 7")
    const until = (await lines(id)).at(-1).at
    // The clock of the machine moves on before the last line is written.
    await expect.poll(() => Date.now()).toBeGreaterThan(Date.parse(until))
    release()
    await stage.umbra.wait(id)
    await stored(id, "done")
    const whole = await lines(id)
    const kept = whole.filter(({ at }: Line) => at <= until)
    // The start is computed when the attempt has ended: on a busy machine it may be shown as late as the end.
    const later = whole.filter(({ at, message }: Line) => at > until && !message.startsWith("started"))
    expect(messages(later)).toEqual(["done", expect.stringMatching(/^completed/)])
    expect(messages(await lines(id, `&until=${until}`))).toEqual(messages(kept))
    expect(messages(await lines(id, `&until=${until}&before=end`))).toEqual(
      messages(kept.filter(({ source }: Line) => source === "handler")),
    )
  })

  it("is distinguished by attempt and item, and says why an attempt was repeated", async () => {
    const each = { id: "each", handler: "second_time", for_each: "{{ input.list }}" }
    const job = await run("twice", [{ id: "one", handler: "second_time" }, each], { list: [1, 2] })
    await expect.poll(async () => (await lines(job, "&level=error")).length).toBe(6)
    const one = await lines(job, "&node=one")
    expect(messages(one.filter(({ level }) => level !== "info" && level !== "debug"))).toEqual([
      "attempt 1",
      expect.stringMatching(/^failed after \d+ ms: NOT_YET not yet; retried at /),
      "attempt 2",
    ])
    expect(messages(await lines(job, "&node=one&attempt=2&level=error"))).toEqual(["attempt 2"])
    const item = await lines(job, "&node=each&item=1&level=error")
    expect(item.map(({ item, attempt, message }) => [item, attempt, message])).toEqual([
      [1, 1, "attempt 1"],
      [1, 2, "attempt 2"],
    ])
    for (const query of ["node=nobody", "node=nobody&follow", "node=nobody&before=end"]) {
      const { status, body } = await stage.ask(`/jobs/${job}/logs?${query}`)
      expect([status, body.code]).toEqual([404, "E310"])
    }
  })

  it("keeps at most so many lines of an attempt, and says how many it dropped", async () => {
    const job = await run("much", [{ id: "a", handler: "talks", config: { lines: 2100 } }])
    const dropped = async () => (await lines(job, "&level=warn")).length
    await expect.poll(dropped).toBe(1)
    const found: Line[] = []
    for (let after: string | null = ""; after !== null; ) {
      const { body } = await stage.ask(`/jobs/${job}/logs?limit=1000${after && `&after=${after}`}`)
      found.push(...body.lines.filter((line: Line) => line.source === "handler"))
      after = body.next
    }
    expect(found).toHaveLength(2001)
    expect(messages(found.slice(0, 2000))).toEqual(Array.from({ length: 2000 }, (_, n) => `line ${n + 1}`))
    expect(found[2000]).toMatchObject({ level: "warn", line: 2001 })
    expect(found[2000].message).toMatch(
      /^103 lines \(\d+ bytes\) were dropped: an attempt keeps at most 2000 lines/,
    )
    expect(found.some(({ lost }) => lost !== undefined)).toBe(false)
  })

  it("has no secret, whatever the handler wrote", async () => {
    vi.stubEnv("UMBRA_SECRET_LOG_KEY", "tea-and-coffee-4711")
    onTestFinished(() => void vi.unstubAllEnvs())
    const node = {
      id: "a",
      handler: "leaks",
      config: { key: "{{ secrets.LOG_KEY }}" },
      retry: { max_attempts: 1 },
    }
    const job = await run("leak", [node])
    await stored(job, "the handler threw")
    const { body } = await stage.ask(`/jobs/${job}/logs`)
    expect(messages(body.lines)).toContain("the key is [secret LOG_KEY]")
    expect(JSON.stringify(body)).toContain("key { key: '[secret LOG_KEY]' }")
    expect(JSON.stringify(body)).not.toContain("tea-and-coffee")
  })

  it("has nothing that was printed in the context of its attempts after these have ended", async () => {
    const job = await run("queue", [{ id: "a", handler: "queues" }])
    printLater("about another owner's job")
    const next = await run("after", [{ id: "a", handler: "talks" }])
    await stored(next, "done")
    await stored(job, "queued")
    expect(JSON.stringify(await lines(job))).not.toContain("another owner")
  })

  it("of handlers that log nothing takes no row", async () => {
    const job = await run("quiet", [{ id: "a", handler: "silent" }])
    expect((await lines(job)).map(({ source }) => source)).toEqual(["engine", "engine", "engine"])
  })

  it("is followed live, and resumed after any line, until the job has ended", async () => {
    // The job ends after the last line has come: lines that are stored late are not waited for forever.
    await stage.umbra.register(
      flow("live", [
        { id: "a", handler: "talks", config: { waits: true } },
        { id: "end", handler: "wait_for_signal", config: { signal: "end" }, dependencies: ["a"] },
      ]),
    )
    const { id } = await stage.umbra.submit("live", {})
    const stream = new EventStream(stage.server.url, `/jobs/${id}/logs?follow=true`)
    await stream.until(() => stream.events.some(({ data }) => data.message === "printed 7"))
    const [, second] = stream.events
    release()
    await stream.until(() => stream.events.some(({ data }) => data.message === "done"))
    await stage.umbra.signal(id, "end", {})
    await stream.ended()
    expect(stream.events.at(-1)!.data).toEqual({ reason: "job_ended" })
    const sent = stream.events.filter(({ event }) => event === "line")
    expect(sent.map(({ id, data }) => [id, data])).toEqual(sent.map(({ data }) => [data.id, data]))
    // A first line that came before the start was stored has a start without the worker before it.
    const known = (found: readonly Line[]) =>
      messages(found).map(text => text.replace(/^started on \S+$/, "started"))
    const live = sent.map(({ data }) => data)
    expect(known(live).toSorted()).toEqual(known(await lines(id)).toSorted())
    const ofA = known(live.filter(({ node }) => node === "a"))
    expect(ofA.slice(0, 3)).toEqual(["dispatched", "started", "line 1"])
    expect(ofA.slice(-2)).toEqual(["done", expect.stringMatching(/^completed/)])
    const lastEventId = second!.id
    const resumed = new EventStream(stage.server.url, `/jobs/${id}/logs?follow`, { lastEventId })
    await resumed.ended()
    const rest = await lines(id, `&after=${lastEventId}`)
    expect(resumed.events.slice(0, -1).map(({ data }) => data)).toEqual(rest)
  })

  it("is read by the client", async () => {
    const job = await run("client", [{ id: "a", handler: "talks" }])
    await stored(job, "done")
    const client = connect({ url: stage.server.url })
    const all: string[] = []
    for await (const { message } of client.logs.list(job, { limit: 2 })) all.push(message)
    expect(all).toEqual(messages(await lines(job)))
    const followed: unknown[] = []
    for await (const event of client.logs.follow(job, { node: "a", level: "warn" })) followed.push(event.data)
    expect(followed).toEqual([...(await lines(job, "&node=a&level=warn")), { reason: "job_ended" }])
  })

  it("refuses what is no position, and filters that need a node", async () => {
    const job = await run("wrong", [{ id: "a", handler: "silent" }])
    for (const query of [
      "after=1",
      "after=x.1.2.3",
      "item=1",
      "attempt=1",
      "level=loud",
      "limit=0",
      "limit=1001",
      "before=1",
      "before=end&after=0.0.1.1",
      "before=end&follow",
      "last_event_id=0.0.1.1",
      "before=end&source=engine",
      "source=provider",
      "until=1700000000000",
    ])
      expect((await stage.ask(`/jobs/${job}/logs?${query}`)).body.code).toBe("E633")
    expect((await stage.ask("/jobs/0198c0de-7a11-7012-9abc-0123456789ab/logs")).status).toBe(404)
  })
})
