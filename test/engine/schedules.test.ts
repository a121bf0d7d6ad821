/** Schedules: one job per tick, whatever happens to the engines. */
import { cp, rm } from "node:fs/promises"
import pg from "pg"
import { describe, expect, it, onTestFinished } from "vitest"
import { ScheduleRequests } from "../../src/jobs/schedules/schedules.ts"
import { openJournal } from "../../src/journal/open.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { Umbra } from "../../src/umbra.ts"
import { stores } from "../server/stage.ts"
import { freshDatabase, postgresUrl } from "../support/services.ts"
import { HOUR, inputs, noop, opened, outcomes, simple, start, waiting, whenFired } from "./schedule-stage.ts"
import { collectLog, flow, gate, handler, open, openOn, until } from "./stage.ts"

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

  it("counts ticks by outcome, and how late they were", async () => {
    const { umbra, clock } = await opened()
    await umbra.schedules.put("s", { workflow: "flow", every: "1h", catch_up: "all" })
    await umbra.schedules.put("t", { workflow: "flow", every: "1h", catch_up: "none" })
    clock.advance(2 * HOUR + 120_000)
    await whenFired(umbra, ["13:00 started", "14:00 skipped"])
    await whenFired(umbra, ["14:00 missed"], "t")
    const counted = () => Object.fromEntries(umbra.metrics().engine.fires)
    await expect.poll(counted).toEqual({ "tick started": 1, "tick skipped": 1, "tick missed": 2 })
    expect(umbra.metrics().engine.fireSeconds.sum).toBe(HOUR / 1000 + 120)
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

  it("with several ticks that would cancel each other starts the last of them", async () => {
    const { clock, umbra } = await opened()
    await umbra.schedules.put("s", {
      workflow: "flow",
      every: "1h",
      overlap: "cancel_running",
      catch_up: "all",
    })
    clock.advance(3 * HOUR)
    await whenFired(umbra, ["13:00 skipped", "14:00 skipped", "15:00 started"])
    clock.advance(HOUR)
    await expect.poll(async () => (await outcomes(umbra)).at(-1)).toBe("16:00 started")
    expect(await umbra.jobs()).toHaveLength(2)
  })

  it("does not cancel the job that runs for a tick that is refused", async () => {
    const work = gate()
    const { umbra, clock } = await opened({ handlers: [noop, work.handler] })
    await umbra.register({ ...waiting, input: { type: "object", required: ["n"] } })
    const document = { workflow: "flow", every: "1h", overlap: "cancel_running" } as const
    await umbra.schedules.put("s", { ...document, input: { n: 1 } })
    clock.advance(HOUR)
    await work.came()
    await umbra.schedules.put("s", { ...document, input: {} })
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started", "14:00 refused"])
    work.open()
    const job = await umbra.wait((await umbra.schedules.get("s")).last_job!)
    expect(job.status).toBe("COMPLETED")
  })

  it("that cannot start its job records why, and continues", async () => {
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

  it("runs at once on request, beside its ticks", async () => {
    const { umbra, clock } = await opened()
    await umbra.schedules.put("s", { workflow: "flow", every: "1h", input: { at: "{{ schedule.time }}" } })
    const { job_id } = await umbra.schedules.run("s")
    expect(await umbra.wait(job_id)).toMatchObject({ status: "COMPLETED", schedule: null })
    expect(inputs.get(job_id)).toEqual({ at: "2026-11-17T12:00:00.000Z" })
    const { fires } = await umbra.schedules.fires("s")
    expect(fires).toMatchObject([{ kind: "run", bulk_id: null, outcome: "started", job_id }])
    clock.advance(HOUR)
    await whenFired(umbra, ["12:00 started", "13:00 started"])
  })

  it("lists runs that two processes started in the same millisecond", async () => {
    const store = createMemoryStore()
    const clock = new VirtualClock({ start })
    const engines = [await openOn(store, { handlers: [noop], clock }), await openOn(store, { clock })]
    await engines[0]!.register(simple)
    await engines[0]!.schedules.put("s", { workflow: "flow", every: "1h" })
    const runs = Promise.all(engines.map(engine => engine.schedules.run("s")))
    await until("both have started", async () => {
      clock.advance(1)
      return (await engines[0]!.schedules.fires("s")).fires.length === 2
    })
    const started = (await runs).map(({ job_id }) => job_id)
    const { fires } = await engines[1]!.schedules.fires("s")
    expect(fires.map(({ job_id }) => job_id).sort()).toEqual(started.sort())
    expect(new Set(fires.map(({ tick }) => tick)).size).toBe(1)
  })

  it("is gone once it is deleted, with its outcomes; another of that name begins again", async () => {
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
    await expect.poll(async () => (await umbra.jobs({ limit: 200 })).length).toBe(120)
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

it("an engine whose clock is set forward, or whose computer was suspended, starts what has come within ten seconds", async () => {
  let offset = 0
  const clock = new VirtualClock({ start })
  const shifted = {
    now: () => clock.now() + offset,
    random: () => clock.random(),
    after: (ms: number, fire: () => void) => clock.after(ms, fire),
  }
  const umbra = await open({ handlers: [noop], clock: shifted })
  await umbra.register(simple)
  await umbra.schedules.put("s", { workflow: "flow", every: "1h" })
  const job = await umbra.submit("flow", {}, { delaySeconds: 3600 })
  clock.advance(60_000)
  offset = HOUR
  clock.advance(10_000)
  await whenFired(umbra, ["13:00 started"])
  expect((await job.wait()).status).toBe("COMPLETED")
})

it("jobs in memory notice within ten seconds that their clock was set forward", async () => {
  let offset = 0
  const clock = new VirtualClock({ start })
  const shifted = {
    now: () => clock.now() + offset,
    random: () => clock.random(),
    after: (ms: number, fire: () => void) => clock.after(ms, fire),
  }
  const work = gate()
  let tries = 0
  const flaky = handler("flaky", () => {
    if (++tries === 1) throw Object.assign(new Error("not yet"), { retryable: true })
  })
  const umbra = await open({ handlers: [flaky, work.handler], clock: shifted })
  const retry = { max_attempts: 2, initial_seconds: 3000, max_seconds: 3000, jitter: 0 }
  await umbra.register(
    flow([
      { id: "a", handler: "flaky", retry },
      { id: "b", handler: "gate" },
    ]),
  )
  // The node that runs keeps the job in memory.
  const job = await umbra.submit("flow", {}, { ttlSeconds: 7200 })
  await work.came()
  await until("the first try has failed", () => tries === 1)
  await expect.poll(async () => (await job.graph()).nodes[0]!.status).toBe("QUEUED")
  offset = HOUR
  clock.advance(10_000)
  await until("the second try has begun", () => tries === 2)
  offset = 2 * HOUR
  clock.advance(10_000)
  expect((await job.wait()).status).toBe("EXPIRED")
})

describe("a restored backup", () => {
  /** A copy of a store that no process has open. */
  const backups: Readonly<Record<string, (location: string) => Promise<string>>> = {
    SQLite: async location => {
      const copy = `${location}-backup`
      onTestFinished(() => rm(copy, { recursive: true, force: true }))
      await cp(location, copy, { recursive: true })
      return copy
    },
    PostgreSQL: async location => {
      const { name, url, drop } = await freshDatabase()
      onTestFinished(drop)
      await drop()
      const client = new pg.Client({ connectionString: postgresUrl() })
      await client.connect()
      await client.query(`create database ${name} template ${new URL(location).pathname.slice(1)}`)
      await client.end()
      return url
    },
  }

  it.each(["SQLite", "PostgreSQL"])(
    "on %s fires no tick again that it knows of; later ones have the jobs that they had, and one each",
    async kind => {
      const { location, remove } = await stores[kind]!()
      onTestFinished(() => remove())
      const clock = new VirtualClock({ start })
      const engine = { beatSeconds: 1, leaseSeconds: 10 }
      const begin = (at: string) => open({ at, handlers: [noop], clock, engine })
      const passed = async (umbra: Umbra, expected: readonly string[]) => {
        await until(expected.join(), async () => {
          clock.advance(100)
          return JSON.stringify(await outcomes(umbra)) === JSON.stringify(expected)
        })
        const { fires } = await umbra.schedules.fires("s")
        return fires.map(({ tick, job_id }) => [tick.slice(11, 16), job_id]).reverse()
      }
      const first = await begin(location)
      await first.register(simple)
      await first.schedules.put("s", { workflow: "flow", every: "1h", overlap: "allow", catch_up: "all" })
      clock.advance(HOUR)
      await passed(first, ["13:00 started"])
      await first.close()
      const backup = await backups[kind]!(location)
      const lost = await begin(location)
      clock.advance(2 * HOUR)
      const all = ["13:00 started", "14:00 started", "15:00 started"]
      const before = await passed(lost, all)
      await lost.close()
      const journal = await openJournal(backup)
      await journal.restored()
      await journal.close()
      const restored = await begin(backup)
      expect(await passed(restored, all)).toEqual(before)
      clock.advance(HOUR)
      await passed(restored, [...all, "16:00 started"])
      expect(await restored.jobs()).toHaveLength(4)
    },
  )

  it("fires none of the ticks since the backup if its schedules are paused first", async () => {
    const store = createMemoryStore()
    const clock = new VirtualClock({ start })
    const journal = openMemory(store)
    const first = await openOn(store, { handlers: [noop], clock })
    await first.register(simple)
    await first.schedules.put("s", { workflow: "flow", every: "1h" })
    await first.close()
    clock.advance(3 * HOUR)
    const requests = new ScheduleRequests({
      journal,
      firing: { changed() {} },
      submit: () => Promise.reject(new Error("no engine runs")),
      startBackfill: () => Promise.reject(new Error("no engine runs")),
      now: () => clock.now(),
    })
    await requests.pause("s")
    const umbra = await openOn(store, { handlers: [noop], clock })
    await umbra.schedules.resume("s")
    clock.advance(HOUR)
    await whenFired(umbra, ["16:00 started"])
  })
})
