/** Edits of a schedule that come while the append of its tick is under way. */
import { describe, expect, it } from "vitest"
import { isOverLimit } from "../../src/engine/schedules/tick-limits.ts"
import type { Batch } from "../../src/journal/port/journal.ts"
import type { NewFire, ScheduleRow } from "../../src/journal/port/schedules.ts"
import { openMemory } from "../../src/journal/sqlite/memory.ts"
import { parseSchedule, type ScheduleRequest, scheduleRules } from "../../src/schedule/document.ts"
import { fireTime } from "../../src/schedule/policy.ts"
import { HOUR, noop, opened, simple, start, waiting, whenFired } from "./schedule-stage.ts"
import { gate } from "./stage.ts"

type Overlap = "skip" | "queue_one" | "allow"

/** It is changed once, and some time passes, between decision and append of a tick with such an outcome. */
async function openedWith(
  overlap: Overlap,
  isEdited: (fire: NewFire) => boolean,
  { change = { every: "30m" }, passesMs = 0 }: { change?: Partial<ScheduleRequest>; passesMs?: number } = {},
) {
  const journal = openMemory()
  const work = gate()
  let isDone = false
  const { append, tryAppend } = journal
  const { umbra, clock } = await opened({ at: journal, handlers: [noop, work.handler] })
  const put = (given: Partial<ScheduleRequest>) =>
    umbra.schedules.put("s", { workflow: "flow", every: "1h", catch_up: "all", overlap, ...given })
  const edit = async ({ fires = [] }: Batch) => {
    if (isDone || !fires.some(isEdited)) return
    isDone = true
    await put(change)
    clock.advance(passesMs)
  }
  journal.append = async batch => {
    await edit(batch)
    return append.call(journal, batch)
  }
  journal.tryAppend = async batch => {
    await edit(batch)
    return tryAppend.call(journal, batch)
  }
  await umbra.register(waiting)
  await put({})
  return { umbra, clock, work }
}

describe("a schedule that gets other times while its tick is stored", () => {
  it("knows the job of that tick: the next one does not start beside it", async () => {
    const { umbra, clock, work } = await openedWith("skip", ({ outcome }) => outcome === "started")
    clock.advance(HOUR + 1000)
    await work.came()
    await whenFired(umbra, ["13:00 started"])
    const [job] = await umbra.jobs()
    expect((await umbra.schedules.get("s")).last_job).toBe(job!.job_id)
    clock.advance(HOUR / 2 - 1000)
    await whenFired(umbra, ["13:00 started", "13:30 skipped"])
    work.open()
  })

  it("starts a queued tick once", async () => {
    const { umbra, clock, work } = await openedWith(
      "queue_one",
      ({ tick, outcome }) => outcome === "started" && tick % (2 * HOUR) === 0,
    )
    clock.advance(HOUR)
    await work.came()
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started", "14:00 queued"])
    clock.advance(1000)
    work.open()
    await whenFired(umbra, ["13:00 started", "14:00 started"])
    await work.came(2)
    expect(await umbra.schedules.get("s")).toMatchObject({ queued_tick: null })
    clock.advance(HOUR / 2 - 1000)
    await whenFired(umbra, ["13:00 started", "14:00 started", "14:30 started"])
    await work.came(3)
    const jobs = await umbra.jobs({ limit: 10 })
    expect(new Set(jobs.map(({ schedule }) => schedule!.tick)).size).toBe(3)
    expect(work.entered).toHaveLength(3)
    for (const { job_id } of jobs)
      expect(await umbra.queries.verify(await umbra.queries.row(job_id))).toEqual([])
  })
})

describe("a schedule that is changed while its tick is stored", () => {
  it("does not blame a limit for its next tick", async () => {
    const labels = { team: "ops" }
    const { umbra, clock } = await openedWith("allow", ({ outcome }) => outcome === "started", {
      change: { labels },
      passesMs: HOUR,
    })
    await umbra.register(simple)
    clock.advance(HOUR)
    await whenFired(umbra, ["13:00 started", "14:00 started"])
    const { fires } = await umbra.schedules.fires("s")
    expect(fires.map(({ reason }) => reason)).toEqual([null, null])
  })

  it.each([0, 600])("does not blame a limit for its queued tick, with a jitter of %i s", jitter_seconds => {
    const rules = scheduleRules("id", parseSchedule({ workflow: "w", every: "1h", jitter_seconds }))
    const tick = start + 2 * HOUR
    const isOver = (nextAt: number) =>
      isOverLimit({ nextAt, lastTick: tick, queuedTick: tick } as ScheduleRow, rules)
    expect(isOver(fireTime(rules, tick))).toBe(false)
    expect(isOver(fireTime(rules, tick) + 1)).toBe(true)
  })
})
