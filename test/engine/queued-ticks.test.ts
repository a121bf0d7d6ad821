/** Ticks that wait for the end of a job (`overlap: queue_one`), while very many do. */
import { expect, it } from "vitest"
import { createMemoryStore, type MemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { HOUR, start } from "./schedule-stage.ts"
import { flow, handler, open } from "./stage.ts"

/** More than are read at once, fewer than run at once. */
const COUNT = 90
const named = flow([{ id: "a", handler: "held", config: { name: "{{ input }}" } }])

/** An engine whose jobs end when they are released, and the number of documents that each query of queued ticks has read. */
async function openedOn(store: MemoryStore, clock: VirtualClock) {
  const releases = new Map<string, () => void>()
  const held = handler(
    "held",
    ({ name }: { name: string }) => new Promise<void>(resolve => void releases.set(name, resolve)),
  )
  const journal = openMemory(store)
  const read: number[] = []
  const { queued, readMany } = journal.schedules
  const counted = async <T>(found: Promise<T[]>) => {
    const rows = await found
    read.push(rows.filter(row => typeof row === "object").length)
    return rows
  }
  Object.assign(journal.schedules, {
    queued: (partitions: number[]) => counted(queued.call(journal.schedules, partitions)),
    readMany: (ids: string[]) => counted(readMany.call(journal.schedules, ids)),
  })
  const umbra = await open({ handlers: [held], clock, at: journal, engine: { drainSeconds: 0 } })
  await umbra.register(named)
  return { umbra, releases, read }
}

async function queuedTicks({ umbra }: { umbra: Awaited<ReturnType<typeof open>> }): Promise<number> {
  const { schedules } = await umbra.schedules.list({ limit: COUNT })
  return schedules.filter(({ queued_tick }) => queued_tick !== null).length
}

it("the end of a job reads its own schedule, and a take-over reads all of them in pages", async () => {
  const store = createMemoryStore()
  const clock = new VirtualClock({ start })
  const first = await openedOn(store, clock)
  for (let n = 0; n < COUNT; n++)
    await first.umbra.schedules.put(`s${n}`, {
      ...{ workflow: "flow", every: "1h", overlap: "queue_one", input: "{{ schedule.name }}" },
    })
  clock.advance(HOUR)
  await expect.poll(() => first.releases.size).toBe(COUNT)
  clock.advance(HOUR)
  await expect.poll(() => queuedTicks(first)).toBe(COUNT)
  first.read.length = 0
  first.releases.get("s7")!()
  await expect.poll(() => queuedTicks(first)).toBe(COUNT - 1)
  expect(first.read.reduce((sum, count) => sum + count, 0)).toBe(1)
  await first.umbra.close()

  const second = await openedOn(store, clock)
  await expect.poll(() => second.releases.size).toBe(COUNT)
  await expect.poll(() => second.read.reduce((sum, count) => sum + count, 0)).toBe(COUNT - 1)
  expect(Math.max(...second.read)).toBeLessThanOrEqual(64)
  expect(await queuedTicks(second)).toBe(COUNT - 1)
  for (const release of second.releases.values()) release()
  await expect.poll(() => queuedTicks(second)).toBe(0)
  for (const release of second.releases.values()) release()
})
