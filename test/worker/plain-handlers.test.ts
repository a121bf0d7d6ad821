import { describe, expect, it } from "vitest"
import { builtinHandlers } from "../../src/worker/handlers/index.ts"
import { outputIn, task, worker } from "./support.ts"

const now = Date.UTC(2026, 0, 1)
const { run } = worker(builtinHandlers({ allowPrivateAddresses: false }), { now: () => now })

describe("S8 built-in handlers", () => {
  it("input gives the job's input", async () => {
    expect(outputIn(await run(task("input", { input: { a: [1] } })))).toEqual({ a: [1] })
  })

  it("output gives its config, or its parents' outputs by id", async () => {
    const parents = () => ({ a: 1, b: { c: 2 } })
    expect(outputIn(await run(task("output", { config: { total: 3 }, parents })))).toEqual({ total: 3 })
    expect(outputIn(await run(task("output", { parents })))).toEqual({ a: 1, b: { c: 2 } })
  })

  it.each([[1], ["text"], [null], [[1, { a: 2 }]], [{ value: 1 }], [false]])(
    "transform gives its value: %j",
    async value => {
      expect(outputIn(await run(task("transform", { config: { value } })))).toEqual(value)
    },
  )

  it("sleep waits durably: for seconds, or until a time", async () => {
    const until = now + 90_000
    const output = { woke_at: new Date(until).toISOString() }
    const waiting = { type: "waiting", waiting: { kind: "timer", until, output } }
    expect(await run(task("sleep", { config: { seconds: 90 } }))).toEqual(waiting)
    expect(await run(task("sleep", { config: { until: "2026-01-01T01:01:30+01:00" } }))).toEqual(waiting)
  })

  it("wait_for_signal waits for a name, until a time, with a default", async () => {
    const config = { signal: "approval" }
    const plain = { type: "waiting", waiting: { kind: "signal", name: "approval" } }
    expect(await run(task("wait_for_signal", { config }))).toEqual(plain)
    const timed = { ...config, timeout_seconds: 90 }
    const until = now + 90_000
    expect(await run(task("wait_for_signal", { config: timed }))).toEqual({
      type: "waiting",
      waiting: { kind: "signal", name: "approval", until },
    })
    expect(await run(task("wait_for_signal", { config: { ...timed, default: { ok: false } } }))).toEqual({
      type: "waiting",
      waiting: { kind: "signal", name: "approval", until, default: { ok: false } },
    })
  })

  it("sleep does not wait for what has passed", async () => {
    const output = { woke_at: new Date(now).toISOString() }
    expect(outputIn(await run(task("sleep", { config: { until: "2020-01-01T00:00:00Z" } })))).toEqual(output)
    expect(outputIn(await run(task("sleep", { config: { seconds: 0 } })))).toEqual(output)
  })
})
