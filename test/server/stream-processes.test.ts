/** S4: live streams of real server processes: killed, restarted, told to stop, and two of them on one database. */
import { setTimeout as delay } from "node:timers/promises"
import { describe, expect, it } from "vitest"
import { EventStream, type StreamEvent } from "./event-stream.ts"
import { type Served, serve, storeOf } from "./served.ts"
import { ask } from "./stage.ts"

const workflow = {
  name: "steps",
  nodes: [
    { id: "a", handler: "transform", config: { value: 1 } },
    { id: "b", handler: "sleep", config: { seconds: 0.05 }, dependencies: ["a"] },
    { id: "c", handler: "transform", config: { value: 1 }, dependencies: ["b"] },
  ],
}

/** Five clients with this pause between two requests: jobs are under way whenever a process is killed. */
const LANE_PAUSE_MS = 20

const isEnd = ({ event, data }: StreamEvent) => event === "job" && data.finished_at !== null

async function push(url: string): Promise<void> {
  expect((await ask(url, "/workflows", { method: "POST", body: workflow })).status).toBe(201)
}

/** null: nobody is there to answer. */
async function submit(url: string): Promise<string | null> {
  const answer = await ask(url, "/jobs", { method: "POST", body: { workflow: "steps" } }).catch(() => null)
  return answer?.status === 201 ? answer.body.job_id : null
}

async function expectStories(url: string, jobs: readonly string[], events: readonly StreamEvent[]) {
  for (const job of jobs) {
    const received = events
      .filter(({ event, data }) => event === "job" && data.job_id === job)
      .map(({ data }) => `${data.status} ${data.updated_at}`)
    const expected = (await ask(url, `/jobs/${job}/events`, {})).body.events
      .filter(({ type }: { type: string }) => type.startsWith("job."))
      .map(({ to, at }: { to: string; at: string }) => `${to} ${at}`)
    expect(received, job).toEqual(expected)
  }
}

/** A reader that comes back to whatever server there is, with the last id it has. */
class Reader {
  readonly events: StreamEvent[] = []
  #lastEventId: string | null = null
  #stream: EventStream | null = null
  #isOver = false

  async read(url: () => string): Promise<void> {
    while (!this.#isOver) {
      const stream = new EventStream(url(), "/jobs/stream", { lastEventId: this.#lastEventId })
      this.#stream = stream
      await stream.ended()
      this.events.push(...stream.events)
      this.#lastEventId = stream.lastEventId
      if (stream.status !== 200) await new Promise(resolve => setTimeout(resolve, 20))
    }
  }

  get all(): StreamEvent[] {
    return [...this.events, ...(this.#stream?.isClosed === false ? this.#stream.events : [])]
  }

  stop(): void {
    this.#isOver = true
    this.#stream?.cut()
  }
}

describe("live streams of umbra serve", () => {
  it.each(["SQLite", "PostgreSQL"])(
    "S4 killed and started again on %s, a reader that comes back has every change once",
    async kind => {
      const store = await storeOf(kind)
      let served: Served = await serve(store)
      await push(served.url)
      const reader = new Reader()
      const reading = reader.read(() => served.url)
      await expect.poll(() => reader.all.length).toBeGreaterThan(0)
      const jobs: string[] = []
      for (let round = 0; round < 2; round++) {
        const { process, url } = served
        const lanes = Array.from({ length: 5 }, async () => {
          for (let job = await submit(url); job !== null; job = await submit(url)) {
            jobs.push(job)
            await delay(LANE_PAUSE_MS)
          }
        })
        await expect.poll(() => reader.all.filter(isEnd).length).toBeGreaterThan(20 * (round + 1))
        process.kill("SIGKILL")
        await Promise.all([...lanes, process.ended])
        served = await serve(store)
      }
      await expect
        .poll(() => {
          const ended = new Set(reader.all.filter(isEnd).map(({ data }) => data.job_id))
          return jobs.every(job => ended.has(job))
        })
        .toBe(true)
      expect(reader.all.filter(({ event }) => event === "reset")).toEqual([])
      await expectStories(served.url, jobs, reader.all)
      const last = new EventStream(served.url, "/jobs/stream")
      await last.until(() => last.events.length > 0)
      served.process.kill("SIGTERM")
      await last.ended()
      expect(last.events.at(-1)).toMatchObject({ event: "end", data: { reason: "server_stopping" } })
      reader.stop()
      await reading
      expect(await served.process.ended).toMatchObject({ code: 0 })
    },
    240_000,
  )

  it("S4 jobs that another process runs are streamed as they commit, not with the next poll", async () => {
    const store = await storeOf("PostgreSQL")
    // Neither looks by itself nor at a heartbeat within the time of this test: only what the other process tells brings
    // anything. So one of them has all partitions.
    const slowToNotice = ["feed_poll_ms=600000", "beat_seconds=600", "lease_seconds=2000"]
    const flags = slowToNotice.flatMap(setting => ["--set", setting])
    const runner = await serve(store, ...flags)
    await push(runner.url)
    const held = async (url: string) => (await ask(url, "/ready", {})).body.partitions
    await expect.poll(() => held(runner.url)).toBe(64)
    const onlooker = await serve(store, ...flags)
    expect(await held(onlooker.url)).toBe(0)
    const stream = new EventStream(onlooker.url, "/jobs/stream")
    await stream.until(() => stream.events.length > 0)
    const jobs: string[] = []
    for (let n = 0; n < 20; n++) {
      const job = (await submit(runner.url))!
      jobs.push(job)
      await stream.until(() => stream.events.some(event => isEnd(event) && event.data.job_id === job))
    }
    await expectStories(runner.url, jobs, stream.events)
    stream.cut()
  })

  it("S4 when the process that runs the jobs is killed, the other takes them over and its streams have every change", async () => {
    const store = await storeOf("PostgreSQL")
    const quick = ["--set", "beat_seconds=0.5"]
    const [runner, onlooker] = await Promise.all([serve(store, ...quick), serve(store, ...quick)])
    await push(runner.url)
    for (const { url } of [runner, onlooker])
      await expect.poll(async () => (await ask(url, "/ready", {})).body.partitions).toBe(32)
    const stream = new EventStream(onlooker.url, "/jobs/stream")
    await stream.until(() => stream.events.length > 0)
    const jobs: string[] = []
    const lanes = Array.from({ length: 5 }, async () => {
      for (let job = await submit(runner.url); job !== null; job = await submit(runner.url)) {
        jobs.push(job)
        await delay(LANE_PAUSE_MS)
      }
    })
    await stream.until(() => stream.events.filter(isEnd).length > 20)
    runner.process.kill("SIGKILL")
    await Promise.all(lanes)
    await stream.until(() => {
      const ended = new Set(stream.events.filter(isEnd).map(({ data }) => data.job_id))
      return jobs.every(job => ended.has(job))
    }, "all ends")
    await expectStories(onlooker.url, jobs, stream.events)
    stream.cut()
  })
})
