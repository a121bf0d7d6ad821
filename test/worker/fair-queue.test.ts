import { describe, expect, it } from "vitest"
import { FairQueue, Lanes, type Queued } from "../../src/broker/fair-queue.ts"

import fc from "../support/property.ts"

interface Item extends Queued {
  readonly id: number
}

const item = (id: number, owner: string, priority = 0, workflow = "flow"): Item => ({
  ...{ id, owner, workflow, priority },
  removed: false,
})

describe("fair queue", () => {
  it("owners take turns, each in its own order", () => {
    const queue = new FairQueue<Item>()
    for (let i = 0; i < 4; i++) queue.push(item(i, "a"))
    queue.push(item(10, "b"))
    queue.push(item(11, "b"))
    const taken = Array.from({ length: 7 }, () => queue.take()?.id)
    expect(taken).toEqual([0, 10, 1, 11, 2, 3, undefined])
  })

  it("so do the workflows of one owner, and have together what another owner has alone", () => {
    const queue = new FairQueue<Item>()
    for (let i = 0; i < 3; i++) queue.push(item(i, "a", 0, "big"))
    queue.push(item(10, "a", 0, "small"))
    queue.push(item(20, "b"))
    queue.push(item(21, "b"))
    const taken = Array.from({ length: 7 }, () => queue.take()?.id)
    expect(taken).toEqual([0, 20, 10, 21, 1, 2, undefined])
  })

  it("a higher priority goes first among the items of its owner, and never before another owner's turn", () => {
    const queue = new FairQueue<Item>()
    for (let i = 0; i < 3; i++) queue.push(item(i, "a", 1000))
    queue.push(item(3, "a", 0))
    queue.push(item(4, "a", 2000))
    queue.push(item(10, "b", -1))
    queue.push(item(11, "b", 5))
    const taken = Array.from({ length: 8 }, () => queue.take()?.id)
    expect(taken).toEqual([4, 11, 0, 10, 1, 2, 3, undefined])
    expect(queue.isEmpty).toBe(true)
  })

  it("does what a naive queue does, for any sequence of push, take and remove", () => {
    const step = fc.record({
      kind: fc.constantFrom("push", "push", "take", "remove"),
      owner: fc.constantFrom("a", "b", "c"),
      priority: fc.integer({ min: 0, max: 2 }),
      which: fc.nat(),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), steps => {
        const queue = new FairQueue<Item>()
        let waiting: Item[] = []
        // Other owners that were served while this one had something to take.
        const passedBy = new Map<string, string[]>()
        steps.forEach(({ kind, owner, priority, which }, id) => {
          const chosen = waiting[which % Math.max(1, waiting.length)]
          if (kind === "push") {
            const added = item(id, owner, priority)
            queue.push(added)
            waiting.push(added)
          } else if (kind === "remove" && chosen !== undefined) {
            queue.remove(chosen)
            waiting = waiting.filter(other => other !== chosen)
          } else if (kind === "take") {
            const expected = queue.order()
            expect(new Set(expected)).toEqual(new Set(waiting))
            const taken = queue.take()
            expect(taken).toBe(expected[0])
            const ofOwner = waiting.filter(other => other.owner === taken?.owner)
            const top = Math.max(...ofOwner.map(other => other.priority))
            expect(taken).toBe(ofOwner.find(other => other.priority === top))
            for (const other of new Set(waiting.map(one => one.owner))) {
              const before = passedBy.get(other) ?? []
              passedBy.set(other, other === taken!.owner ? [] : [...before, taken!.owner])
            }
            waiting = waiting.filter(other => other !== taken)
          }
          const owners = new Set(waiting.map(other => other.owner))
          for (const [name, others] of passedBy) {
            if (!owners.has(name)) passedBy.delete(name)
            else expect(others).toEqual([...new Set(others)])
          }
          expect(queue.isEmpty).toBe(waiting.length === 0)
        })
      }),
    )
  })

  it("a hundred thousand items take well under a second of a processor", () => {
    const queue = new FairQueue<Item>()
    const begun = process.cpuUsage()
    for (let i = 0; i < 100_000; i++) queue.push(item(i, `owner ${i % 1000}`, i % 5))
    let taken = 0
    while (queue.take() !== undefined) taken += 1
    expect(taken).toBe(100_000)
    expect(process.cpuUsage(begun).user / 1000).toBeLessThan(1_000)
  })
})

describe("lanes", () => {
  const lanesOf = (room: Record<string, number> = {}) =>
    new Lanes<Item>(handler => [{ name: handler, max: room[handler] ?? 100 }])
  const takeAll = (lanes: Lanes<Item>, count: number) => Array.from({ length: count }, () => lanes.take()?.id)

  it("an owner with tasks of high priority in several lanes has no more turns than one with a single task", () => {
    const lanes = lanesOf()
    for (let i = 0; i < 3; i++) lanes.of("x").queue.push(item(i, "a", 1000))
    for (let i = 3; i < 6; i++) lanes.of("y").queue.push(item(i, "a", 2000))
    lanes.of("x").queue.push(item(10, "b"))
    lanes.of("y").queue.push(item(11, "b"))
    expect(takeAll(lanes, 9)).toEqual([3, 10, 4, 11, 5, 0, 1, 2, undefined])
  })

  it("within an owner the highest priority of all lanes with room goes first, then lanes take turns", () => {
    const lanes = lanesOf({ full: 0 })
    lanes.of("full").queue.push(item(0, "a", 9))
    lanes.of("x").queue.push(item(1, "a", 1))
    lanes.of("x").queue.push(item(2, "a", 1))
    lanes.of("y").queue.push(item(3, "a", 1))
    lanes.of("y").queue.push(item(4, "a", 5))
    expect(takeAll(lanes, 5)).toEqual([4, 1, 3, 2, undefined])
  })
})
