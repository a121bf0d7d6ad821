import { describe, expect, it } from "vitest"
import { z } from "zod"
import { defineHandler } from "../../src/worker/handler.ts"
import { faultIn, gate, outputIn, settled, task, worker } from "./support.ts"

describe("J13 timeouts", () => {
  const settings = { graceSeconds: 0.2 }

  it("the signal comes first; an error thrown because of it is the timeout", async () => {
    const polite = defineHandler({
      name: "polite",
      run: (_, { signal }) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    })
    const { run, broker } = worker([polite], { settings: { graceSeconds: 60 } })
    const fault = faultIn(await run(task("polite", { timeoutSeconds: 0.03 })))
    expect(fault).toMatchObject({ code: "E402", retryable: true, details: { timeout_seconds: 0.03 } })
    expect(broker.running).toBe(0)
  })

  it("a handler that ignores the signal fails after the grace, its slot is free, its late return is dropped", async () => {
    const { promise, open } = gate()
    const deaf = defineHandler({ name: "deaf", run: () => promise })
    const { run, broker, of } = worker([deaf], { settings, concurrency: 1 })
    const begun = performance.now()
    expect(faultIn(await run(task("deaf", { timeoutSeconds: 0.03 }))).code).toBe("E402")
    expect(performance.now() - begun).toBeGreaterThan(200)
    expect(broker.running).toBe(0)
    open()
    await settled()
    expect(of("finished")).toHaveLength(1)
  })

  it("an output that arrives within the grace counts: the work is done", async () => {
    const saved = defineHandler({
      name: "saved",
      run: (_, { signal }) =>
        new Promise(resolve => signal.addEventListener("abort", () => resolve("saved what there was"))),
    })
    const { run } = worker([saved], { settings: { graceSeconds: 60 } })
    expect(outputIn(await run(task("saved", { timeoutSeconds: 0.03 })))).toBe("saved what there was")
  })

  const blocking = [
    ["returns without a promise", () => block(120)],
    ["blocks before its first await", async () => block(120)],
    [
      "blocks after an await",
      async () => {
        await null
        block(120)
      },
    ],
  ] as const

  it.each(blocking)(
    "a result that comes after timeout and grace does not count: a handler that %s",
    async (...[, run]) => {
      const { run: runTask, broker } = worker([defineHandler({ name: "blocks", run })], {
        settings: { graceSeconds: 0.02 },
      })
      const fault = faultIn(await runTask(task("blocks", { timeoutSeconds: 0.02 })))
      expect(fault).toMatchObject({ code: "E402", retryable: true, details: { timeout_seconds: 0.02 } })
      expect(broker.running).toBe(0)
    },
  )

  it.each(blocking)("an output within the grace counts: a handler that %s", async (...[, run]) => {
    const { run: runTask } = worker([defineHandler({ name: "blocks", run })], {
      settings: { graceSeconds: 60 },
    })
    expect(outputIn(await runTask(task("blocks", { timeoutSeconds: 0.02 })))).toBe(null)
  })

  it("an error after the timeout is the timeout, also of a handler that returns without a promise", async () => {
    const throws = defineHandler({
      name: "throws",
      run() {
        block(60)
        throw new Error("too late to matter")
      },
    })
    const { run } = worker([throws], { settings: { graceSeconds: 60 } })
    expect(faultIn(await run(task("throws", { timeoutSeconds: 0.02 }))).code).toBe("E402")
  })

  it("J16 a handler does not begin when its attempt was cancelled while its config was checked", async () => {
    const checked = gate()
    let calls = 0
    const config = z.unknown().refine(async () => {
      await checked.promise
      return true
    })
    const slow = defineHandler({ name: "slow", config, run: () => ++calls })
    const { broker } = worker([slow])
    const cancelled = task("slow")
    broker.dispatch(cancelled)
    await settled()
    broker.cancel(cancelled)
    checked.open()
    await settled()
    expect(broker.running).toBe(0)
    expect(calls).toBe(0)
  })

  it("nodes without timeout_seconds get the setting", async () => {
    const deaf = defineHandler({ name: "deaf", run: () => new Promise(() => {}) })
    const { run, runner } = worker([deaf], { settings: { timeoutSeconds: 0.03, graceSeconds: 0 } })
    expect(faultIn(await run(task("deaf"))).details).toEqual({ timeout_seconds: 0.03 })
    expect(runner.settings.timeoutSeconds).toBe(0.03)
  })

  it("a rule of the handler counts for timeouts too", async () => {
    const once = defineHandler({ name: "once", retryable: false, run: () => new Promise(() => {}) })
    const { run } = worker([once], { settings: { graceSeconds: 0 } })
    expect(faultIn(await run(task("once", { timeoutSeconds: 0.03 })))).toMatchObject({
      code: "E402",
      retryable: false,
    })
  })
})

describe("heartbeats", () => {
  const settings = { graceSeconds: 0.05 }

  it("a handler without one for heartbeat_seconds gets the abort signal, then the attempt fails with E418", async () => {
    let reason: unknown
    const silent = defineHandler({
      name: "silent",
      run: (_, { signal }) => {
        signal.addEventListener("abort", () => {
          reason = signal.reason
        })
        return new Promise(() => {})
      },
    })
    const { run, broker } = worker([silent], { settings })
    const fault = faultIn(await run(task("silent", { heartbeatSeconds: 0.03, timeoutSeconds: 600 })))
    expect(fault).toMatchObject({ code: "E418", retryable: true, details: { heartbeat_seconds: 0.03 } })
    expect(reason).toMatchObject({ name: "TimeoutError", message: expect.stringContaining("heartbeat") })
    expect(broker.running).toBe(0)
  })

  it("a handler that blocks the event loop for longer than heartbeat and grace has missed its heartbeat", async () => {
    const blocks = defineHandler({ name: "blocks", run: () => block(120) })
    const blocksFirst = defineHandler({ name: "blocks_first", run: async () => block(120) })
    const blocksLater = defineHandler({
      name: "blocks_later",
      run: async () => {
        await settled()
        block(120)
      },
    })
    const { run } = worker([blocks, blocksFirst, blocksLater], { settings: { graceSeconds: 0.02 } })
    for (const name of ["blocks", "blocks_first", "blocks_later"]) {
      const fault = faultIn(await run(task(name, { heartbeatSeconds: 0.03, timeoutSeconds: 600 })))
      expect(fault).toMatchObject({ code: "E418", retryable: true })
    }
  })

  it("an output within the grace counts, an error is the missed heartbeat, a rule of the handler counts", async () => {
    const onAbort = (then: (resolve: (value: unknown) => void, reject: (error: unknown) => void) => void) =>
      ((_: unknown, { signal }: { signal: AbortSignal }) =>
        new Promise((resolve, reject) =>
          signal.addEventListener("abort", () => then(resolve, reject)),
        )) as () => unknown
    const saves = defineHandler({ name: "saves", run: onAbort(resolve => resolve("saved")) })
    const throws = defineHandler({
      name: "throws",
      retryable: false,
      run: onAbort((_, reject) => reject(new Error("aborted"))),
    })
    const { run } = worker([saves, throws], { settings: { graceSeconds: 60 } })
    expect(outputIn(await run(task("saves", { heartbeatSeconds: 0.03 })))).toBe("saved")
    expect(faultIn(await run(task("throws", { heartbeatSeconds: 0.03 })))).toMatchObject({
      code: "E418",
      retryable: false,
    })
  })

  it.each(["heartbeat", "progress", "preview"] as const)(
    "a handler that calls %s in time continues, also when something else blocks the event loop meanwhile",
    async member => {
      const alive = defineHandler({
        name: "alive",
        run: (_, ctx) =>
          new Promise(resolve => {
            const ends = performance.now() + 400
            const beats = setInterval(() => {
              ctx[member](50)
              if (performance.now() < ends) return
              clearInterval(beats)
              resolve("alive")
            }, 5)
          }),
      })
      const { run } = worker([alive], { settings })
      const outcome = run(task("alive", { heartbeatSeconds: 0.1 }))
      await settled()
      block(200)
      expect(outputIn(await outcome)).toBe("alive")
    },
  )
})

/** Keeps the event loop from turning. */
function block(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}
