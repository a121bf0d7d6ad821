import { describe, expect, it } from "vitest"
import { connect, type JobsStreamEvent } from "../../src/client/index.ts"
import { drop, event, events, json, problem, scripted } from "./scripted.ts"

const quick = { retryMs: 1 }
const changed = (n: number) => event("job", { job_id: "j", n }, `p${n}`)
const over = event("end", { reason: "job_ended" })
const snapshot = event("snapshot", { jobs: [] }, "p0")

async function all<T>(stream: AsyncIterable<T>, most = 100): Promise<T[]> {
  const found: T[] = []
  for await (const one of stream) {
    found.push(one)
    if (found.length === most) break
  }
  return found
}

describe("a stream", () => {
  it("S4 gives typed events and ends with the job", async () => {
    const server = await scripted(
      events([
        event("snapshot", { job: { job_id: "j" }, nodes: [] }, "p0"),
        ": keep-alive\n\n",
        changed(1),
        over,
      ]),
    )
    const received = await all(connect({ url: server.url }).stream("j"))
    expect(received).toEqual([
      { type: "snapshot", id: "p0", data: { job: { job_id: "j" }, nodes: [] } },
      { type: "job", id: "p1", data: { job_id: "j", n: 1 } },
      { type: "end", id: null, data: { reason: "job_ended" } },
    ])
    expect(server.requests[0]).toMatchObject({
      path: "/jobs/j/stream",
      headers: { accept: "text/event-stream" },
    })
  })

  it("S4 continues after the last event after each lost connection", async () => {
    const server = await scripted(
      ...[events([snapshot, changed(1)], "cut"), drop, problem(503, "E611"), events([changed(2)])],
      ...[events([event("progress", { pct: 5 })], "cut"), events([changed(3), over])],
    )
    const received = await all(connect({ url: server.url, ...quick }).stream("j"))
    expect(received.map(({ type, id }) => id ?? type)).toEqual(["p0", "p1", "p2", "progress", "p3", "end"])
    expect(server.requests.map(({ headers }) => headers["last-event-id"])).toEqual([
      ...[undefined, "p1", "p1", "p1", "p2", "p2"],
    ])
  })

  it("begins after the event that the caller names, yields resets and connects again when the server stops", async () => {
    const server = await scripted(
      events([
        event("reset", { reason: "too_far_behind" }),
        snapshot,
        event("end", { reason: "server_stopping" }),
      ]),
      events([changed(1), event("end", { reason: "job_deleted" })]),
    )
    const lost: number[] = []
    const received = await all(
      connect({ url: server.url }).stream("j", {
        lastEventId: "old",
        onReconnect: ({ tries }) => lost.push(tries),
      }),
    )
    expect(received.map(({ type }) => type)).toEqual(["reset", "snapshot", "job", "end"])
    expect(server.requests.map(({ headers }) => headers["last-event-id"])).toEqual(["old", "p0"])
    expect(lost).toEqual([1])
  })

  it("passes over kinds of events that it does not know", async () => {
    const server = await scripted(events([event("later", {}, "p8"), over]))
    expect((await all(connect({ url: server.url }).stream("j"))).map(({ type }) => type)).toEqual(["end"])
  })

  it("of all jobs ends when the caller stops, and releases the connection", async () => {
    let closed: () => void
    const gone = new Promise<void>(resolve => {
      closed = resolve
    })
    const server = await scripted((response, request) => {
      response.on("close", () => closed())
      events([snapshot, changed(1)], "open")(response, request)
    })
    const stop = new AbortController()
    const received: JobsStreamEvent[] = []
    for await (const one of connect({ url: server.url }).stream({ signal: stop.signal })) {
      received.push(one)
      if (one.type === "job") stop.abort()
    }
    expect(received).toHaveLength(2)
    await gone
    expect(server.requests[0]?.path).toBe("/jobs/stream")
  })

  it("releases the connection when the caller breaks off", async () => {
    let end: () => void
    const gone = new Promise<void>(resolve => {
      end = resolve
    })
    const server = await scripted((response, request) => {
      response.on("close", () => end())
      events([snapshot, changed(1)], "open")(response, request)
    })
    expect(await all(connect({ url: server.url }).stream(), 1)).toHaveLength(1)
    await gone
  })

  it.each([
    ["what the server refuses", problem(404, "E301"), "E301"],
    ["a position that is none", problem(400, "E633"), "E633"],
    ["a page instead of a stream", json({}), "E651"],
    ["data that is not JSON", events(["event: job\nid: 1\ndata: {\n\n"]), "E651"],
  ])("ends with an error: %s", async (_, answer, code) => {
    const server = await scripted(answer)
    await expect(all(connect({ url: server.url }).stream("j"))).rejects.toMatchObject({ code })
    expect(server.requests).toHaveLength(1)
  })

  it("gives up on a server that never answered after a few tries, and on one that was there after its patience", async () => {
    const never = await scripted(drop)
    const options = { ...quick, retries: 2, patienceMs: 1000 }
    await expect(all(connect({ url: never.url, ...options }).stream())).rejects.toMatchObject({
      code: "E650",
    })
    expect(never.requests).toHaveLength(3)
    const once = await scripted(events([snapshot], "cut"), drop)
    await expect(all(connect({ url: once.url, ...options }).stream())).rejects.toMatchObject({ code: "E650" })
    expect(once.requests.length).toBeGreaterThan(2)
  })

  it("is connected again when there is no sign of life", async () => {
    const server = await scripted(events([snapshot], "open"), events([changed(1), over]))
    const received = await all(connect({ url: server.url, silenceMs: 100 }).stream("j"))
    expect(received.map(({ type }) => type)).toEqual(["snapshot", "job", "end"])
    expect(server.requests[1]?.headers["last-event-id"]).toBe("p0")
  })
})

describe("watching a job", () => {
  const completedEvent = (seq: number) => ({ type: "node.completed", seq, payload: {} })

  it("gives every event once, in order, whatever becomes of the stream, and progress beside", async () => {
    const log: object[] = [completedEvent(1)]
    let streams = 0
    const server = await scripted((response, request) => {
      const [, after = "-1"] = /after=(\d+)/.exec(request.path) ?? []
      if (request.path.includes("/events")) {
        const fresh = log.filter(one => (one as { seq: number }).seq > Number(after))
        return json({ events: fresh })(response, request)
      }
      streams++
      if (streams === 1) return events([snapshot], "cut")(response, request)
      log.push(completedEvent(2), completedEvent(3))
      events([event("progress", { progress_pct: 50 }), changed(1), over])(response, request)
    })
    const progress: number[] = []
    const received = await all(
      connect({ url: server.url }).watch("j", { onProgress: p => progress.push(p.progress_pct) }),
    )
    expect(received.map(({ seq }) => seq)).toEqual([1, 2, 3])
    expect(progress).toEqual([50])
  })

  it("tolerates a server that stops between the event and the query that follows, as long as the patience lasts", async () => {
    let looks = 0
    const server = await scripted((response, request) => {
      if (!request.path.includes("/events")) return events([snapshot, over])(response, request)
      if (++looks <= 3) return drop(response, request)
      json({ events: request.path.includes("after=") ? [] : [completedEvent(1)] })(response, request)
    })
    const options = { url: server.url, retries: 0, ...quick }
    const received = await all(connect(options).watch("j"))
    expect(received.map(({ seq }) => seq)).toEqual([1])
    looks = Number.NEGATIVE_INFINITY
    await expect(all(connect({ ...options, patienceMs: 0 }).watch("j"))).rejects.toMatchObject({
      code: "E650",
    })
  })

  it("fails with what the stream fails with", async () => {
    const server = await scripted(problem(404, "E301"))
    await expect(all(connect({ url: server.url }).watch("j"))).rejects.toMatchObject({ code: "E301" })
  })
})
