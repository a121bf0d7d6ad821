/** Ticks that cannot start their job when they are due: over a limit, or refused by the store. */
import { describe, expect, it } from "vitest"
import { UmbraError } from "../../src/errors.ts"
import { JournalDataError, JournalUnavailableError } from "../../src/journal/errors.ts"
import type { Batch } from "../../src/journal/port/journal.ts"
import type { NewFire } from "../../src/journal/port/schedules.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { Umbra } from "../../src/umbra.ts"
import { HOUR, noop, opened, outcomes, simple, start, whenFired } from "./schedule-stage.ts"
import { collectLog, openOn, until } from "./stage.ts"

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
    expect((await umbra.schedules.fires("s")).fires).toMatchObject([
      { outcome: "queued", reason: "the limit of unfinished jobs was reached", job_id: null },
    ])
    room.jobs = 1
    await passed(["13:00 started"])
    expect((await umbra.schedules.fires("s")).fires[0]!.reason).toContain("limit of unfinished jobs")
    expect((await umbra.schedules.get("s")).next_at).toBe("2026-11-17T14:00:00.000Z")
    expect(await umbra.jobs()).toHaveLength(1)
  })

  it("are known to the next engine, and are tried less and less often", async () => {
    const store = createMemoryStore()
    const clock = new VirtualClock({ start })
    const tries: number[] = []
    let isFull = true
    const begin = async () => {
      const umbra = await openOn(store, { handlers: [noop], clock })
      umbra.schedules.limits.admit = () => async (_, save) => {
        tries.push(clock.now() - start - HOUR)
        if (isFull) throw new UmbraError("E646", "no room")
        await save()
      }
      return umbra
    }
    /** Time stands still while a try is due or under way. */
    const pass = async ({ schedules }: Umbra, done: () => unknown) =>
      until("time passes", async () => {
        if (Date.parse((await schedules.get("s")).next_at!) > clock.now()) clock.advance(500)
        return done()
      })
    const first = await begin()
    await first.register(simple)
    await first.schedules.put("s", { workflow: "flow", every: "1h" })
    clock.advance(HOUR)
    await pass(first, () => tries.length === 5)
    // Each pause is as long as the tick has waited, or a little longer.
    for (const [index, at] of tries.slice(2).entries())
      expect(at).toBeGreaterThanOrEqual(2 * tries[index + 1]!)
    await first.close()
    const second = await begin()
    await pass(second, () => tries.length === 7)
    expect((await second.schedules.fires("s")).fires).toMatchObject([{ outcome: "queued" }])
    isFull = false
    await pass(second, async () => (await outcomes(second))[0] === "13:00 started")
    expect((await second.schedules.fires("s")).fires).toMatchObject([
      { reason: "started late: the limit of unfinished jobs was reached" },
    ])
  })

  it.each([
    ["paused", { every: "1h" }],
    ["changed", { every: "2h" }],
  ])("are skipped if the schedule is %s meanwhile", async (what, times) => {
    const { umbra, clock } = await limited()
    await umbra.schedules.put("s", { workflow: "flow", every: "1h" })
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 queued"])
    if (what === "paused") await umbra.schedules.pause("s")
    else await umbra.schedules.put("s", { workflow: "flow", ...times })
    expect((await umbra.schedules.fires("s")).fires).toMatchObject([
      { outcome: "skipped", reason: `the schedule was ${what}` },
    ])
  })

  it("are refused once catch_up leaves them out", async () => {
    const { umbra, clock, passed } = await limited()
    await umbra.schedules.put("s", { workflow: "flow", every: "1h", catch_up: "none" })
    clock.advance(HOUR)
    await passed(["13:00 refused"])
    expect((await umbra.schedules.fires("s")).fires[0]!.reason).toContain("limit of unfinished jobs")
    expect(await umbra.jobs()).toEqual([])
  })

  it("each have an end in the history, also if many are left out together", async () => {
    const { umbra, clock } = await limited()
    await umbra.schedules.put("s", { workflow: "flow", every: "1h", catch_up: "none" })
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 queued"])
    clock.advance(4.5 * HOUR)
    await whenFired(umbra, ["13:00 refused", "17:00 refused"])
    const { fires } = await umbra.schedules.fires("s")
    expect(fires.map(({ count }) => count)).toEqual([4, 1])
  })

  it("do not hold up the ticks before them", async () => {
    const { umbra, clock, room, passed } = await limited()
    await umbra.schedules.put("s", { workflow: "flow", every: "20s", overlap: "allow" })
    room.jobs = 2
    clock.advance(60_000)
    await until("two have started", async () => (await umbra.jobs()).length === 2)
    expect(await outcomes(umbra)).toEqual(["12:00 started", "12:00 started", "12:01 queued"])
    room.jobs = 1
    await passed(["12:00 started", "12:00 started", "12:01 started"])
  })
})

it("decides a tick again if the store does not answer", async () => {
  const journal = openMemory()
  let lost = 0
  const { registry } = journal
  const readLatest = registry.readLatest.bind(registry)
  const { clock, umbra } = await opened({ at: journal })
  await umbra.schedules.put("s", { workflow: "flow", every: "1h" })
  registry.readLatest = key =>
    lost++ < 2 ? Promise.reject(new JournalUnavailableError("no answer")) : readLatest(key)
  clock.advance(HOUR)
  await until("it has fired", async () => {
    clock.advance(1000)
    return (await outcomes(umbra)).length > 0
  })
  expect(await outcomes(umbra)).toEqual(["13:00 started"])
  expect(lost).toBe(3)
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
