/** Schedules: one job per tick, whatever happens to the engines. */
import { describe, expect, it } from "vitest"
import { UmbraError } from "../../src/errors.ts"
import { JournalDataError } from "../../src/journal/errors.ts"
import type { Batch } from "../../src/journal/port/journal.ts"
import type { NewFire } from "../../src/journal/port/schedules.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { Umbra } from "../../src/umbra.ts"
import { collectLog, flow, gate, handler, open, openOn, until } from "./stage.ts"

const HOUR = 3_600_000
const start = Date.parse("2026-11-17T12:00:00Z")
/** The inputs of the jobs that ran, by job. */
const inputs = new Map<string, unknown>()
const noop = handler("noop", ({ input }: { input: unknown }, ctx) => void inputs.set(ctx.jobId, input))
const simple = flow([{ id: "a", handler: "noop", config: { input: "{{ input }}" } }])
const waiting = flow([{ id: "a", handler: "gate" }])

async function opened(options: Parameters<typeof open>[0] = {}) {
  const clock = new VirtualClock({ start })
  const umbra = await open({ handlers: [noop], clock, ...options })
  await umbra.register(simple)
  return { clock, umbra }
}

/** The outcomes of its ticks, oldest first. */
async function outcomes(umbra: Umbra, name = "s"): Promise<string[]> {
  const { fires } = await umbra.schedules.fires(name)
  return fires.map(({ tick, outcome }) => `${tick.slice(11, 16)} ${outcome}`).reverse()
}

function whenFired(umbra: Umbra, expected: readonly string[], name = "s"): Promise<void> {
  return expect.poll(() => outcomes(umbra, name), { timeout: 8000 }).toEqual(expected)
}

describe("a schedule", () => {
  it("starts a job at each tick, with its input, labels and priority", async () => {
    const { umbra, clock } = await opened()
    const { schedule, isNew } = await umbra.schedules.put("s", {
      workflow: "flow",
      cron: "0 * * * *",
      input: { day: "{{ schedule.time }}", of: "{{ schedule.name }}", fixed: 1 },
      labels: { team: "ops" },
      priority: 7,
    })
    expect(isNew).toBe(true)
    expect(schedule).toMatchObject({ next_at: "2026-11-17T13:00:00.000Z", overlap: "skip", zone: "UTC" })
    expect(schedule.next_ticks).toHaveLength(20)
    expect(schedule.next_ticks[19]).toBe("2026-11-18T08:00:00.000Z")
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started"])
    const { fires } = await umbra.schedules.fires("s")
    const job = await umbra.wait(fires[0]!.job_id!)
    expect(job).toMatchObject({ status: "COMPLETED", workflow: "flow", labels: { team: "ops" }, priority: 7 })
    expect(inputs.get(job.job_id)).toEqual({ day: "2026-11-17T13:00:00.000Z", of: "s", fixed: 1 })
    const came = { name: "s", tick: "2026-11-17T13:00:00.000Z" }
    expect(job.schedule).toEqual(came)
    expect(await umbra.jobs()).toMatchObject([{ schedule: came }])
    expect((await umbra.events(job.job_id))[0]!.payload).toMatchObject({ schedule: { name: "s" } })
    expect((await umbra.schedules.get("s")).last_job).toBe(job.job_id)
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started", "14:00 started"])
    expect((await umbra.schedules.get("s")).next_at).toBe("2026-11-17T15:00:00.000Z")
  })

  it("skips a tick while its job runs", async () => {
    const work = gate()
    const { umbra, clock } = await opened({ handlers: [noop, work.handler] })
    await umbra.register(waiting)
    await umbra.schedules.put("s", { workflow: "flow", every: "1h" })
    clock.advance(HOUR)
    await work.came()
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started", "14:00 skipped"])
    work.open()
    await umbra.wait((await umbra.schedules.get("s")).last_job!)
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started", "14:00 skipped", "15:00 started"])
  })

  it("queues one tick, which starts when the job has ended", async () => {
    const work = gate()
    const { umbra, clock } = await opened({ handlers: [noop, work.handler] })
    await umbra.register(waiting)
    await umbra.schedules.put("s", { workflow: "flow", every: "1h", overlap: "queue_one" })
    clock.advance(HOUR)
    await work.came()
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started", "14:00 queued"])
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started", "14:00 queued", "15:00 skipped"])
    expect((await umbra.schedules.get("s")).queued_tick).toBe("2026-11-17T14:00:00.000Z")
    work.open()
    await whenFired(umbra, ["13:00 started", "14:00 started", "15:00 skipped"])
    expect(work.entered).toHaveLength(2)
    expect((await umbra.schedules.get("s")).queued_tick).toBeNull()
  })

  it("cancels the job that runs", async () => {
    const work = gate()
    const { umbra, clock } = await opened({ handlers: [noop, work.handler] })
    await umbra.register(waiting)
    await umbra.schedules.put("s", { workflow: "flow", every: "1h", overlap: "cancel_running" })
    clock.advance(HOUR)
    await work.came()
    const first = (await umbra.schedules.get("s")).last_job!
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started", "14:00 started"])
    expect((await umbra.wait(first)).status).toBe("CANCELLED")
    work.open()
  })

  it("that cannot start its job records why, and goes on", async () => {
    const { umbra, clock } = await opened()
    await umbra.register({ ...simple, name: "strict", input: { type: "object", required: ["n"] } })
    await umbra.schedules.put("s", { workflow: "strict", every: "1h", input: {} })
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 refused"])
    expect((await umbra.schedules.fires("s")).fires[0]!.reason).toContain("n")
    await umbra.schedules.put("s", { workflow: "strict", every: "1h", input: { n: 1 } })
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 refused", "14:00 started"])
  })

  it("takes the version that its alias means at the tick", async () => {
    const { umbra, clock } = await opened()
    await umbra.registry.putAlias({
      ...{ owner: "local", name: "flow", alias: "live", at: 1, by: "t" },
      targets: [{ version: 1, weight: 1 }],
    })
    await umbra.register(flow([{ id: "b", handler: "noop" }]))
    await umbra.schedules.put("s", { workflow: "flow@live", every: "1h" })
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started"])
    expect((await umbra.wait((await umbra.schedules.get("s")).last_job!)).workflow_version).toBe(1)
  })

  it("does not fire while it is paused, nor catch up what it left out", async () => {
    const { umbra, clock } = await opened()
    await umbra.schedules.put("s", { workflow: "flow", every: "1h", catch_up: "all" })
    expect(await umbra.schedules.pause("s")).toMatchObject({ next_at: null })
    clock.advance(3 * HOUR)
    expect(await umbra.schedules.resume("s")).toMatchObject({ next_at: "2026-11-17T16:00:00.000Z" })
    clock.advance(HOUR)
    await whenFired(umbra, ["16:00 started"])
  })

  it("does not start its queued tick once it is paused", async () => {
    const work = gate()
    const { umbra, clock } = await opened({ handlers: [noop, work.handler] })
    await umbra.register(waiting)
    await umbra.schedules.put("s", { workflow: "flow", every: "1h", overlap: "queue_one" })
    clock.advance(HOUR)
    await work.came()
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started", "14:00 queued"])
    await umbra.schedules.pause("s")
    work.open()
    await umbra.wait((await umbra.schedules.get("s")).last_job!)
    expect(await outcomes(umbra)).toEqual(["13:00 started", "14:00 skipped"])
  })

  it("that is changed keeps what it has done, and fires by its new times", async () => {
    const { umbra, clock } = await opened()
    await umbra.schedules.put("s", { workflow: "flow", every: "1h" })
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started"])
    const { isNew } = await umbra.schedules.put("s", { workflow: "flow", cron: "30 13 * * *" })
    expect(isNew).toBe(false)
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started", "13:30 started"])
  })

  it("runs at once when it is told, beside its ticks", async () => {
    const { umbra, clock } = await opened()
    await umbra.schedules.put("s", { workflow: "flow", every: "1h", input: { at: "{{ schedule.time }}" } })
    const { job_id } = await umbra.schedules.run("s")
    expect(await umbra.wait(job_id)).toMatchObject({ status: "COMPLETED", schedule: null })
    expect(inputs.get(job_id)).toEqual({ at: "2026-11-17T12:00:00.000Z" })
    const { fires } = await umbra.schedules.fires("s")
    expect(fires).toMatchObject([{ kind: "run", outcome: "started", job_id }])
    clock.advance(HOUR)
    await whenFired(umbra, ["12:00 started", "13:00 started"])
  })

  it("is gone once it is deleted, with its outcomes; another of that name begins anew", async () => {
    const { umbra, clock } = await opened()
    await umbra.schedules.put("s", { workflow: "flow", every: "1h" })
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started"])
    await umbra.schedules.delete("s")
    await expect(umbra.schedules.get("s")).rejects.toMatchObject({ code: "E331" })
    await umbra.schedules.put("s", { workflow: "flow", every: "1h" })
    expect(await outcomes(umbra)).toEqual([])
    clock.advance(HOUR)
    await whenFired(umbra, ["14:00 started"])
  })

  it("belongs to its owner", async () => {
    const { umbra } = await opened()
    await umbra.schedules.put("s", { workflow: "flow", every: "1h" })
    await expect(umbra.schedules.get("s", { owner: "other" })).rejects.toMatchObject({ code: "E331" })
    await expect(umbra.schedules.delete("s", { owner: "other" })).rejects.toMatchObject({ code: "E331" })
    await expect(
      umbra.schedules.put("s", { workflow: "flow", every: "1h" }, { owner: "other" }),
    ).rejects.toMatchObject({ code: "E305" })
    expect((await umbra.schedules.list({ owner: "other" })).schedules).toEqual([])
    expect((await umbra.schedules.list()).schedules.map(({ name }) => name)).toEqual(["s"])
  })

  it("whose ticks are more than an append takes starts every job", async () => {
    const { umbra, clock } = await opened()
    for (let index = 0; index < 120; index++)
      await umbra.schedules.put(`s${index}`, { workflow: "flow", every: "1h" })
    clock.advance(HOUR)
    await expect.poll(async () => (await umbra.jobs({ limit: 200 })).length, { timeout: 8000 }).toBe(120)
  })
})

describe("ticks over a limit of unfinished jobs", () => {
  /** `room.jobs`: how many more jobs may start. */
  async function limited() {
    const { umbra, clock } = await opened()
    const room = { jobs: 0 }
    umbra.schedules.limits.admit = () => async (_, store) => {
      if (room.jobs === 0) throw new UmbraError("E646", "no room")
      room.jobs--
      await store()
    }
    const passed = async (expected: readonly string[]) =>
      until(expected.join(), async () => {
        clock.advance(1000)
        return JSON.stringify(await outcomes(umbra)) === JSON.stringify(expected)
      })
    return { umbra, clock, room, passed }
  }

  it("wait, and start late when there is room", async () => {
    const { umbra, clock, room, passed } = await limited()
    await umbra.schedules.put("s", { workflow: "flow", every: "1h" })
    clock.advance(HOUR)
    await until(
      "it is retried later",
      async () => (await umbra.schedules.get("s")).next_at === "2026-11-17T13:00:01.000Z",
    )
    expect(await outcomes(umbra)).toEqual([])
    room.jobs = 1
    await passed(["13:00 started"])
    expect((await umbra.schedules.fires("s")).fires[0]!.reason).toContain("limit of unfinished jobs")
    expect((await umbra.schedules.get("s")).next_at).toBe("2026-11-17T14:00:00.000Z")
    expect(await umbra.jobs()).toHaveLength(1)
  })

  it("are refused once catch_up leaves them out", async () => {
    const { umbra, clock, passed } = await limited()
    await umbra.schedules.put("s", { workflow: "flow", every: "1h", catch_up: "none" })
    clock.advance(HOUR)
    await passed(["13:00 refused"])
    expect((await umbra.schedules.fires("s")).fires[0]!.reason).toContain("limit of unfinished jobs")
    expect(await umbra.jobs()).toEqual([])
  })

  it("do not hold up the ticks before them", async () => {
    const { umbra, clock, room, passed } = await limited()
    await umbra.schedules.put("s", { workflow: "flow", every: "20s", overlap: "allow" })
    room.jobs = 2
    clock.advance(60_000)
    await until("two have started", async () => (await umbra.jobs()).length === 2)
    expect(await umbra.schedules.fires("s")).toMatchObject({ fires: [{}, {}] })
    room.jobs = 1
    await passed(["12:00 started", "12:00 started", "12:01 started"])
  })
})

describe("ticks that the database rejects", () => {
  /** Rejects appends with such an outcome of the schedule `bad`. */
  async function openedWith(isBad: (fire: NewFire) => boolean) {
    const journal = openMemory()
    let bad = ""
    const refuse = ({ fires = [] }: Batch) => {
      if (fires.some(fire => fire.scheduleId === bad && isBad(fire))) throw new JournalDataError("no")
    }
    const { append, tryAppend } = journal
    journal.append = async batch => {
      refuse(batch)
      return append.call(journal, batch)
    }
    journal.tryAppend = async batch => {
      refuse(batch)
      return tryAppend.call(journal, batch)
    }
    const { umbra, clock } = await opened({ at: journal, log: collectLog().log })
    await umbra.register({ ...simple, name: "strict", input: { type: "object", required: ["n"] } })
    const put = async (workflow: string) => {
      await umbra.schedules.put("bad", { workflow, every: "1h" })
      bad = (await journal.schedules.read({ owner: "local", name: "bad" }))!.id
      for (let index = 0; index < 8; index++)
        await umbra.schedules.put(`s${index}`, { workflow, every: "1h" })
    }
    return { umbra, clock, put }
  }

  const others = Array.from({ length: 8 }, (_, index) => `s${index}`)

  it("are refused, and those of other schedules are not, where no tick starts a job", async () => {
    const { umbra, clock, put } = await openedWith(({ reason }) => reason?.includes("schema") === true)
    await put("strict")
    clock.advance(HOUR)
    for (const name of [...others, "bad"]) await whenFired(umbra, ["13:00 refused"], name)
    expect((await umbra.schedules.fires("s0")).fires[0]!.reason).toContain("schema")
    expect((await umbra.schedules.fires("bad")).fires[0]!.reason).toContain("the database rejected")
    clock.advance(HOUR)
    for (const name of [...others, "bad"]) await whenFired(umbra, ["13:00 refused", "14:00 refused"], name)
  })

  it("start no job", async () => {
    const { umbra, clock, put } = await openedWith(({ outcome }) => outcome === "started")
    await put("flow")
    clock.advance(HOUR)
    for (const name of others) await whenFired(umbra, ["13:00 started"], name)
    await whenFired(umbra, ["13:00 refused"], "bad")
    expect((await umbra.schedules.get("bad")).last_job).toBeNull()
    expect(await umbra.jobs({ limit: 100 })).toHaveLength(8)
  })

  it("are decided again later if even that is rejected, and hold up no other schedule", async () => {
    let isBroken = true
    const { umbra, clock, put } = await openedWith(() => isBroken)
    await put("flow")
    clock.advance(HOUR)
    for (const name of others) await whenFired(umbra, ["13:00 started"], name)
    expect(await outcomes(umbra, "bad")).toEqual([])
    isBroken = false
    await until("it is retried", async () => {
      clock.advance(1000)
      return (await outcomes(umbra, "bad")).length === 1
    })
    expect((await outcomes(umbra, "bad"))[0]).toMatch(/^13:00 (started|refused)$/)
  })
})

describe("an engine", () => {
  it("that comes back catches up, and fires no tick twice", async () => {
    const store = createMemoryStore()
    const clock = new VirtualClock({ start })
    const journal = () => openMemory(store)
    const first = await open({ handlers: [noop], clock, at: journal() })
    await first.register(simple)
    await first.schedules.put("s", { workflow: "flow", every: "1h", catch_up: "all", overlap: "allow" })
    clock.advance(HOUR)
    await whenFired(first, ["13:00 started"])
    await first.close()
    clock.advance(2.5 * HOUR)
    const second = await open({ handlers: [noop], clock, at: journal() })
    await whenFired(second, ["13:00 started", "14:00 started", "15:00 started"])
    clock.advance(HOUR)
    await whenFired(second, ["13:00 started", "14:00 started", "15:00 started", "16:00 started"])
    expect(await second.jobs({ limit: 100 })).toHaveLength(4)
  })

  it("that took over starts the queued tick when the job ends", async () => {
    const store = createMemoryStore()
    const clock = new VirtualClock({ start })
    const works = [gate(), gate()]
    const first = await open({
      handlers: [works[0]!.handler],
      clock,
      at: openMemory(store),
      engine: { drainSeconds: 0 },
    })
    await first.register(waiting)
    await first.schedules.put("s", { workflow: "flow", every: "1h", overlap: "queue_one" })
    clock.advance(HOUR)
    await works[0]!.came()
    clock.advance(HOUR)
    await whenFired(first, ["13:00 started", "14:00 queued"])
    await first.close()
    const second = await open({ handlers: [works[1]!.handler], clock, at: openMemory(store) })
    await works[1]!.came()
    expect(await outcomes(second)).toEqual(["13:00 started", "14:00 queued"])
    works[1]!.open()
    await whenFired(second, ["13:00 started", "14:00 started"])
    await works[1]!.came(2)
  })

  it("fires a schedule that another process stored, and only one of several does", async () => {
    const store = createMemoryStore()
    const engines = [await openOn(store, { handlers: [noop] }), await openOn(store, { handlers: [noop] })]
    await engines[0]!.register(simple)
    for (let index = 0; index < 8; index++)
      await engines[index % 2]!.schedules.put(`s${index}`, {
        workflow: "flow",
        every: "1s",
        overlap: "allow",
      })
    await until("each has fired three times", async () => {
      const pages = await Promise.all(
        Array.from({ length: 8 }, (_, index) => engines[0]!.schedules.fires(`s${index}`)),
      )
      return pages.every(({ fires }) => fires.filter(({ outcome }) => outcome === "started").length >= 3)
    })
    for (let index = 0; index < 8; index++) await engines[0]!.schedules.pause(`s${index}`)
    const jobs = new Set<string>()
    for (let index = 0; index < 8; index++) {
      const { fires } = await engines[1]!.schedules.fires(`s${index}`)
      for (const { tick, outcome, job_id } of fires) {
        expect([tick, outcome]).toEqual([tick, "started"])
        expect(jobs.has(job_id!)).toBe(false)
        jobs.add(job_id!)
      }
    }
    const listed = await engines[0]!.jobs({ limit: 1000 })
    expect(new Set(listed.map(({ job_id }) => job_id))).toEqual(jobs)
  })

  it("whose clock is set back fires no tick again; set forward, it fires what has come", async () => {
    let offset = 0
    const clock = new VirtualClock({ start })
    const shifted = {
      now: () => clock.now() + offset,
      random: () => clock.random(),
      after: (ms: number, fire: () => void) => clock.after(ms, fire),
    }
    const { log } = collectLog()
    const umbra = await open({ handlers: [noop], clock: shifted, log })
    await umbra.register(simple)
    await umbra.schedules.put("s", { workflow: "flow", every: "1h", catch_up: "all", overlap: "allow" })
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started"])
    offset = -2 * HOUR
    // The alarm for 14:00 comes when the clock shows 12:00, and is set again.
    clock.advance(HOUR)
    expect(await outcomes(umbra)).toEqual(["13:00 started"])
    offset = 2 * HOUR
    clock.advance(2 * HOUR)
    await whenFired(umbra, [
      "13:00 started",
      "14:00 started",
      "15:00 started",
      "16:00 started",
      "17:00 started",
      "18:00 started",
    ])
    expect(await umbra.jobs({ limit: 100 })).toHaveLength(6)
  })
})
