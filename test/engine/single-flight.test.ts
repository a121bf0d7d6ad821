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

describe("look-ups that many ask for at once", () => {
  it("those who ask in one turn of the event loop share one", async () => {
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

  it("whoever asks while one is under way gets a later one, together with the others who do", async () => {
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

  it("one that fails fails those who waited for it, and not the next", async () => {
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

  it("nothing is kept: who asks afterwards, be it after a failure, is answered by a look-up of its own", async () => {
    const answers = new SingleFlight<number>()
    let looks = 0
    expect(await answers.run("k", async () => ++looks)).toBe(1)
    expect(await answers.run("k", async () => ++looks)).toBe(2)
    await expect(answers.run("k", () => Promise.reject(new Error("away")))).rejects.toThrow("away")
    expect(await answers.run("k", async () => ++looks)).toBe(3)
  })
})
