/** Streams of log lines: nothing notifies of lines, so each queries the store, and all of an owner together at a bounded rate. */
import { afterEach, beforeEach, expect, it, vi } from "vitest"
import { SingleFlight } from "../../src/engine/single-flight.ts"
import type { Feed } from "../../src/feed/feed.ts"
import { type LogFrames, LogStream } from "../../src/feed/log-stream.ts"
import { QueryRate } from "../../src/feed/query-rate.ts"
import type { Sink } from "../../src/feed/stream.ts"
import type { JobLogs } from "../../src/jobs/logs/logs.ts"

beforeEach(
  () => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setImmediate", "performance"] }),
)
afterEach(() => void vi.useRealTimers())

const sink: Sink = { write() {}, writeIfRoom() {}, async flushed() {}, end() {}, drop() {} }

function scene() {
  const readings = new Map<string, number>()
  /** Pages that were read with what the engine did, which is folded from all facts of the job. */
  const folded = new Map<string, number>()
  const lastFact = { seq: 5 }
  const lines: { readonly id: string; readonly at: number; readonly message: string }[] = []
  let pages = 0
  const count = (of: Map<string, number>, job: string) => of.set(job, (of.get(job) ?? 0) + 1)
  const journal = {
    readJob: async (job: string) => {
      count(readings, job)
      return { status: "PROCESSING", finishedAt: null }
    },
    readFactPage: async ({ after }: { after: number }) =>
      after < lastFact.seq ? [{ seq: lastFact.seq }] : [],
  }
  const logs = {
    page: async (job: string, { hasNoNewFacts, after }: { hasNoNewFacts?: boolean; after?: string }) => {
      pages++
      if (hasNoNewFacts !== true) count(folded, job)
      return { lines: lines.filter(({ id }) => after === undefined || id > after), next: null }
    },
  }
  const feed = {
    ...{ parts: { journal }, queryRate: new QueryRate(), logPages: new SingleFlight<LogFrames>() },
    followJob: async () => ({ store: "s", seqs: [], leave() {} }),
  }
  const open = async (owner: string, jobId: string, to = sink) => {
    const stream = new LogStream({
      ...{ feed: feed as unknown as Feed, logs: logs as unknown as JobLogs },
      ...{ filter: {}, owner, jobId, after: null, sink: to },
    })
    const begun = stream.begin()
    await vi.advanceTimersByTimeAsync(1)
    await begun
    return stream
  }
  return { open, readings, folded, lastFact, lines, pages: () => pages }
}

it("the streams of one owner read at most 100 times a second, and those of another are not slower", async () => {
  const { open, readings } = scene()
  const alice = []
  for (let n = 0; n < 200; n++) alice.push(await open("alice", "of alice"))
  const bob = await open("bob", "of bob")
  await vi.advanceTimersByTimeAsync(2000)
  readings.clear()
  await vi.advanceTimersByTimeAsync(10_000)
  expect(readings.get("of alice")).toBeGreaterThanOrEqual(950)
  expect(readings.get("of alice")).toBeLessThanOrEqual(1050)
  expect(readings.get("of bob")).toBeGreaterThanOrEqual(49)
  for (const stream of alice) stream.close()
  readings.clear()
  const last = await open("alice", "of alice")
  await vi.advanceTimersByTimeAsync(2000)
  expect(readings.get("of alice")).toBeGreaterThanOrEqual(10)
  for (const stream of [bob, last]) stream.close()
  readings.clear()
  await vi.advanceTimersByTimeAsync(2000)
  expect(readings.size).toBe(0)
})

it("a job is folded only if it has a new fact", async () => {
  const { open, readings, folded, lastFact } = scene()
  const stream = await open("alice", "job")
  await vi.advanceTimersByTimeAsync(2000)
  expect(readings.get("job")).toBeGreaterThanOrEqual(10)
  expect(folded.get("job")).toBe(1)
  lastFact.seq = 6
  await vi.advanceTimersByTimeAsync(2000)
  expect(folded.get("job")).toBe(2)
  stream.close()
})

it("streams of one job that begin at the same time read its pages once, and each sends all lines", async () => {
  const { open, lines, pages } = scene()
  lines.push({ id: "1", at: 1, message: "first" }, { id: "2", at: 2, message: "second" })
  const sent = Array.from({ length: 50 }, (): string[] => [])
  const streams = await Promise.all(
    sent.map(texts => open("alice", "job", { ...sink, write: bytes => void texts.push(String(bytes)) })),
  )
  expect(pages()).toBeLessThanOrEqual(2)
  for (const texts of sent) expect(texts.join("").match(/first|second/g)).toEqual(["first", "second"])
  for (const stream of streams) stream.close()
})
