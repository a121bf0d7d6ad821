/** P2 Pause and resume of a job that is a pipeline: no message is lost or processed twice, and `why` says that it is paused. */
import { describe, expect, it, onTestFinished } from "vitest"
import type { WorkflowSource } from "../../src/jobs/register.ts"
import type { WhyView } from "../../src/jobs/why/why.ts"
import { openJournal } from "../../src/journal/open.ts"
import type { Adapter, Message } from "../../src/pipeline/adapter.ts"
import { readContent } from "../crash/pipelines/check.ts"
import { open, until } from "../engine/stage.ts"
import { openStage, stores } from "../server/stage.ts"
import { forestProblems } from "./forest.ts"
import { adapter, numbers, route } from "./scene.ts"

const COUNT = 200
const AT_ONCE = 4

const pipeline = {
  name: "paused-pipeline",
  init: { body: { count: COUNT, step: 50 } },
  routes: [
    route("source", ["numbers"], { outbound: "work" }),
    route("work", ["held"], { outbound: "store", concurrency: AT_ONCE, prefetch: 2 * AT_ONCE }),
    route("store", ["count"]),
  ],
} as unknown as WorkflowSource

/** Counts messages, and holds those of the second route that may not pass yet. */
function counters() {
  const begun: number[] = []
  const stored: number[] = []
  const waiting = new Set<() => void>()
  let free = 0
  const number = ({ body }: Message) => (body as { n: number }).n
  const held = adapter("held", async message => {
    begun.push(number(message))
    if (begun.length > free) await new Promise<void>(resolve => waiting.add(resolve))
    return message.body
  })
  const count = adapter("count", message => void stored.push(number(message)))
  return {
    begun,
    stored,
    adapters: [numbers, held, count] as readonly Adapter[],
    /** So many messages in all pass without a wait; those that wait go on. */
    pass(total: number): void {
      free = total
      for (const resolve of waiting) resolve()
      waiting.clear()
    },
  }
}

async function storeOf(kind: string): Promise<string> {
  const { location, remove } = await stores[kind]!()
  onTestFinished(() => remove())
  return location
}

async function expectWhole(
  location: string,
  jobId: string,
  seen: ReturnType<typeof counters>,
): Promise<void> {
  const all = Array.from({ length: COUNT }, (_, index) => index + 1)
  const sorted = (values: readonly number[]) => [...values].sort((a, b) => a - b)
  expect(sorted(seen.begun)).toEqual(all)
  expect(sorted(seen.stored)).toEqual(all)
  const journal = await openJournal(location)
  try {
    const { progress, messages, letters, lineage } = await readContent(journal.pipelines, jobId)
    expect(forestProblems(messages, lineage, letters)).toEqual([])
    expect(progress.routes.map(({ tail, done }) => [tail, done])).toEqual([
      [COUNT / 50, COUNT / 50],
      [COUNT, COUNT],
      [COUNT, COUNT],
    ])
  } finally {
    await journal.close()
  }
}

function expectPaused(why: WhyView, of: { readonly jobId: string; readonly by: string }): void {
  const { sentence, action, reasons, routes } = why
  expect(reasons).toMatchObject([{ kind: "paused", nodes: ["pipeline"], count: 1 }])
  expect(sentence).toContain(`by ${of.by}: prices`)
  expect(action).toBe(`umbra jobs resume ${of.jobId}`)
  expect(routes!.find(({ route }) => route === "work")).toMatchObject({ kind: "paused" })
}

describe.each(["SQLite", "PostgreSQL"])("a paused execution on %s", kind => {
  it("begins no other message, keeps the results of those in flight, and continues with the rest", async () => {
    const location = await storeOf(kind)
    const seen = counters()
    const umbra = await open({ at: location, adapters: seen.adapters })
    seen.pass(50)
    const job = await umbra.submit(pipeline)
    for (let times = 1; times <= 3; times++) {
      const begun = times * 50 + AT_ONCE
      await until("messages are in flight", () => seen.begun.length === begun)
      await job.pause({ by: "ada", reason: "prices" })
      expectPaused(await umbra.why(job.id), { jobId: job.id, by: "ada" })
      seen.pass(0)
      await until("those in flight have ended", async () => {
        const { routes } = await umbra.graph(job.id)
        return routes![1]!.done === begun
      })
      await until("it has left memory", () => umbra.health().liveJobs === 0)
      expectPaused(await umbra.why(job.id), { jobId: job.id, by: "ada" })
      expect(seen.begun.length).toBe(begun)
      expect(await umbra.queries.verify(await umbra.queries.row(job.id))).toEqual([])
      seen.pass((times + 1) * 50)
      await job.resume()
    }
    seen.pass(COUNT)
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", paused: null })
    // A pause is neither a loss nor a try.
    const { attempt, attempts } = await umbra.node(job.id, "pipeline")
    expect([attempt, attempts.at(-1)!.attempt]).toEqual([1, 1])
    expect((await umbra.graph(job.id)).nodes[0]).toMatchObject({ status: "COMPLETED", losses: 0 })
    expect(await umbra.queries.verify(await umbra.queries.row(job.id))).toEqual([])
    await umbra.close()
    await expectWhole(location, job.id, seen)
  })

  it("is resumed while messages of the run before are in flight, at any moment: none is lost or processed twice", async () => {
    const location = await storeOf(kind)
    const seen = counters()
    const umbra = await open({ at: location, adapters: seen.adapters })
    const job = await umbra.submit(pipeline)
    for (let free = 0; free < COUNT; free += 7) {
      // Not after a fixed time: between any two steps of the execution.
      for (let turn = 0; turn < free % 13; turn++) await new Promise(resolve => setImmediate(resolve))
      await job.pause()
      const resumed = job.resume()
      seen.pass(free)
      await resumed
      if (free % 2 === 1) await until("it goes on", () => seen.begun.length >= free)
    }
    seen.pass(COUNT)
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(await umbra.queries.verify(await umbra.queries.row(job.id))).toEqual([])
    await umbra.close()
    await expectWhole(location, job.id, seen)
  })

  it("stays paused over HTTP and after a restart of its process, and continues when it is resumed", async () => {
    const location = await storeOf(kind)
    const seen = counters()
    const begun = 20 + AT_ONCE
    seen.pass(20)
    const first = await openStage({ location, umbra: { adapters: seen.adapters } })
    onTestFinished(() => first.close())
    const post = (to: typeof first, path: string, body?: unknown) => to.ask(path, { method: "POST", body })
    await first.umbra.register(pipeline)
    const { job_id } = (await post(first, "/jobs", { workflow: "paused-pipeline" })).body
    await until("messages are in flight", () => seen.begun.length === begun)
    const paused = await post(first, `/jobs/${job_id}/pause`, { reason: "prices" })
    expect(paused).toMatchObject({
      status: 200,
      body: { status: "PROCESSING", paused: { reason: "prices" } },
    })
    const { by } = paused.body.paused
    expectPaused((await first.ask(`/jobs/${job_id}/why`)).body, { jobId: job_id, by })
    // Messages in flight may end before the process does.
    const closed = first.close()
    seen.pass(0)
    await closed
    const second = await openStage({ location, umbra: { adapters: seen.adapters } })
    onTestFinished(() => second.close())
    await until("the engine has its partitions", () => second.umbra.health().partitions === 64)
    await expect
      .poll(async () => (await second.ask(`/jobs/${job_id}/why`)).body.reasons[0].kind)
      .toBe("paused")
    expectPaused((await second.ask(`/jobs/${job_id}/why`)).body, { jobId: job_id, by })
    const { routes } = (await second.ask(`/jobs/${job_id}/graph`)).body
    expect(routes[1]).toMatchObject({ done: begun, in_flight: 0 })
    expect(seen.begun.length).toBe(begun)
    seen.pass(COUNT)
    expect((await post(second, `/jobs/${job_id}/resume`)).body.paused).toBeNull()
    expect((await second.umbra.wait(job_id)).status).toBe("COMPLETED")
    expect((await second.ask(`/jobs/${job_id}/why`)).body.sentence).toContain("COMPLETED")
    await second.close()
    await expectWhole(location, job_id, seen)
  })
})
