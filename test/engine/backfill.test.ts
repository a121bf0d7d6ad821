/** Backfills: one job for each past tick of a range and each backfill, whatever crashes. */
import { describe, expect, it } from "vitest"
import { UmbraError } from "../../src/errors.ts"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import { type Crash, dyingJournal } from "../bulk/mortal-journal.ts"
import { refusals } from "../bulk/stage.ts"
import { flow, gate, handler, open, until } from "./stage.ts"

const start = Date.parse("2026-11-17T12:30:00Z")
const inputs = new Map<string, unknown>()
const noop = handler("noop", ({ input }: { input: unknown }, ctx) => void inputs.set(ctx.jobId, input))
const simple = flow([{ id: "a", handler: "noop", config: { input: "{{ input }}" } }])
const hourly = { workflow: "flow", cron: "0 * * * *", input: { at: "{{ schedule.time }}" } }
const range = { from: "2026-11-17T08:00:00Z", to: "2026-11-17T12:00:00Z" }
const hours = ["08", "09", "10", "11"].map(hour => `2026-11-17T${hour}:00:00.000Z`)

async function opened(document: object = {}) {
  const clock = new VirtualClock({ start })
  const umbra = await open({ handlers: [noop], clock })
  await umbra.register(simple)
  await umbra.schedules.put("s", { ...hourly, ...document })
  return { clock, umbra }
}

async function history(umbra: Umbra, bulkId: string) {
  const { fires } = await umbra.schedules.fires("s", { limit: 1000 })
  return fires.filter(({ bulk_id }) => bulk_id === bulkId).reverse()
}

describe("a backfill", () => {
  it("starts a job for each past tick, with the time of the tick", async () => {
    const { umbra } = await opened({ labels: { team: "ops" }, priority: 3 })
    const request = { ...range, rate: 1000 }
    expect(await umbra.schedules.previewBackfill("s", range)).toEqual({
      ...{ schedule: "s", workflow: "flow@1", count: 4, first_tick: hours[0], last_tick: hours[3] },
      ...{ from: "2026-11-17T08:00:00.000Z", to: "2026-11-17T12:00:00.000Z" },
    })
    expect(await umbra.jobs()).toEqual([])
    const key = { idempotencyKey: "once" }
    const { bulk_id, is_new, ...first } = await umbra.schedules.backfill("s", request, key)
    expect(is_new).toBe(true)
    expect(first).toMatchObject({
      verb: "backfill",
      rate: 1000,
      filter: {},
      matched: { count: 4, complete: true },
    })
    expect(first.backfill).toMatchObject({ schedule: "s", first_tick: hours[0], last_tick: hours[3] })
    await umbra.wait(bulk_id)
    expect(await umbra.bulk.get(bulk_id)).toMatchObject({
      status: "COMPLETED",
      processed: 4,
      done: 4,
      refused: 0,
    })
    expect((await umbra.schedules.backfill("s", request, key)).bulk_id).toBe(bulk_id)
    const fires = await history(umbra, bulk_id)
    expect(fires.map(({ tick, kind, outcome }) => [tick, kind, outcome])).toEqual(
      hours.map(tick => [tick, "backfill", "started"]),
    )
    for (const { tick, job_id } of fires) {
      const job = await umbra.wait(job_id!)
      expect(job).toMatchObject({ status: "COMPLETED", schedule: { name: "s", tick }, priority: 3 })
      expect(job.labels).toEqual({ team: "ops" })
      expect(inputs.get(job_id!)).toEqual({ at: tick })
      const { facts } = await umbra.queries.facts.page(job_id!, { limit: 1 })
      expect(facts[0]).toMatchObject({ operation: bulk_id })
    }
    // Another backfill of the same range starts other jobs.
    const again = await umbra.schedules.backfill("s", request)
    await umbra.wait(again.bulk_id)
    const others = await history(umbra, again.bulk_id)
    expect(new Set([...fires, ...others].map(({ job_id }) => job_id)).size).toBe(8)
    // Pages that end between two entries of one tick.
    const paged: string[] = []
    for (let before: string | undefined; ; ) {
      const { fires: page, next } = await umbra.schedules.fires("s", { before, limit: 1 })
      paged.push(...page.map(({ job_id }) => job_id!))
      if (next === null) break
      before = next
    }
    expect(paged.sort()).toEqual([...fires, ...others].map(({ job_id }) => job_id).sort())
    // The schedule itself goes on as before.
    expect(await umbra.schedules.get("s")).toMatchObject({
      last_job: null,
      next_at: "2026-11-17T13:00:00.000Z",
    })
  })

  it("keeps the document and the version with which it was accepted", async () => {
    const { umbra, clock } = await opened()
    const { bulk_id } = await umbra.schedules.backfill("s", { ...range, rate: 1 })
    await until("it has begun", async () => (await history(umbra, bulk_id)).length > 0)
    await umbra.schedules.put("s", { ...hourly, cron: "30 * * * *", input: "other" })
    await umbra.register(flow([...simple.nodes, { id: "b", handler: "noop" }]))
    const ended = umbra.wait(bulk_id)
    await until("it has ended", async () => {
      clock.advance(1000)
      return (await umbra.bulk.get(bulk_id)).status === "COMPLETED"
    })
    await ended
    const fires = await history(umbra, bulk_id)
    expect(fires.map(({ tick }) => tick)).toEqual(hours)
    for (const { tick, job_id } of fires) {
      expect((await umbra.wait(job_id!)).workflow_version).toBe(1)
      expect(inputs.get(job_id!)).toEqual({ at: tick })
    }
  })

  it("lists ticks that could not start, and starts the rest", async () => {
    const { umbra } = await opened()
    const at = { type: "string", not: { const: hours[1] } }
    await umbra.register({ ...simple, input: { type: "object", properties: { at } } })
    const { bulk_id } = await umbra.schedules.backfill("s", { ...range, rate: 1000 })
    await umbra.wait(bulk_id)
    expect(await umbra.bulk.get(bulk_id)).toMatchObject({ processed: 4, done: 3, refused: 1 })
    expect(await refusals(umbra, bulk_id)).toMatchObject([{ job_id: null, tick: hours[1], code: "E304" }])
    expect((await history(umbra, bulk_id)).map(({ tick }) => tick)).toEqual([hours[0], hours[2], hours[3]])
  })

  it("waits for a limit of unfinished jobs", async () => {
    const { umbra, clock } = await opened()
    let isFull = true
    umbra.bulk.forks.admit = () => async (_, store) => {
      if (isFull) throw new UmbraError("E646", "too many jobs")
      await store()
    }
    const { bulk_id } = await umbra.schedules.backfill("s", { ...range, rate: 1000 })
    for (let i = 0; i < 5; i++) {
      clock.advance(1000)
      await new Promise(resolve => setTimeout(resolve, 5))
    }
    expect(await history(umbra, bulk_id)).toEqual([])
    isFull = false
    await until("it has ended", async () => {
      clock.advance(1000)
      return (await umbra.bulk.get(bulk_id)).status === "COMPLETED"
    })
    expect(await umbra.bulk.get(bulk_id)).toMatchObject({ done: 4, refused: 0 })
  })

  it("is aborted between two ticks", async () => {
    const { umbra, clock } = await opened()
    const { bulk_id } = await umbra.schedules.backfill("s", { ...range, rate: 1 })
    await until("it has begun", async () => (await history(umbra, bulk_id)).length > 0)
    await umbra.bulk.abort(bulk_id)
    await until("it has ended", async () => {
      clock.advance(300)
      return (await umbra.bulk.get(bulk_id)).status === "CANCELLED"
    })
    const { done } = await umbra.bulk.get(bulk_id)
    expect(done).toBeLessThan(4)
    expect(await history(umbra, bulk_id)).toHaveLength(done)
  })

  it("ends when its schedule is deleted", async () => {
    const { umbra, clock } = await opened({ cron: "* * * * *" })
    const { bulk_id } = await umbra.schedules.backfill("s", { ...range, rate: 1 })
    await until("it has begun", async () => (await history(umbra, bulk_id)).length > 0)
    await umbra.schedules.delete("s")
    await until("it has ended", async () => {
      clock.advance(1000)
      return (await umbra.bulk.get(bulk_id)).status === "FAILED"
    })
    expect((await umbra.job(bulk_id)).error).toMatchObject({ code: "E331" })
    expect((await umbra.bulk.get(bulk_id)).done).toBeLessThanOrEqual(8)
  })

  it("starts whatever runs, also of a paused schedule", async () => {
    const work = gate("noop")
    const clock = new VirtualClock({ start })
    const umbra = await open({ handlers: [work.handler], clock })
    await umbra.register(simple)
    await umbra.schedules.put("s", hourly)
    await umbra.schedules.pause("s")
    await umbra.schedules.backfill("s", { ...range, rate: 1000 })
    await work.came(4)
    work.open()
  })

  it("refuses what is not past, empty or too large", async () => {
    const { umbra } = await opened({ cron: "* * * * * *" })
    for (const [given, text] of [
      [{ from: hours[0]!, to: "2026-11-17T12:31:00Z" }, "future"],
      [{ from: hours[1]!, to: hours[0]! }, "after"],
      [{ from: "yesterday", to: hours[0]! }, "times with their zone"],
      [{ from: "2026-11-01T00:00:00Z", to: hours[0]! }, "100,000"],
    ] as const)
      await expect(umbra.schedules.backfill("s", given)).rejects.toMatchObject({
        ...{ code: "E330", message: expect.stringContaining(text) },
      })
    await expect(umbra.schedules.backfill("s", { ...range, rate: 0 })).rejects.toMatchObject({ code: "E309" })
    await expect(umbra.schedules.backfill("t", range)).rejects.toMatchObject({ code: "E331" })
  })

  it("starts one job for each tick, whatever append its process dies with", {
    timeout: 300_000,
  }, async () => {
    const crashes: Crash[] = []
    for (let at = 1; at <= 10; at++) crashes.push({ at, isApplied: true }, { at, isApplied: false })
    for (const crash of crashes) {
      const store = createMemoryStore({ partitions: 4 })
      const key = { idempotencyKey: "the backfill" }
      let bulkId = ""
      const seen = new Set<string>()
      const witness = handler("noop", ({ input }: { input: { at: string } }, ctx) => {
        seen.add(`${input.at} ${ctx.jobId}`)
      })
      for (const dies of [crash, null]) {
        const mortal = dyingJournal(store, dies)
        const engine = { beatSeconds: 0.02, leaseSeconds: 0.3 }
        const umbra = await openUmbra(mortal.journal, { handlers: [witness], engine })
        const alive = (async () => {
          await umbra.register(simple)
          await umbra.schedules.put("s", hourly)
          const request = { from: "2026-01-01T00:00:00Z", to: "2026-01-02T00:00:00Z", rate: 10_000 }
          bulkId = (await umbra.schedules.backfill("s", request, key)).bulk_id
          await umbra.wait(bulkId)
          expect(await umbra.bulk.get(bulkId)).toMatchObject({ status: "COMPLETED", done: 24, refused: 0 })
          const fires = await history(umbra, bulkId)
          for (const { job_id } of fires) await umbra.wait(job_id!)
          const expected = fires.map(({ tick, job_id }) => `${tick} ${job_id}`)
          expect(new Set(fires.map(({ tick }) => tick)).size, JSON.stringify(crash)).toBe(24)
          expect([...seen].sort()).toEqual(expected.sort())
          expect((await umbra.queries.list({ workflow: "flow", limit: 100 })).jobs).toHaveLength(24)
          await umbra.close()
          return true
        })()
        if (await Promise.race([alive, mortal.death.then(() => false)])) break
      }
    }
  })
})

describe("ticks of a range", () => {
  it("are what they did and what is planned, in pages", async () => {
    const { umbra, clock } = await opened({ jitter_seconds: 60, catch_up: "all", overlap: "allow" })
    clock.advance(2 * 3_600_000)
    await until("it has fired", async () => (await umbra.schedules.fires("s")).fires.length === 2)
    const { bulk_id } = await umbra.schedules.backfill("s", {
      ...{ from: "2026-11-17T12:00:00Z", to: "2026-11-17T13:30:00Z", rate: 1000 },
    })
    await umbra.wait(bulk_id)
    const wanted = { from: "2026-11-17T12:00:00Z", to: "2026-11-17T18:00:00Z" }
    const all = await umbra.schedules.ticks("s", wanted)
    expect(all.next).toBeNull()
    expect(all.ticks.map(({ tick, kind, outcome }) => `${tick.slice(11, 13)} ${kind} ${outcome}`)).toEqual([
      ...["12 backfill started", "13 backfill started", "13 tick started", "14 tick started"],
      ...["15 tick planned", "16 tick planned", "17 tick planned"],
    ])
    expect(all.ticks[4]!.at).toBe((await umbra.schedules.get("s")).next_at)
    const paged: unknown[] = []
    for (let after: string | undefined; ; ) {
      const { ticks, next } = await umbra.schedules.ticks("s", { ...wanted, after, limit: 1 })
      paged.push(...ticks)
      if (next === null) break
      after = next
    }
    expect(paged).toEqual(all.ticks)
    await umbra.schedules.pause("s")
    expect((await umbra.schedules.ticks("s", wanted)).ticks).toEqual(all.ticks.slice(0, 4))
  })

  it("have bounds that are times", async () => {
    const { umbra } = await opened()
    for (const wrong of [{ from: "today" }, { to: "2026-02-31T00:00:00Z" }, { after: "x/tick" }])
      await expect(umbra.schedules.ticks("s", { ...range, ...wrong })).rejects.toThrow("is not a time")
    await expect(umbra.schedules.fires("s", { before: "2026-11-17" })).rejects.toMatchObject({ code: "E330" })
  })
})

it("previews the times of a schedule that is not stored", async () => {
  const { umbra } = await opened()
  const { next_ticks } = await umbra.schedules.preview({ cron: "0 2 * * *", zone: "Europe/Berlin" })
  expect(next_ticks).toHaveLength(20)
  expect(next_ticks[0]).toBe("2026-11-18T01:00:00.000Z")
  expect(await umbra.schedules.preview({ every: "6h", end: "2026-11-18T01:00:00Z" })).toEqual({
    next_ticks: ["2026-11-17T18:00:00.000Z", "2026-11-18T00:00:00.000Z"],
  })
  await expect(umbra.schedules.preview({ cron: "0 25 * * *" })).rejects.toMatchObject({ code: "E330" })
  const zoned = { every: "1d", zone: "Europe/Berlin" }
  await expect(umbra.schedules.preview(zoned)).rejects.toThrow('Leave out "zone"')
})
