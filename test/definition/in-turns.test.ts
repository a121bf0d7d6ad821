/** Large documents: what is done in turns gives what is done at once, and the event loop goes on between. */
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { loadInTurns, loadWorkflow } from "../../src/definition/index.ts"
import { inTurns, nextTurnIfLate, type Work } from "../../src/turns.ts"
import { handlers } from "./catalog.ts"

function document(nodes: number, wrong?: "wrong") {
  return {
    name: "large",
    nodes: Array.from({ length: nodes }, (_, i) => ({
      id: `n${i}`,
      handler: wrong && i % 7 === 0 ? "ecko" : "transform",
      config: {
        value: i === 0 ? "first" : `{{ n${i - 1} }} and ${i}`,
        ...(wrong && i % 11 === 3 ? { a: 1 } : {}),
      },
      dependencies: wrong && i % 13 === 5 ? ["nobody"] : [],
    })),
  }
}

function yaml(nodes: number, wrong?: "wrong"): string {
  const written = document(nodes, wrong).nodes.map(
    ({ id, handler, config, dependencies }) =>
      `  - id: ${id}\n    handler: ${handler}\n    config: ${JSON.stringify(config)}\n    dependencies: ${JSON.stringify(dependencies)}\n`,
  )
  return `name: large\nnodes:\n${written.join("")}`
}

const twice = (text: string) => text.replace("id: n9\n", "id: n9\n    id: n9\n")

describe("loading in turns", () => {
  it.each([
    ["JSON", JSON.stringify(document(500))],
    ["JSON with problems", JSON.stringify(document(500, "wrong"), null, 1)],
    ["text that is no JSON", `${JSON.stringify(document(500)).slice(0, -2)}?`],
    ["short YAML", yaml(20)],
    ["short YAML with problems", yaml(20, "wrong")],
    ["long YAML", yaml(800)],
    ["long YAML with problems", yaml(800, "wrong")],
    ["long YAML with a key twice, and problems", twice(yaml(800, "wrong"))],
    ["long text that is no YAML", `${yaml(800)}\n  - [`],
    ["long YAML that is too large", yaml(800)],
  ])("J4 gives what loading at once gives: %s", async (name, text) => {
    const limits = name.endsWith("too large") ? { limits: { yamlBytes: 1000 } } : {}
    const [whole, inPieces] = [
      loadWorkflow(text, { handlers, ...limits }),
      await loadInTurns(text, { handlers, ...limits }),
    ]
    expect(inPieces.problems).toEqual(whole.problems)
    expect(inPieces.plan?.hash).toBe(whole.plan?.hash)
    expect(whole.problems === undefined).toBe(!/problems|no |too large/.test(name))
  })

  it("S4 does not hold up the event loop", async () => {
    let turns = 0
    let next: NodeJS.Immediate
    const count = () => {
      turns++
      next = setImmediate(count)
    }
    next = setImmediate(count)
    const { plan } = await loadInTurns(JSON.stringify(document(6000)), { handlers })
    clearImmediate(next)
    expect(plan?.nodes).toHaveLength(6000)
    expect(turns).toBeGreaterThan(4)
  })
})

describe("work in turns", () => {
  function* pieces(name: string, many: number, done: string[]): Work<string> {
    for (let i = 0; i < many; i++) {
      const until = performance.now() + 3
      while (performance.now() < until);
      yield
    }
    done.push(name)
    return name
  }

  it("takes turns: what is short is not behind what is long", async () => {
    const done: string[] = []
    const works = [inTurns(pieces("long", 20, done)), inTurns(pieces("short", 1, done))]
    expect(await Promise.all(works)).toEqual(["long", "short"])
    expect(done).toEqual(["short", "long"])
  })

  it("reports what went wrong, and continues with the others", async () => {
    const done: string[] = []
    const broken = (function* (): Work<never> {
      yield* pieces("before", 10, done)
      throw new Error("broken")
    })()
    const works = [inTurns(broken), inTurns(pieces("other", 10, done))]
    expect(await Promise.allSettled(works)).toMatchObject([
      { status: "rejected", reason: { message: "broken" } },
      { status: "fulfilled", value: "other" },
    ])
  })

  it("many short works in a row let the event loop continue", async () => {
    let turns = 0
    let next: NodeJS.Immediate
    const count = () => {
      turns++
      next = setImmediate(count)
    }
    next = setImmediate(count)
    const until = performance.now() + 60_000
    while (turns < 3 && performance.now() < until) await nextTurnIfLate()
    clearImmediate(next)
    expect(turns).toBe(3)
  })

  it("wakes late callers in order, and no more in a turn than it has time for", async () => {
    let now = 0
    const clock = vi.spyOn(performance, "now").mockImplementation(() => now)
    onTestFinished(() => clock.mockRestore())
    // The tests before this one used the time of this turn.
    await new Promise(resolve => setImmediate(resolve))
    let turn = 0
    let next = setImmediate(function count() {
      turn++
      next = setImmediate(count)
    })
    onTestFinished(() => clearImmediate(next))
    const woken: number[] = []
    const byTurn = new Map<number, number>()
    const work = async (caller: number) => {
      await nextTurnIfLate()
      now += 3
      woken.push(caller)
      byTurn.set(turn, (byTurn.get(turn) ?? 0) + 1)
    }
    const callers = Array.from({ length: 100 }, (_, i) => i)
    expect(nextTurnIfLate()).toBeUndefined()
    now += 10
    await Promise.all(callers.map(work))
    expect(woken).toEqual(callers)
    expect(Math.max(...byTurn.values())).toBe(4)
  })
})
