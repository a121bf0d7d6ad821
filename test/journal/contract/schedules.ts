import { randomUUID } from "node:crypto"
import { describe, expect, it } from "vitest"
import type { NewFire, NewSchedule, ScheduleChange } from "../../../src/journal/port/schedules.ts"
import { batch, fact, type Held, hold, newId, newJob, type Stage } from "../fixture.ts"

export function schedulesContract(stage: () => Stage): void {
  const schedule = (held: Held, over: Partial<NewSchedule> = {}): NewSchedule => ({
    id: randomUUID(),
    owner: newId(),
    name: "nightly",
    partition: held.partition,
    document: '{"workflow":"w"}',
    createdAt: 100,
    lastTick: 100,
    nextAt: 200,
    ...over,
  })

  const decided = ({ id, partition }: NewSchedule, over: Partial<ScheduleChange> = {}): ScheduleChange => ({
    ...{ id, partition, revision: 1, lastTick: 200, lastJob: null, nextAt: 300 },
    ...{ queuedTick: null, startedTick: null, ...over },
  })

  const fire = ({ id, partition }: NewSchedule, over: Partial<NewFire> = {}): NewFire => ({
    ...{ scheduleId: id, partition, tick: 200, kind: "tick", at: 201 },
    ...{ outcome: "started", jobId: null, reason: null, count: 1, ...over },
  })

  const outcomes = async (id: string) =>
    (await stage().peer.schedules.fires({ scheduleId: id, limit: 10 })).map(
      ({ tick, outcome }) => `${tick} ${outcome}`,
    )

  describe("schedules", () => {
    it("stores one per owner and name, also when it is sent twice", async () => {
      const { journal, peer } = stage()
      const given = schedule(await hold(journal))
      expect(await journal.schedules.create(given)).toBe(true)
      expect(await journal.schedules.create(given)).toBe(true)
      expect(await journal.schedules.create({ ...given, id: randomUUID() })).toBe(false)
      const stored = { revision: 1, updatedAt: 100, pausedAt: null, queuedTick: null, lastJob: null }
      expect(await peer.schedules.read(given)).toEqual({ ...given, ...stored })
      expect(await peer.schedules.read({ ...given, owner: newId() })).toBeNull()
    })

    it("lists those of an owner by name, in pages", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const owner = newId()
      for (const name of ["b", "a", "c"]) await journal.schedules.create(schedule(held, { owner, name }))
      await journal.schedules.create(schedule(held))
      const page = async (after?: string, { limit = 2, maxBytes = 1e6 } = {}) => {
        const { schedules, isLast } = await journal.schedules.list({ owner, after, limit, maxBytes })
        return [schedules.map(({ name }) => name).join(""), isLast]
      }
      expect(await page()).toEqual(["ab", false])
      expect(await page("b")).toEqual(["c", true])
      expect(await page("c")).toEqual(["", true])
      expect(await page("a")).toEqual(["bc", true])
      const bytes = Buffer.byteLength(schedule(held).document)
      expect(await page("", { limit: 10, maxBytes: 2 * bytes })).toEqual(["ab", false])
      expect(await page("", { limit: 10, maxBytes: 3 * bytes })).toEqual(["abc", true])
      // The first is in any page.
      expect(await page("", { limit: 10, maxBytes: 1 })).toEqual(["a", false])
    })

    it("changes one only at the revision that the caller has read, and never lowers its last tick", async () => {
      const { journal } = stage()
      const given = schedule(await hold(journal))
      await journal.schedules.create(given)
      const edit = { id: given.id, document: '{"workflow":"x"}', updatedAt: 150, dropsQueued: false }
      const pause = { ...edit, revision: 1, pausedAt: 150, lastTick: 50, nextAt: null }
      expect(await journal.schedules.change(pause)).toBe(true)
      expect(await journal.schedules.change(pause)).toBe(false)
      expect(await journal.schedules.read(given)).toMatchObject({
        ...{ document: edit.document, revision: 2, pausedAt: 150, lastTick: 100, nextAt: null },
      })
    })

    it("stores a tick, its job and its outcome together, behind the fence", async () => {
      const { journal, peer } = stage()
      const held = await hold(journal)
      const given = schedule(held)
      await journal.schedules.create(given)
      const job = newJob(held, 1)
      const tick = batch(held, {
        newJobs: [job],
        facts: [fact(held, 1, { jobId: job.id })],
        schedules: [decided(given, { lastJob: job.id })],
        fires: [fire(given, { jobId: job.id })],
      })
      const stale = { ...tick, fences: [{ partition: held.partition, epoch: held.epoch - 1 }] }
      expect((await journal.append(stale)).held.size).toBe(0)
      expect(await peer.schedules.read(given)).toMatchObject({ lastTick: 100, nextAt: 200 })
      expect(await outcomes(given.id)).toEqual([])
      for (const inserted of [1, 0]) expect((await journal.append(tick)).inserted).toBe(inserted)
      expect(await peer.schedules.read(given)).toMatchObject({
        ...{ lastTick: 200, nextAt: 300, lastJob: job.id, revision: 1 },
      })
      expect(await peer.readJob(job.id)).toEqual(job)
      expect(await outcomes(given.id)).toEqual(["200 started"])
    })

    it("keeps the next time of an edit that came between decision and append", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const given = schedule(held)
      await journal.schedules.create(given)
      const append = (over: Partial<ScheduleChange>, counter: number) =>
        journal.append(batch(held, { facts: [fact(held, counter)], schedules: [decided(given, over)] }))
      await append({ lastTick: 180, queuedTick: 180 }, 1)
      const { id, document } = given
      const edit = { id, document, updatedAt: 150, pausedAt: null, lastTick: 150, nextAt: 777 }
      await journal.schedules.change({ ...edit, revision: 1, dropsQueued: false })
      await append({ lastTick: 200 }, 2)
      expect(await journal.schedules.read(given)).toMatchObject({
        lastTick: 200,
        nextAt: 777,
        queuedTick: 180,
      })
      await append({ lastTick: 200, startedTick: 180 }, 3)
      expect(await journal.schedules.read(given)).toMatchObject({ nextAt: 777, queuedTick: null })
      await append({ lastTick: 190, revision: 2 }, 4)
      expect(await journal.schedules.read(given)).toMatchObject({ lastTick: 200, nextAt: 777 })
      await append({ lastTick: 300, revision: 2, queuedTick: 300 }, 5)
      await journal.schedules.change({ ...edit, revision: 2, dropsQueued: true })
      expect(await journal.schedules.read(given)).toMatchObject({ lastTick: 300, queuedTick: null })
    })

    it("keeps the job of a tick, and that a queued one has started, although an edit of the times came between", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const given = schedule(held)
      await journal.schedules.create(given)
      const [job, next] = [newJob(held, 1), newJob(held, 3)]
      const append = (over: Partial<ScheduleChange>, counter: number, newJobs = [job]) =>
        journal.append(
          batch(held, {
            ...(counter === 2 ? {} : { newJobs }),
            facts: [fact(held, counter, { jobId: newJobs[0]!.id })],
            schedules: [decided(given, over)],
          }),
        )
      await append({ lastJob: job.id }, 1)
      await append({ lastTick: 300, queuedTick: 300 }, 2)
      const { id, document } = given
      const edit = { id, document, updatedAt: 450, pausedAt: null, lastTick: 450, nextAt: 777 }
      await journal.schedules.change({ ...edit, revision: 1, dropsQueued: false })
      for (const _ of ["sent", "sent again"])
        await append({ lastTick: 400, lastJob: next.id, startedTick: 300, nextAt: 500 }, 3, [next])
      expect(await journal.schedules.read(given)).toMatchObject({
        ...{ lastJob: next.id, queuedTick: null, lastTick: 450, nextAt: 777, revision: 2 },
      })
    })

    it("queues a tick although an edit came between, and skips it if that was a pause or set other times", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const given = schedule(held)
      await journal.schedules.create(given)
      const queue = (tick: number, counter: number) =>
        journal.append(
          batch(held, {
            facts: [fact(held, counter)],
            schedules: [decided(given, { lastTick: tick, queuedTick: tick })],
            fires: [fire(given, { tick, outcome: "queued", reason: "the job before it had not ended" })],
          }),
        )
      const { id, document } = given
      const edit = {
        id,
        document,
        updatedAt: 150,
        pausedAt: null,
        lastTick: 100,
        nextAt: 777,
        dropsQueued: false,
      }
      await journal.schedules.change({ ...edit, revision: 1 })
      await queue(200, 1)
      expect(await journal.schedules.read(given)).toMatchObject({
        lastTick: 200,
        queuedTick: 200,
        nextAt: 777,
      })
      await journal.schedules.change({ ...edit, revision: 2, lastTick: 400 })
      await queue(300, 2)
      expect(await journal.schedules.read(given)).toMatchObject({ lastTick: 400, queuedTick: 200 })
      await journal.schedules.change({ ...edit, revision: 3, pausedAt: 160, nextAt: null, dropsQueued: true })
      await queue(500, 3)
      expect(await journal.schedules.read(given)).toMatchObject({ queuedTick: null })
      expect(await outcomes(id)).toEqual(["500 skipped", "300 skipped", "200 skipped"])
    })

    it("an outcome that is added replaces that of a queued tick, and no other", async () => {
      const { journal } = stage()
      const given = schedule(await hold(journal))
      const { partition: _, ...base } = fire(given)
      const paused = { ...base, outcome: "skipped", reason: "paused" } as const
      for (const outcome of ["queued", "started"] as const) {
        const tick = outcome === "queued" ? 1 : 2
        await journal.schedules.addFire({ ...base, tick, outcome })
        await journal.schedules.addFire({ ...paused, tick })
      }
      expect(await outcomes(given.id)).toEqual(["2 started", "1 skipped"])
    })

    it("a queued tick that starts is one outcome", async () => {
      const { journal } = stage()
      const held = await hold(journal)
      const given = schedule(held)
      await journal.schedules.create(given)
      const append = (queuedTick: number | null, over: Partial<NewFire>, counter: number) =>
        journal.append(
          batch(held, {
            facts: [fact(held, counter)],
            schedules: [decided(given, { queuedTick })],
            fires: [fire(given, over)],
          }),
        )
      await append(200, { outcome: "queued", reason: "the job before it had not ended" }, 1)
      expect(await journal.schedules.queued([held.partition])).toEqual([given.id])
      expect(await journal.schedules.readMany([given.id, randomUUID()])).toEqual([
        { ...(await journal.schedules.read(given))!, queuedTick: 200 },
      ])
      await append(null, { at: 250 }, 2)
      expect(await journal.schedules.queued([held.partition])).toEqual([])
      expect(await journal.schedules.fires({ scheduleId: given.id, limit: 10 })).toEqual([
        { tick: 200, kind: "tick", at: 250, outcome: "started", jobId: null, reason: null, count: 1 },
      ])
    })

    it("finds those that are due in some partitions, and when the next one is", async () => {
      const { journal } = stage()
      const [one, two, other] = [await hold(journal), await hold(journal), await hold(journal)]
      const due = [schedule(one, { nextAt: 210 }), schedule(two, { nextAt: 205 })]
      const rest = [
        schedule(other, { nextAt: 1 }),
        schedule(one, { nextAt: null }),
        schedule(two, { nextAt: 400 }),
      ]
      for (const given of [...due, ...rest]) await journal.schedules.create(given)
      const partitions = [one.partition, two.partition]
      const find = async (at: number, bounds: { limit?: number; maxBytes?: number } = {}) => {
        const query = { partitions, at, limit: 10, limitOfPartition: 10, maxBytes: 1e6, ...bounds }
        const { schedules, nextAt } = await journal.schedules.due(query)
        return [...schedules.map(({ id }) => id), nextAt]
      }
      expect(await find(210)).toEqual([due[1]!.id, due[0]!.id, 400])
      expect(await find(210, { limit: 1 })).toEqual([due[1]!.id, 400])
      const bytes = Buffer.byteLength(due[0]!.document)
      expect(await find(210, { maxBytes: 2 * bytes })).toEqual([due[1]!.id, due[0]!.id, 400])
      // The first is in any page.
      for (const maxBytes of [1, 2 * bytes - 1])
        expect(await find(210, { maxBytes })).toEqual([due[1]!.id, 400])
      expect(await find(100)).toEqual([205])
      expect(await find(400)).toContain(null)
      const beat = await journal.beat({ engine: one.engine, place: "", beat: 1, follows: false })
      expect(beat.nextFireAt).toBe(210)
    })

    it("reads few of a partition in which many are due, and counts those of an owner up to a limit", async () => {
      const { journal } = stage()
      const [full, other] = [await hold(journal), await hold(journal)]
      const owner = newId()
      for (let n = 0; n < 5; n++)
        await journal.schedules.create(schedule(full, { owner, name: `s${n}`, nextAt: 200 + n }))
      const late = schedule(other, { nextAt: 300 })
      await journal.schedules.create(late)
      const { schedules } = await journal.schedules.due({
        ...{ partitions: [full.partition, other.partition], at: 300 },
        ...{ limit: 10, limitOfPartition: 2, maxBytes: 1e6 },
      })
      expect(schedules.map(({ name }) => name)).toEqual(["s0", "s1", late.name])
      const count = (limit: number) => journal.schedules.count({ owner, limit })
      expect([await count(3), await count(5), await count(9)]).toEqual([3, 5, 5])
      expect(await journal.schedules.count({ owner: newId(), limit: 9 })).toBe(0)
    })

    it("lists outcomes newest first, removes old ones, and all with the schedule", async () => {
      const { journal } = stage()
      const given = schedule(await hold(journal))
      await journal.schedules.create(given)
      for (const tick of [5, 6, 7e12])
        await journal.schedules.addFire({ ...fire(given), tick, at: tick, kind: "run" })
      expect(await outcomes(given.id)).toEqual(["7000000000000 started", "6 started", "5 started"])
      const page = await journal.schedules.fires({
        scheduleId: given.id,
        before: { tick: 7, kind: "" },
        limit: 1,
      })
      expect(page.map(({ tick }) => tick)).toEqual([6])
      await journal.schedules.addFire({ ...fire(given), tick: 6, at: 6, kind: "backfill:x" })
      const between = async (tick: number, kind: string, to: number) =>
        (
          await journal.schedules.firesBetween({ scheduleId: given.id, after: { tick, kind }, to, limit: 2 })
        ).map(found => [found.tick, found.kind])
      expect(await between(5, "", 8)).toEqual([
        [5, "run"],
        [6, "backfill:x"],
      ])
      expect(await between(6, "backfill:x", 8)).toEqual([[6, "run"]])
      expect(await between(5, "run", 6)).toEqual([])
      const before = { tick: 6, kind: "run" }
      const rest = await journal.schedules.fires({ scheduleId: given.id, before, limit: 10 })
      expect(rest.map(({ tick, kind }) => [tick, kind])).toEqual([
        [6, "backfill:x"],
        [5, "run"],
      ])
      await journal.tidy({ before: 6, unsettledBefore: 0, silentSince: 0, limit: 100 })
      expect(await outcomes(given.id)).toEqual(["7000000000000 started", "6 started", "6 started"])
      expect(await journal.schedules.remove(given)).toBe(true)
      expect(await journal.schedules.remove(given)).toBe(false)
      expect(await outcomes(given.id)).toEqual([])
    })
  })
}
