import { describe, expect, it, onTestFinished } from "vitest"
import type { JobStatus } from "../../src/core/states.ts"
import { type DurationPoint, jobDurations } from "../../src/journal/job-durations.ts"
import type { JobFilter, JobPage, JobRow } from "../../src/journal/port/journal.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { flow, gate, open } from "../engine/stage.ts"
import { hello, openStage, stores } from "./stage.ts"

/** A store of jobs in memory, which counts what is read. */
function listOf(rows: readonly Partial<JobRow>[]) {
  const asked: JobFilter[] = []
  const list = async (filter: JobFilter): Promise<JobPage> => {
    asked.push(filter)
    const found = rows.filter(
      ({ createdAt = 0 }) => createdAt >= filter.createdFrom! && createdAt < filter.createdBefore!,
    )
    const jobs = found.slice(-filter.limit) as JobRow[]
    const isMore = found.length > jobs.length
    return { jobs, next: isMore ? jobs[0]!.id : null, scannedTo: null, complete: true }
  }
  return { list, asked }
}

const row = (n: number, createdAt: number, took: number | null, status: JobStatus = "COMPLETED") =>
  ({
    id: `job-${n}`,
    createdAt,
    finishedAt: took === null ? null : createdAt + took,
    status,
  }) as Partial<JobRow>

const times = (now: number) => ({ now, begin: ({ createdAt }: JobRow) => createdAt })

const sum = (points: readonly DurationPoint[]) => points.reduce((all, { count }) => all + count, 0)

describe("points of jobs", () => {
  it("has one for each job if they are few, and the age of jobs that have not ended", async () => {
    const { list } = listOf([
      row(1, 1000, 50),
      row(2, 2000, 7000, "FAILED"),
      row(3, 9000, null, "PROCESSING"),
    ])
    const found = await jobDurations(list, times(10_000), {
      createdFrom: 0,
      createdBefore: 10_000,
      points: 20,
    })
    expect(found).toEqual({
      from: 0,
      before: 10_000,
      jobs: 3,
      complete: true,
      points: [
        { at: 1000, durationMs: 50, status: "COMPLETED", count: 1, jobId: "job-1" },
        { at: 2000, durationMs: 7000, status: "FAILED", count: 1, jobId: "job-2" },
        { at: 9000, durationMs: 1000, status: "PROCESSING", count: 1, jobId: "job-3" },
      ],
    })
  })

  it("joins near ones of the same status, keeps the slowest, and loses none", async () => {
    const statuses: JobStatus[] = ["COMPLETED", "FAILED"]
    const rows = Array.from({ length: 4000 }, (_, n) =>
      row(n, n * 10, 1 + ((n * 7919) % 60_000), statuses[n % 50 === 0 ? 1 : 0]),
    )
    for (const points of [20, 100, 500, 2000]) {
      const { list } = listOf(rows)
      const found = await jobDurations(list, times(50_000), { createdFrom: 0, createdBefore: 40_000, points })
      expect(found.points.length).toBeLessThanOrEqual(points)
      expect(found.points.length).toBeGreaterThan(points / 10)
      expect(sum(found.points)).toBe(4000)
      expect(found.complete).toBe(true)
      const failed = found.points.filter(({ status }) => status === "FAILED")
      expect(sum(failed)).toBe(80)
      const slowest = Math.max(...rows.map(({ createdAt, finishedAt }) => finishedAt! - createdAt!))
      expect(Math.max(...found.points.map(({ durationMs }) => durationMs))).toBe(slowest)
      expect(found.points.map(({ at }) => at)).toEqual(
        [...found.points.map(({ at }) => at)].sort((a, b) => a - b),
      )
    }
  })

  it("reads a bounded number of jobs, spread over the whole range, and says so", async () => {
    const rows = Array.from({ length: 200_000 }, (_, n) => row(n, n, 5))
    const { list, asked } = listOf(rows)
    const found = await jobDurations(list, times(300_000), { createdFrom: 0, createdBefore: 200_000 })
    expect(found.complete).toBe(false)
    expect(found.jobs).toBeLessThanOrEqual(4800)
    expect(asked.length).toBeLessThanOrEqual(48)
    expect(found.points.length).toBeLessThanOrEqual(500)
    for (const quarter of [0, 1, 2, 3])
      expect(found.points.filter(({ at }) => Math.floor(at / 50_000) === quarter).length).toBeGreaterThan(5)
  })

  it("takes any range, also one of a millisecond", async () => {
    const { list } = listOf([row(1, 5, 1), row(2, 6, 1)])
    const found = await jobDurations(list, times(10), { createdFrom: 5, createdBefore: 6 })
    expect(found.points.map(({ jobId }) => jobId)).toEqual(["job-1"])
    expect((await jobDurations(list, times(10), { createdFrom: 9, createdBefore: 9 })).points).toEqual([])
  })
})

it("a delayed job takes as long as it did since its start time, in the chart, lists and metrics", async () => {
  const clock = new VirtualClock()
  const work = gate()
  const umbra = await open({ handlers: [work.handler], clock })
  const job = await umbra.submit(flow([{ id: "a", handler: "gate" }]), {}, { delaySeconds: 3600 })
  const chart = async () => (await umbra.queries.durations({})).points.map(({ durationMs }) => durationMs)
  expect(await chart()).toEqual([0])
  clock.advance(3_600_000)
  await work.came()
  clock.advance(5000)
  expect(await chart()).toEqual([5000])
  work.open()
  await job.wait()
  expect(await chart()).toEqual([5000])
  const found = async (minDurationMs: number) => (await umbra.jobPage({ minDurationMs })).jobs.length
  expect([await found(5000), await found(5001)]).toEqual([1, 0])
  expect(umbra.metrics().engine.jobSeconds.sum).toBe(5)
})

describe.each(Object.keys(stores))("GET /jobs/durations on %s", kind => {
  it("takes the filters of the list, and shows the caller's own jobs only", async () => {
    const store = await stores[kind]!()
    onTestFinished(() => store.remove())
    const stage = await openStage({ location: store.location, withTokens: true })
    onTestFinished(() => stage.close())
    const [ada, eve] = [await stage.token("ada", "admin"), await stage.token("eve", "admin")]
    for (const token of [ada, eve]) await stage.ask("/workflows", { method: "POST", body: hello, token })
    const submit = async (token: string, labels?: object) =>
      (
        await stage.ask("/jobs?wait=20", {
          method: "POST",
          body: { workflow: "hello", input: { name: "x" }, labels },
          token,
        })
      ).body.job_id
    const mine = [await submit(ada), await submit(ada, { team: "shop" })]
    await submit(eve)
    const ask = async (query: string, token = ada) =>
      (await stage.ask(`/jobs/durations${query}`, { token })).body
    const ids = async (query: string) =>
      (await ask(query)).points.map(({ job_id }: { job_id: string }) => job_id).sort()
    expect(await ids("")).toEqual([...mine].sort())
    expect(await ids("?label=team%3Dshop")).toEqual([mine[1]])
    expect(await ids("?status=FAILED")).toEqual([])
    expect(await ids("?created_before=2020-01-01T00:00:00Z")).toEqual([])
    const all = await ask("")
    expect(all).toMatchObject({ jobs: 2, complete: true, points: [{ status: "COMPLETED", count: 1 }, {}] })
    expect(Date.parse(all.before) - Date.parse(all.from)).toBe(24 * 3_600_000)
    for (const wrong of ["?points=1", "?points=5000", "?limit=5", "?status=NONE", "?version=1"])
      expect((await stage.ask(`/jobs/durations${wrong}`, { token: ada })).status, wrong).toBe(400)
    const backwards = "?created_from=2026-01-02T00:00:00Z&created_before=2026-01-01T00:00:00Z"
    expect((await stage.ask(`/jobs/durations${backwards}`, { token: ada })).status).toBe(400)
  })
})
