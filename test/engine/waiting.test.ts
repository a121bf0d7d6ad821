import { describe, expect, it } from "vitest"
import type { Recovery } from "../../src/engine/recovery/recovery.ts"
import { Wakeups } from "../../src/engine/recovery/wakeups.ts"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import { silentLog } from "../../src/log.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { flow, handler, open, openOn, until } from "./stage.ts"

const HOUR = 3_600_000

const nap = (seconds: number) =>
  flow([
    { id: "nap", handler: "sleep", config: { seconds } },
    { id: "after", handler: "transform", config: { value: "awake" }, dependencies: ["nap"] },
  ])

describe("jobs that only wait", () => {
  it("leave memory and wake in time", async () => {
    const clock = new VirtualClock()
    const umbra = await open({ clock, engine: { ttlSeconds: null } })
    const jobs = await Promise.all([1, 2, 3].map(hours => umbra.submit(nap(hours * 3600))))
    await until("all have left memory", () => jobs.every(job => !umbra.activity(job.id).isHere))
    for (const job of jobs) {
      clock.advance(HOUR - 1)
      await new Promise(resolve => setImmediate(resolve))
      expect((await job.status()).status).toBe("PROCESSING")
      clock.advance(1)
      expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { after: "awake" } })
    }
  })

  it("wake in time although an earlier timer has been removed", async () => {
    const clock = new VirtualClock()
    const umbra = await open({ clock, engine: { ttlSeconds: null } })
    const wait = (id: string, hours: number) => ({
      id,
      handler: "wait_for_signal",
      config: { signal: id, timeout_seconds: hours * 3600, default: `no ${id}` },
    })
    const job = await umbra.submit(flow([wait("early", 1), wait("late", 3)]))
    const left = () => until("it has left memory", () => !umbra.activity(job.id).isHere)
    await left()
    await umbra.signal(job.id, "early", "came")
    await left()
    for (let hour = 0; hour < 2; hour++) {
      clock.advance(HOUR)
      await new Promise(resolve => setImmediate(resolve))
      await left()
    }
    clock.advance(HOUR)
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({
      output: { early: "came", late: "no late" },
    })
  })

  it("wake in time after a restart, also when they became due while no process ran", async () => {
    const store = createMemoryStore()
    const clock = new VirtualClock()
    const first = await openOn(store, { clock })
    const due = await first.submit(nap(60))
    const later = await first.submit(nap(7200))
    await until("both have left memory", () => [due, later].every(job => !first.activity(job.id).isHere))
    await first.close()
    clock.advance(HOUR)
    const second = await openOn(store, { clock })
    await until("the next engine owns all", () => {
      clock.advance(20)
      return second.owns(due.id) && second.owns(later.id)
    })
    expect(await second.wait(due.id)).toMatchObject({ status: "COMPLETED" })
    expect((await second.job(later.id)).status).toBe("PROCESSING")
    clock.advance(HOUR)
    expect(await second.wait(later.id)).toMatchObject({ status: "COMPLETED" })
  })

  it("do not miss their time when the system's clock is set back", async () => {
    let offset = 0
    const clock = new VirtualClock()
    const now = clock.now.bind(clock)
    clock.now = () => now() + offset
    const umbra = await open({ clock, engine: { ttlSeconds: null } })
    const first = await umbra.submit(nap(3600))
    await until("it has left memory", () => !umbra.activity(first.id).isHere)
    clock.advance(HOUR)
    await first.wait()
    offset = -HOUR
    const second = await umbra.submit(nap(600))
    await until("it has left memory", () => !umbra.activity(second.id).isHere)
    clock.advance(HOUR)
    expect(await second.wait({ timeoutMs: 60_000 })).toMatchObject({ status: "COMPLETED" })
  })

  it("wake on a signal, with what it carries", async () => {
    const umbra = await open({
      engine: { parkAfterMs: 10 },
      handlers: [handler("ask", () => waitForSignal("answer"))],
    })
    const job = await umbra.submit(flow([{ id: "q", handler: "ask" }], { output: { was: "{{ q.text }}" } }))
    await until("it has left memory", () => !umbra.activity(job.id).isHere)
    await job.signal("answer", { text: "yes" })
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { was: "yes" } })
  })
})

describe("the alarm clock of jobs that are not in memory", () => {
  function alarmClock() {
    const clock = new VirtualClock({ start: 1_000 })
    const looks: { partitions: readonly number[]; after: number; answer: () => void }[] = []
    const owned = [0]
    const recovery = {
      wakeDue: (query: { partitions: readonly number[]; after: { wakeAt: number } }) =>
        new Promise<null>(resolve =>
          looks.push({
            partitions: query.partitions,
            after: query.after.wakeAt,
            answer: () => resolve(null),
          }),
        ),
    } as unknown as Recovery
    const wakeups = new Wakeups({
      clock,
      recovery,
      schedules: { alarm: () => {}, partitionsAdded: () => {} },
      partitions: { all: () => [...owned], owns: partition => owned.includes(partition) },
      log: silentLog,
    })
    return { clock, looks, owned, wakeups }
  }

  it("queries before its cursor when it gets partitions that were recovered until then", async () => {
    const { clock, looks, owned, wakeups } = alarmClock()
    wakeups.parked(0, 2_000)
    clock.advance(4_000)
    looks[0]!.answer()
    await new Promise(resolve => setImmediate(resolve))
    owned.push(1)
    void wakeups.partitionsAdded(1_500)
    expect(looks[1]).toMatchObject({ partitions: [0, 1], after: 1_500 })
  })

  it("queries again when it gets partitions during a query", async () => {
    const { clock, looks, owned, wakeups } = alarmClock()
    wakeups.parked(0, 2_000)
    clock.advance(4_000)
    expect(looks).toHaveLength(1)
    owned.push(1)
    void wakeups.partitionsAdded(1_500)
    looks[0]!.answer()
    await new Promise(resolve => setImmediate(resolve))
    expect(looks[1]).toMatchObject({ partitions: [0, 1], after: 1_500 })
  })

  it("finds a job that is parked during a query which passes its time, when the clock was set back", async () => {
    const { clock, looks, wakeups } = alarmClock()
    wakeups.parked(0, 2_000)
    clock.advance(1_000)
    expect(looks[0]).toMatchObject({ after: 1_000 })
    // The job was due when it was queried, and is not any more.
    wakeups.parked(0, 1_500)
    looks[0]!.answer()
    await new Promise(resolve => setImmediate(resolve))
    clock.advance(1_000)
    expect(looks[1]).toMatchObject({ after: 1_499 })
  })

  it("finds a job that was parked in a partition while that was recovered, when the clock was set back", async () => {
    const { clock, looks, owned, wakeups } = alarmClock()
    wakeups.parked(1, 2_000)
    clock.advance(1_000)
    expect(looks[0]).toMatchObject({ partitions: [0] })
    looks[0]!.answer()
    await new Promise(resolve => setImmediate(resolve))
    owned.push(1)
    // The clock read 9,000 when the recovery began.
    void wakeups.partitionsAdded(9_000)
    expect(looks[1]).toMatchObject({ partitions: [0, 1], after: 1_999 })
  })
})
