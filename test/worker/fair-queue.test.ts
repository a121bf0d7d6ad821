import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { FairQueue, type Queued } from "../../src/broker/fair-queue.ts"

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

  it("a higher priority goes first", () => {
    const queue = new FairQueue<Item>()
    queue.push(item(1, "a", 0))
    queue.push(item(2, "a", 5))
    queue.push(item(3, "b", -1))
    expect([queue.priority, queue.take()?.id, queue.take()?.id, queue.take()?.id]).toEqual([5, 2, 1, 3])
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
            const taken = queue.take()
            const top = Math.max(...waiting.map(other => other.priority))
            const first = waiting.find(other => other.owner === taken?.owner && other.priority === top)
            expect(taken).toBe(waiting.length === 0 ? undefined : first)
            waiting = waiting.filter(other => other !== taken)
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
