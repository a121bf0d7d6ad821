/** What forks refer to stays, in whatever order jobs are deleted and removed; and goes with the last fork. */
import { describe, expect, it } from "vitest"
import type { Journal } from "../../src/journal/port/journal.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { Umbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { countAll } from "../journal/fixture.ts"
import { flow, open, openOn, until } from "./stage.ts"

const work = defineHandler({
  name: "work",
  effects: false,
  readsInput: false,
  run: config => (config as { value: unknown }).value,
})

const three = flow(
  [
    { id: "a", handler: "work", config: { value: "{{ input }}" } },
    { id: "b", handler: "work", config: { value: "{{ a }}b" } },
    { id: "c", handler: "work", config: { value: "{{ b }}c" } },
  ],
  { output: "{{ c }}" },
)

/** An origin, a fork of it, a fork of that with a definition of its own, and one more of the origin. */
async function family(umbra: Umbra): Promise<string[]> {
  const origin = await umbra.submit(three, "x")
  await origin.wait()
  const first = await umbra.fork(origin.id, { from: ["b"] })
  await first.wait()
  const second = await umbra.fork(first.id, { overrides: { c: { config: { value: "{{ b }}C" } } } })
  await second.wait()
  const third = await umbra.fork(origin.id, { from: ["c"] })
  await third.wait()
  return [origin.id, first.id, second.id, third.id]
}

const outputs = ["xbc", "xbc", "xbC", "xbc"]

/** By index: the jobs that hold results of it. `a` is always the origin's, `b` of the second fork that of the first. */
const holders: readonly (readonly number[])[] = [[1, 2, 3], [2], [], []]

function permutations(list: readonly number[]): number[][] {
  if (list.length === 0) return [[]]
  return list.flatMap(first =>
    permutations(list.filter(each => each !== first)).map(rest => [first, ...rest]),
  )
}

async function purge(journal: Journal, jobIds: readonly string[]): Promise<number> {
  const partitions = await journal.readPartitions()
  const fences = partitions.map(({ partition, epoch }) => ({ partition, epoch }))
  await countAll(journal, fences)
  return journal.purge({ fences, jobIds, before: Number.MAX_SAFE_INTEGER, limit: 100_000 })
}

describe("retention of forks", () => {
  it("never removes what a fork refers to, in any order of deletions and removals", async () => {
    const store = createMemoryStore()
    const umbra = await openOn(store, { handlers: [work], engine: { parkAfterMs: 0 } })
    const journal = openMemory(store)
    for (const order of permutations([0, 1, 2, 3])) {
      const ids = await family(umbra)
      const left = new Set([0, 1, 2, 3])
      for (const at of order) {
        await umbra.delete(ids[at]!)
        const visible = await umbra.jobs({ limit: 1000 })
        expect(visible.map(({ job_id }) => job_id)).not.toContain(ids[at])
        // One call for all that are deleted: those that another one holds stay.
        const deleted = order.slice(0, order.indexOf(at) + 1)
        await until("nothing is in memory", () => ids.every(id => umbra.owns(id)))
        for (const each of deleted) {
          if (!left.has(each)) continue
          const isHeld = holders[each]!.some(by => left.has(by))
          expect(await purge(journal, [ids[each]!])).toBe(isHeld ? 0 : 1)
          if (!isHeld) left.delete(each)
        }
        for (const each of left) {
          const { state } = await umbra.queries.fold(ids[each]!)
          expect(state.output).toBe(outputs[each])
          expect((await umbra.node(ids[each]!, "a")).output).toBe("x")
        }
      }
      // What was held at its turn is free once its holders are gone.
      for (const each of [2, 1, 3, 0]) if (left.has(each)) expect(await purge(journal, [ids[each]!])).toBe(1)
      expect((await journal.readFacts(ids)).length).toBe(0)
    }
    const rows = store.connection.get<{ n: number }>("select count(*) as n from held")!
    expect(rows.n).toBe(0)
  })

  it("removes a family when its last fork is old enough, and not before", async () => {
    const clock = new VirtualClock()
    const store = createMemoryStore()
    const journal = openMemory(store)
    const umbra = await open({
      ...{ handlers: [work], clock, at: openMemory(store) },
      engine: { retentionSeconds: 60, retentionSweepSeconds: 10, parkAfterMs: 0 },
    })
    const count = (table: string) =>
      store.connection.get<{ n: number }>(`select count(*) as n from ${table}`)!.n
    const pass = async (ms: number) => {
      for (let passed = 0; passed < ms; passed += 1000) {
        clock.advance(1000)
        for (let turn = 0; turn < 3; turn++) await new Promise(resolve => setImmediate(resolve))
      }
    }
    const origin = await umbra.submit(three, "x")
    await origin.wait()
    await pass(50_000)
    const fork = await umbra.fork(origin.id, { overrides: { c: { config: { value: "{{ b }}C" } } } })
    expect((await fork.wait()).output).toBe("xbC")
    await pass(50_000)
    // The origin is 100 s old, the fork 50 s.
    expect(await journal.readJob(origin.id)).not.toBeNull()
    expect((await umbra.node(fork.id, "a")).output).toBe("x")
    expect(count("definitions")).toBe(1)
    for (let rounds = 0; rounds < 60 && count("jobs") > 0; rounds++) await pass(10_000)
    expect(count("jobs")).toBe(0)
    for (let rounds = 0; rounds < 60 && count("definitions") > 0; rounds++) await pass(10_000)
    expect({ held: count("held"), journal: count("journal"), definitions: count("definitions") }).toEqual({
      ...{ held: 0, journal: 0, definitions: 0 },
    })
  })
})
