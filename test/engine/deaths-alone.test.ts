import { describe, expect, it } from "vitest"
import { DeathsAlone, type LiveJob } from "../../src/engine/owner/live-job.ts"

const suspect = (diedAt: number) => ({
  isolated: true,
  deaths: 1,
  streak: 1,
  begunAt: diedAt - 1,
  diedAt,
  joined: 0,
})

function job(id: string, deaths: Record<number, number>, items: Record<number, number> = {}): LiveJob {
  const suspects = (of: Record<number, number>) =>
    new Map(Object.entries(of).map(([node, at]) => [Number(node), suspect(at)]))
  const lists = new Map([[9, { items: [], state: { suspects: suspects(items) } }]])
  return { id, state: { suspects: suspects(deaths), lists } } as unknown as LiveJob
}

describe("the memory of deaths alone", () => {
  it("knows the latest death of another node, of items and of other jobs", () => {
    const deaths = new DeathsAlone()
    const a = job("a", { 0: 100 })
    expect(deaths.latestOther(a, { node: 0 })).toBe(Number.NEGATIVE_INFINITY)
    deaths.learn(a)
    expect(deaths.latestOther(a, { node: 0 })).toBe(Number.NEGATIVE_INFINITY)
    expect(deaths.latestOther(a, { node: 1 })).toBe(100)
    deaths.learn(job("b", {}, { 3: 90 }))
    expect(deaths.latestOther(a, { node: 0 })).toBe(90)
    expect(deaths.latestOther(job("b", {}), { node: 9, item: 3 })).toBe(100)
  })

  it("drops nothing that is later, in whatever order it is recorded", () => {
    const deaths = new DeathsAlone()
    for (const [id, at] of [
      ["a", 5],
      ["b", 7],
      ["a", 9],
      ["c", 6],
      ["b", 8],
    ] as const)
      deaths.learn(job(id, { 0: at }))
    const other = (id: string) => deaths.latestOther(job(id, {}), { node: 0 })
    expect([other("a"), other("b"), other("c")]).toEqual([8, 9, 9])
  })

  it("the death of a process that ran calls counts for every node", () => {
    const deaths = new DeathsAlone()
    deaths.note("calls", 50)
    expect(deaths.latestOther(job("a", {}), { node: 0 })).toBe(50)
  })
})
