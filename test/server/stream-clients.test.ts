/** S4: clients that do not read, that may no longer, and a server that lives or is told to end. */
import { connect } from "node:net"
import { afterEach, describe, expect, it, onTestFinished } from "vitest"
import { defineHandler } from "../../src/worker/handler.ts"
import { TickClock } from "../broker/stalls.ts"
import { EventStream, type StreamOptions } from "./event-stream.ts"
import { openStage, type Stage, type StageOptions } from "./stage.ts"

const chatty = {
  name: "chatty",
  nodes: Array.from({ length: 20 }, (_, n) => ({
    id: `n${n}`,
    handler: "broken",
    retry: { max_attempts: 1 },
  })),
}
const handlers = [
  defineHandler({
    name: "broken",
    run: () => {
      throw new Error("x".repeat(20_000))
    },
  }),
]

let stages: Stage[] = []
const open = async (options: StageOptions = {}): Promise<Stage> => {
  const stage = await openStage({ umbra: { handlers }, ...options })
  stages.push(stage)
  return stage
}
const listen = async (stage: Stage, path: string, options: StreamOptions = {}) => {
  const stream = new EventStream(stage.server.url, path, options)
  await stream.until(() => stream.status > 0)
  return stream
}
afterEach(async () => {
  await Promise.all(stages.map(stage => stage.close()))
  stages = []
})

describe("clients of live streams", () => {
  it("S4 one that does not read is dropped after a bounded buffer, and the others continue", async () => {
    const stage = await open({ settings: { streamBufferBytes: 20_000 } })
    await stage.ask("/workflows", { method: "POST", body: chatty })
    const reader = await listen(stage, "/jobs/stream")
    await reader.until(() => reader.events.length > 0)
    // A socket that never reads: the kernel's buffers fill, then the server's.
    const { port, hostname } = new URL(stage.server.url)
    const idleSocket = connect({ port: Number(port), host: hostname }).pause()
    idleSocket.on("error", () => {})
    idleSocket.write("GET /jobs/stream HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    const streams = async (name: string) =>
      Number(new RegExp(`^${name} (\\d+)$`, "m").exec((await stage.ask("/metrics")).body)?.[1])
    await expect.poll(() => streams("umbra_streams")).toBe(2)
    let read = 0
    let failures = 0
    const failed = () => {
      for (; read < reader.events.length; read++)
        if (reader.events[read]!.event === "job" && reader.events[read]!.data.status === "FAILED") failures++
      return failures
    }
    // Every event of a job has its labels.
    const labels = Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`n${n}`, "x".repeat(1000)]))
    let submitted = 0
    while ((await streams("umbra_streams_dropped_total")) === 0) {
      expect(submitted).toBeLessThan(5000)
      const jobs = Array.from({ length: 20 }, () => ({ workflow: "chatty", labels }))
      await stage.ask("/jobs/bulk", { method: "POST", body: { jobs } })
      submitted += jobs.length
      await reader.until(() => failed() === submitted)
    }
    expect(await streams("umbra_streams")).toBe(1)
    expect(failed()).toBe(submitted)
    idleSocket.destroy()
  })

  it("S4 the server shows that it lives", async () => {
    const stage = await open({ settings: { streamHeartbeatSeconds: 0.1 } })
    const stream = await listen(stage, "/jobs/stream")
    expect(stream.headers).toMatchObject({
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    })
    await stream.until(() => stream.comments.length >= 3, "heartbeats")
    expect(new Set(stream.comments)).toEqual(new Set(["keep-alive"]))
  })

  it("S4 when the server stops, streams send that and close, and it does not wait for a client that does not read", async () => {
    const stage = await open()
    await stage.ask("/workflows", { method: "POST", body: chatty })
    const streams = await Promise.all(Array.from({ length: 5 }, () => listen(stage, "/jobs/stream")))
    const paused = await listen(stage, "/jobs/stream", { isPaused: true })
    const clock = new TickClock(() => Promise.resolve())
    onTestFinished(() => clock.stop())
    await stage.server.close()
    expect(clock.ms).toBeLessThan(5000)
    for (const stream of streams) {
      await stream.ended()
      expect(stream.events.at(-1)).toEqual({ event: "end", id: null, data: { reason: "server_stopping" } })
    }
    paused.cut()
  })

  it("S3 no token streams another owner's jobs, and a revoked token's streams end", async () => {
    const stage = await open({ withTokens: true, settings: { streamHeartbeatSeconds: 0.1 } })
    const ada = await stage.token("ada", "read", "submit", "manage")
    const bob = await stage.token("bob", "read", "submit", "manage")
    const none = await stage.token("ada", "submit")
    for (const token of [ada, bob]) await stage.ask("/workflows", { method: "POST", body: chatty, token })
    const own = await listen(stage, "/jobs/stream", { token: ada })
    const other = await listen(stage, "/jobs/stream", { token: bob })
    for (const stream of [own, other]) await stream.until(() => stream.events.length > 0)
    const { body } = await stage.ask("/jobs", { method: "POST", body: { workflow: "chatty" }, token: ada })
    await own.until(() => own.of("job").some(({ data }) => data.status === "FAILED"))
    const { body: bobs } = await stage.ask("/jobs", {
      method: "POST",
      body: { workflow: "chatty" },
      token: bob,
    })
    await other.until(() => other.of("job").some(({ data }) => data.status === "FAILED"))
    expect(new Set(own.of("job").map(({ data }) => data.job_id))).toEqual(new Set([body.job_id]))
    expect(new Set(other.of("job").map(({ data }) => data.job_id))).toEqual(new Set([bobs.job_id]))
    expect(await stage.ask(`/jobs/${body.job_id}/stream`, { token: bob })).toMatchObject({
      status: 404,
      body: { code: "E301" },
    })
    expect((await stage.ask("/jobs/stream", { token: none })).status).toBe(403)
    expect((await stage.ask("/jobs/stream")).status).toBe(401)
    const row = (await stage.umbra.registry.listTokens({ owner: "ada" })).find(({ scopes }) =>
      scopes.includes("read"),
    )
    await stage.umbra.registry.revokeToken({ id: row!.id, at: Date.now() })
    await own.ended()
    await other.until(() => other.comments.length > 2)
  })

  it("S4 streams are not among the requests in progress", async () => {
    const stage = await open({ settings: { maxRequests: 5 } })
    const streams = await Promise.all(Array.from({ length: 12 }, () => listen(stage, "/jobs/stream")))
    expect(streams.map(({ status }) => status)).not.toContain(503)
    for (const stream of streams) stream.cut()
    expect((await stage.ask("/jobs")).status).toBe(200)
  })
})
