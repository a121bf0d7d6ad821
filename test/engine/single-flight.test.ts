import { setImmediate as nextTurn } from "node:timers/promises"
import { describe, expect, it } from "vitest"
import { SingleFlight } from "../../src/engine/single-flight.ts"

/** Look-ups that the test answers, in the order in which they began. */
function lookUps() {
  const begun: { answer(text: string): void; fail(error: Error): void }[] = []
  const lookUp = () =>
    new Promise<string>((answer, fail) => {
      begun.push({ answer, fail })
    })
  return { begun, lookUp }
}

describe("queries of concurrent callers", () => {
  it("callers of one turn of the event loop share one", async () => {
    const { begun, lookUp } = lookUps()
    const answers = new SingleFlight<string>()
    const all = Array.from({ length: 1000 }, () => answers.run("k", lookUp))
    expect(begun).toHaveLength(0)
    await nextTurn()
    expect(begun).toHaveLength(1)
    begun[0]!.answer("a")
    expect(new Set(await Promise.all(all))).toEqual(new Set(["a"]))
    expect(begun).toHaveLength(1)
  })

  it("a caller that arrives while one is in flight gets a later one, shared with other late callers", async () => {
    const { begun, lookUp } = lookUps()
    const answers = new SingleFlight<string>()
    const first = answers.run("k", lookUp)
    await nextTurn()
    const late = [answers.run("k", lookUp), answers.run("k", lookUp)]
    await nextTurn()
    late.push(answers.run("k", lookUp))
    expect(begun).toHaveLength(1)
    begun[0]!.answer("old")
    expect(await first).toBe("old")
    await nextTurn()
    await nextTurn()
    expect(begun).toHaveLength(2)
    const latest = answers.run("k", lookUp)
    begun[1]!.answer("new")
    expect(await Promise.all(late)).toEqual(["new", "new", "new"])
    await nextTurn()
    await nextTurn()
    begun[2]!.answer("newest")
    expect(await latest).toBe("newest")
  })

  it("other keys do not wait for each other", async () => {
    const { begun, lookUp } = lookUps()
    const answers = new SingleFlight<string>()
    const [a, b] = [answers.run("a", lookUp), answers.run("b", lookUp)]
    await nextTurn()
    expect(begun).toHaveLength(2)
    begun[1]!.answer("b")
    expect(await b).toBe("b")
    begun[0]!.answer("a")
    expect(await a).toBe("a")
  })

  it("a failure rejects the callers that waited for it, and not later ones", async () => {
    const { begun, lookUp } = lookUps()
    const answers = new SingleFlight<string>()
    const failing = Promise.allSettled([answers.run("k", lookUp), answers.run("k", lookUp)])
    await nextTurn()
    const next = answers.run("k", lookUp)
    const error = new Error("away")
    begun[0]!.fail(error)
    expect(await failing).toEqual([
      { status: "rejected", reason: error },
      { status: "rejected", reason: error },
    ])
    await nextTurn()
    await nextTurn()
    begun[1]!.answer("back")
    expect(await next).toBe("back")
  })

  it("nothing is cached: a later caller, also after a failure, gets a query of its own", async () => {
    const answers = new SingleFlight<number>()
    let looks = 0
    expect(await answers.run("k", async () => ++looks)).toBe(1)
    expect(await answers.run("k", async () => ++looks)).toBe(2)
    await expect(answers.run("k", () => Promise.reject(new Error("away")))).rejects.toThrow("away")
    expect(await answers.run("k", async () => ++looks)).toBe(3)
  })
})
