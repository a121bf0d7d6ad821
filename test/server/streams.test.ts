/** S4: live streams through real HTTP, the same on both databases. What is streamed is compared with the journal. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { defineHandler } from "../../src/worker/handler.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { EventStream, type StreamOptions } from "./event-stream.ts"
import { openStage, type Stage, type StageOptions, type Store, stores } from "./stage.ts"

const once = { retry: { max_attempts: 1 } }
const workflows = [
  { name: "one", nodes: [{ id: "n", handler: "transform", config: { value: 1 } }] },
  {
    name: "diamond",
    nodes: [
      { id: "a", handler: "transform", config: { value: 1 } },
      { id: "b", handler: "transform", config: { value: 2 }, dependencies: ["a"] },
      { id: "c", handler: "sleep", config: { seconds: 0.02 }, dependencies: ["a"] },
      { id: "d", handler: "output", dependencies: ["b", "c"] },
    ],
  },
  {
    name: "broken",
    nodes: [
      { id: "x", handler: "broken", ...once },
      { id: "y", handler: "transform", config: { value: 1 }, dependencies: ["x"] },
    ],
  },
  {
    name: "stubborn",
    nodes: [{ id: "s", handler: "broken", retry: { max_attempts: 2, initial_seconds: 0.01 } }],
  },
  { name: "approval", nodes: [{ id: "ask", handler: "approval" }] },
  { name: "talker", nodes: [{ id: "t", handler: "talker" }] },
  {
    name: "paint",
    nodes: [
      { id: "small", handler: "painter", config: { strokes: 3 } },
      { id: "large", handler: "painter", config: { strokes: 20_000 }, dependencies: ["small"] },
    ],
  },
  { name: "choir", nodes: ["a", "b", "c"].map(id => ({ id, handler: "singer" })) },
]

let hush: () => void = () => {}
const singers: (() => void)[] = []
const painters: (() => void)[] = []
const handlers = [
  defineHandler({ name: "approval", run: () => waitForSignal("approved") }),
  defineHandler({
    name: "broken",
    run: () => {
      throw new Error("this handler always fails")
    },
  }),
  defineHandler({
    name: "talker",
    run: async (_, { progress }) => {
      progress(40, "nearly half")
      await new Promise<void>(resolve => {
        hush = resolve
      })
      return 1
    },
  }),
  defineHandler({
    name: "painter",
    run: async (config, { preview, nodeId }) => {
      const picture = { by: nodeId, strokes: "x".repeat((config as { strokes: number }).strokes) }
      preview(picture)
      // Again and again: the start of the node, recorded after a second, ends the state PREVIEW.
      const again = setInterval(() => preview(picture), 100)
      await new Promise<void>(resolve => painters.push(resolve))
      clearInterval(again)
    },
  }),
  defineHandler({
    name: "singer",
    run: async (_, { progress, nodeId }) => {
      await new Promise<void>(resolve => singers.push(resolve))
      progress(10, `${nodeId} sings`)
      await new Promise<void>(resolve => singers.push(resolve))
    },
  }),
]

describe.each(Object.entries(stores))("live streams on %s", (_, open) => {
  let store: Store
  let stage: Stage
  const post = (path: string, body?: unknown) => stage.ask(path, { method: "POST", body })
  const submit = async (workflow: string) => (await post("/jobs", { workflow })).body.job_id as string
  const listen = (path: string, options: StreamOptions = {}) => {
    const stream = new EventStream(stage.server.url, path, options)
    onTestFinished(() => stream.cut())
    return stream
  }
  const started = async (path: string, options: StreamOptions = {}) => {
    const stream = listen(path, options)
    await stream.until(() => stream.status === 200, "an answer")
    return stream
  }
  /** What the journal says happened to the job, as a stream tells it. */
  const story = async (job: string) =>
    (await stage.ask(`/jobs/${job}/events`)).body.events
      .filter(({ type }: { type: string }) => type.startsWith("job."))
      .map(({ to, at }: { to: string; at: string }) => `${to} ${at}`)
  const eventsOf = (stream: EventStream, job: string) =>
    stream
      .of("job")
      .filter(({ data }) => data.job_id === job)
      .map(({ data }) => `${data.status} ${data.updated_at}`)
  const hasEnded = (stream: EventStream, job: string) =>
    stream.of("job").some(({ data }) => data.job_id === job && data.finished_at !== null)

  beforeAll(async () => {
    store = await open()
    stage = await openStage({ location: store.location, umbra: { handlers }, settings: { maxStreams: 200 } })
    for (const workflow of workflows) expect((await post("/workflows", workflow)).status).toBe(201)
  })
  afterAll(async () => {
    await stage?.close()
    await store?.remove()
  })

  it("J15 the job and its streams show a preview with its node", async () => {
    const job = await submit("paint")
    const streams = [await started(`/jobs/${job}/stream`), await started("/jobs/stream")]
    const preview = { by: "small", strokes: "xxx" }
    await expect
      .poll(async () => (await stage.ask(`/jobs/${job}`)).body)
      .toMatchObject({ status: "PREVIEW", previews: [{ node: "small", preview }] })
    await expect
      .poll(async () => (await stage.umbra.queries.job(job)).previews)
      .toEqual([{ node: "small", preview }])
    const { jobs } = (await stage.ask("/jobs?limit=1")).body
    expect(jobs[0].previews).toBeUndefined()
    await expect
      .poll(async () => {
        const joined = await started(`/jobs/${job}/stream`)
        await joined.until(() => joined.of("snapshot").length > 0, "a snapshot")
        return joined.of("snapshot")[0]!.data.job.previews
      })
      .toEqual([{ node: "small", data: preview }])
    painters.shift()!()
    await expect.poll(() => painters.length).toBe(1)
    await expect
      .poll(async () => (await stage.ask(`/jobs/${job}`)).body.previews)
      .toMatchObject([{ node: "large", preview: { by: "large" } }])
    painters.shift()!()
    const previews = (stream: EventStream) =>
      stream.of("job").flatMap(({ data }) => (data.job_id === job && data.preview ? [data.preview] : []))
    const late = await started(`/jobs/${job}/stream`)
    for (const stream of streams) {
      await stream.until(() => hasEnded(stream, job), "the end")
      // What was published before the stream began is in its snapshot's state alone.
      expect(previews(stream).at(-1)).toEqual({ node: "large", data_left_out: true })
    }
    await late.until(() => late.isClosed || late.of("end").length > 0, "the end")
    const { events } = (await stage.ask(`/jobs/${job}/events`)).body
    const first = events.find(({ type }: { type: string }) => type === "job.preview")
    expect(first.payload).toEqual({ node: "small", data: preview })
    expect((await stage.ask(`/jobs/${job}`)).body.previews).toBeUndefined()
  })

  it("S4 every change of many jobs at once comes exactly once and in order, on both kinds of stream", async () => {
    const all = await started("/jobs/stream")
    await all.until(() => all.events.length > 0)
    expect(all.events[0]).toMatchObject({ event: "snapshot", id: expect.any(String) })
    const names = ["one", "diamond", "broken", "stubborn"]
    const jobs = await Promise.all(Array.from({ length: 60 }, (_, n) => submit(names[n % names.length]!)))
    const each = jobs.map(job => ({ job, stream: listen(`/jobs/${job}/stream`) }))
    await Promise.all(each.map(({ stream }) => stream.ended()))
    await all.until(() => jobs.every(job => hasEnded(all, job)), "all ends")
    for (const { job, stream } of each) {
      expect(eventsOf(all, job), job).toEqual(await story(job))
      expect(stream.events.at(-1)).toEqual({ event: "end", id: null, data: { reason: "job_ended" } })
      const { events } = (await stage.ask(`/jobs/${job}/events`)).body
      const seen = Number(stream.events[0]!.id!.split(".")[0])
      const expected = events
        .filter(({ seq, type }: { seq: number; type: string }) => seq > seen && /^(job|node)\./.test(type))
        .map(({ idempotency_key, to }: { idempotency_key: string; to: string }) => `${idempotency_key} ${to}`)
      const found = stream.events
        .filter(({ event }) => event === "job" || event === "node")
        .map(({ id, data }) => `${job}:${id!.replace(".", ":")} ${data.status}`)
      expect(found, job).toEqual(expected)
    }
    const percents = all.of("job").map(({ data }) => data)
    for (const job of jobs) {
      const own = percents.filter(({ job_id }) => job_id === job)
      for (const [index, { status, progress_pct }] of own.entries()) {
        expect(progress_pct === 100).toBe(status === "COMPLETED")
        expect(progress_pct).toBeGreaterThanOrEqual(own[index - 1]?.progress_pct ?? 0)
      }
    }
  })

  it("S4 continues after Last-Event-ID, in a header or the query, wherever it was cut", async () => {
    const first = await started("/jobs/stream")
    await first.until(() => first.events.length > 0)
    const job = await submit("diamond")
    await first.until(() => hasEnded(first, job))
    const whole = first.of("job").filter(({ data }) => data.job_id === job)
    expect(whole.length).toBeGreaterThan(4)
    for (const [index, { id }] of first.events.entries()) {
      const rest = await started("/jobs/stream", { lastEventId: id })
      const expected = first.events.slice(index + 1)
      await rest.until(() => rest.events.length >= expected.length)
      expect(rest.events).toEqual(expected)
      rest.cut()
    }
    const byQuery = await started(`/jobs/stream?last_event_id=${first.events[0]!.id}`)
    await byQuery.until(() => byQuery.events.length === whole.length)
    expect(byQuery.events).toEqual(whole)
  })

  it("S4 the stream of a finished job is its last state and an end; resumed, what was missed", async () => {
    const job = await submit("broken")
    await stage.ask(`/jobs/${job}?wait=20`)
    const fresh = listen(`/jobs/${job}/stream`)
    await fresh.ended()
    expect(fresh.events).toMatchObject([
      {
        event: "snapshot",
        data: {
          job: { job_id: job, status: "FAILED", error: { node: "x" } },
          nodes: [
            { node: "x", status: "FAILED", attempt: 1 },
            { node: "y", status: "FAILED", attempt: 1 },
          ],
        },
      },
      { event: "end", id: null, data: { reason: "job_ended" } },
    ])
    const { events } = (await stage.ask(`/jobs/${job}/events`)).body
    const missed = listen(`/jobs/${job}/stream`, { lastEventId: `${events[0].seq}.0` })
    await missed.ended()
    expect(missed.of("job").map(({ data }) => data.status)).toEqual([
      "QUEUED",
      "DISPATCHING",
      "PROCESSING",
      "FAILED",
    ])
    expect(missed.of("node").at(-1)?.data).toMatchObject({
      job_id: job,
      node: "y",
      status: "FAILED",
      error: { message: expect.any(String), node: "x" },
    })
    const done = listen(`/jobs/${job}/stream`, { lastEventId: fresh.lastEventId })
    await done.ended()
    expect(done.events).toMatchObject([{ event: "end", data: { reason: "job_ended" } }])
    await stage.ask(`/jobs/${job}`, { method: "DELETE" })
    const gone = listen(`/jobs/${job}/stream`)
    await gone.ended()
    expect(gone.events.at(-1)).toMatchObject({ event: "end", data: { reason: "job_deleted" } })
  })

  it("S4 streams of a retried and a cancelled job have every change; waiting nodes name what they wait for", async () => {
    const all = await started("/jobs/stream")
    await all.until(() => all.events.length > 0)
    const job = await submit("approval")
    const own = listen(`/jobs/${job}/stream`)
    await own.until(() => own.events.length > 0)
    await expect
      .poll(async () => (await stage.ask(`/jobs/${job}/graph`)).body.workflow_status)
      .toBe("WAITING_SINGLE")
    await post(`/jobs/${job}/cancel`)
    await own.ended()
    const waiting = own.of("node").find(({ data }) => data.status === "WAITING")
    // The stream may have begun when it already waited.
    if (waiting !== undefined)
      expect(waiting.data.waiting_on).toEqual({ kind: "signal", name: "approved", until: null })
    await post(`/jobs/${job}/retry`)
    await post(`/jobs/${job}/signals/approved`)
    await stage.ask(`/jobs/${job}?wait=20`)
    await all.until(() => eventsOf(all, job).some(line => line.startsWith("COMPLETED")))
    expect(eventsOf(all, job)).toEqual(await story(job))
  })

  it("S4 the snapshot has the newest jobs that have not ended, in the state of its position", async () => {
    const job = await submit("approval")
    await expect
      .poll(async () => (await stage.ask(`/jobs/${job}/graph`)).body.workflow_status)
      .toBe("WAITING_SINGLE")
    const stream = await started("/jobs/stream")
    await stream.until(() => stream.events.length > 0)
    const { data } = stream.events[0]!
    expect(data.jobs[0]).toEqual({
      job_id: job,
      workflow: "approval",
      workflow_version: 1,
      status: "PROCESSING",
      progress_pct: 0,
      progress_message: null,
      created_at: expect.any(String),
      updated_at: expect.any(String),
      finished_at: null,
      labels: {},
      error: null,
      reason: null,
    })
    await post(`/jobs/${job}/signals/approved`)
    await stream.until(() => hasEnded(stream, job))
    expect(eventsOf(stream, job)).toEqual((await story(job)).slice(-1))
  })

  it("S4 progress has no id, and does not run ahead of the state", async () => {
    const all = await started("/jobs/stream")
    await all.until(() => all.events.length > 0)
    const job = await submit("talker")
    const own = listen(`/jobs/${job}/stream`)
    for (const stream of [all, own]) await stream.until(() => stream.of("progress").length > 0)
    for (const stream of [all, own])
      expect(stream.of("progress")[0]).toMatchObject({
        id: null,
        data: { job_id: job, progress_pct: 0, progress_message: "nearly half", node: "t", node_pct: 40 },
      })
    hush()
    await own.ended()
    expect(own.of("job").at(-1)?.data).toMatchObject({ status: "COMPLETED", progress_pct: 100 })
  })

  it("S4 what several nodes say at a time all comes, on both kinds of stream", async () => {
    const all = await started("/jobs/stream")
    const job = await submit("choir")
    const own = listen(`/jobs/${job}/stream`)
    for (const stream of [all, own]) await stream.until(() => stream.events.length > 0)
    await expect.poll(() => singers.length).toBe(3)
    for (const sing of singers.splice(0)) sing()
    for (const stream of [all, own]) {
      await stream.until(() => stream.of("progress").length >= 3, "what all three say")
      const events = stream
        .of("progress")
        .map(({ data }) => [data.node, data.node_pct, data.progress_message])
      expect(events.sort()).toEqual(["a", "b", "c"].map(node => [node, 10, `${node} sings`]))
    }
    for (const stop of singers.splice(0)) stop()
    await own.ended()
  })

  it("S4 a position too far back or of another store begins again", async () => {
    const limited = await openLimited({ umbra: { handlers, feed: { catchUpFacts: 3 } } })
    await limited.ask("/workflows", { method: "POST", body: workflows[1] })
    const run = async () => {
      const { body } = await limited.ask("/jobs?wait=20", { method: "POST", body: { workflow: "diamond" } })
      return body.job_id as string
    }
    const first = new EventStream(limited.server.url, "/jobs/stream")
    await first.until(() => first.events.length > 0)
    const begin = first.lastEventId
    const job = await run()
    await first.until(() => hasEnded(first, job))
    first.cut()
    const behind = async (path: string, lastEventId: string | null) => {
      const stream = new EventStream(limited.server.url, path, { lastEventId })
      await stream.until(() => stream.events.length >= 2)
      stream.cut()
      return stream.events.map(({ event, data }) => data.reason ?? event)
    }
    expect(await behind("/jobs/stream", begin)).toEqual(["too_far_behind", "snapshot"])
    const { events } = (await limited.ask(`/jobs/${job}/events`)).body
    const path = `/jobs/${job}/stream`
    expect((await behind(path, `${events[0].seq}.0`)).slice(0, 2)).toEqual(["too_far_behind", "snapshot"])
    expect((await behind(path, "5.0")).slice(0, 2)).toEqual(["unknown_position", "snapshot"])
    const stream = await started("/jobs/stream", { lastEventId: begin })
    await stream.until(() => stream.events.length >= 2)
    expect(stream.events[0]).toEqual({ event: "reset", id: null, data: { reason: "unknown_position" } })
    expect(stream.events[1]?.event).toBe("snapshot")
  })

  it("S4 refuses what is no id with 400, and more streams than there may be with 503", async () => {
    const job = await submit("approval")
    for (const id of ["x", "j1.", "j1.%%", "j1.AAAA", `j1.${"A".repeat(5000)}`, "1.2.3", "-1.0"])
      expect(await stage.ask("/jobs/stream", { headers: { "last-event-id": id } }), id).toMatchObject({
        status: 400,
        body: { code: "E633" },
      })
    for (const id of ["x", "1", "1.", "1.2.3", "1e3.0", "99999999999999999999.0"])
      expect(await stage.ask(`/jobs/${job}/stream?last_event_id=${id}`), id).toMatchObject({ status: 400 })
    expect(await stage.ask("/jobs/abc/stream")).toMatchObject({ status: 404, body: { code: "E301" } })
    expect((await stage.ask("/jobs/stream", { method: "HEAD" })).status).toBe(404)
    const many = await Promise.all(Array.from({ length: 201 }, () => listen("/jobs/stream")))
    await Promise.all(many.map(stream => stream.until(() => stream.status > 0)))
    const refused = many.filter(({ status }) => status === 503)
    expect(refused.length).toBeGreaterThan(0)
    expect(refused[0]?.headers["retry-after"]).toBe("1")
    expect((await stage.ask("/jobs")).status).toBe(200)
  })
})

async function openLimited(options: StageOptions): Promise<Stage> {
  const stage = await openStage(options)
  onTestFinished(() => stage.close())
  return stage
}
