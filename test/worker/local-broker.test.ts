import { describe, expect, it } from "vitest"
import type { StartReport } from "../../src/broker/port.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { gate, outputIn, settled, task, worker } from "./support.ts"

/** A handler that waits until the test lets it go, and tells how many run at once. */
function held(name: string, concurrency?: number) {
  const gates: ReturnType<typeof gate<void>>[] = []
  const order: string[] = []
  let running = 0
  const state = { most: 0 }
  const handler = defineHandler({
    name,
    ...(concurrency === undefined ? {} : { concurrency }),
    async run(_, ctx) {
      running += 1
      state.most = Math.max(state.most, running)
      order.push(ctx.jobId)
      const own = gate<void>()
      gates.push(own)
      await own.promise
      running -= 1
    },
  })
  return { handler, gates, order, state }
}

describe("local broker", () => {
  it("S5 runs at most `concurrency` attempts at once, and all in the end", async () => {
    const { handler, gates, state } = held("held")
    const { broker, run } = worker([handler], { concurrency: 3 })
    const all = Promise.all(Array.from({ length: 10 }, () => run(task("held"))))
    while (gates.length < 10) {
      await settled()
      for (const one of gates) one.open()
    }
    expect((await all).every(outcome => outcome.type === "completed")).toBe(true)
    expect(state.most).toBe(3)
    expect([broker.running, broker.queued]).toEqual([0, 0])
  })

  it("a handler at its own limit does not stand before others", async () => {
    const slow = held("slow", 1)
    const quick = defineHandler({ name: "quick", run: () => "done" })
    const { run, broker } = worker([slow.handler, quick], { concurrency: 10 })
    const waiting = [run(task("slow")), run(task("slow")), run(task("slow"))]
    expect(outputIn(await run(task("quick")))).toBe("done")
    await expect.poll(() => [broker.running, broker.queued, slow.state.most]).toEqual([1, 2, 1])
    while (slow.gates.length < 3) {
      await settled()
      for (const one of slow.gates) one.open()
    }
    await Promise.all(waiting)
    expect(slow.state.most).toBe(1)
  })

  it("one owner's backlog does not stand before another's single task", async () => {
    const { handler, gates, order } = held("held")
    const { run } = worker([handler], { concurrency: 1 })
    const backlog = Array.from({ length: 5 }, (_, i) =>
      run(task("held", { owner: "big", jobId: `big-${i}` })),
    )
    const single = run(task("held", { owner: "small", jobId: "small" }))
    while (gates.length < 6) {
      await settled()
      for (const one of gates) one.open()
    }
    await Promise.all([...backlog, single])
    expect(order.indexOf("small")).toBe(1)
  })

  it("dispatch runs nothing itself, and takes no turn of the event loop per task", async () => {
    let ran = 0
    const count = defineHandler({ name: "count", run: () => void ran++ })
    const { broker } = worker([count])
    for (let i = 0; i < 50; i++) broker.dispatch(task("count"))
    expect(ran).toBe(0)
    await Promise.resolve()
    expect(ran).toBeGreaterThan(0)
    // All at once, unless the process itself stood still meanwhile.
    while (ran < 50) await settled()
    expect(ran).toBe(50)
  })

  it("gives the event loop its turn after each task that takes longer than a slice", async () => {
    let turns = 0
    const seen: number[] = []
    const busy = defineHandler({
      name: "busy",
      run() {
        seen.push(turns)
        for (const end = performance.now() + 11; performance.now() < end; );
      },
    })
    const { broker, run } = worker([busy])
    const all = Array.from({ length: 4 }, () => run(task("busy")))
    const count = () => {
      turns++
      if (broker.running + broker.queued > 0) setImmediate(count)
    }
    setImmediate(count)
    await Promise.all(all)
    expect(new Set(seen).size).toBe(4)
  })

  it("gives the event loop its turn while a hundred thousand synchronous tasks run", async () => {
    const count = defineHandler({ name: "count", run: () => null })
    const { broker, of } = worker([count])
    for (let i = 0; i < 100_000; i++) broker.dispatch(task("count"))
    await new Promise(resolve => setImmediate(resolve))
    expect(of("finished").length).toBeLessThan(100_000)
    while (broker.queued > 0) await settled()
    expect(of("finished").length).toBe(100_000)
  })

  it("J8 a task that is queued or running already is not run again", async () => {
    const { handler, gates } = held("held")
    const { broker, run, of } = worker([handler])
    const one = task("held")
    const outcome = run(one)
    broker.dispatch({ ...one })
    await settled()
    broker.dispatch({ ...one })
    await settled()
    expect(gates).toHaveLength(1)
    gates[0]!.open()
    await outcome
    expect(of("finished")).toHaveLength(1)
  })

  it("says which handlers it can run", () => {
    const { broker } = worker([defineHandler({ name: "known", run: () => null })])
    expect([broker.runs("known"), broker.runs("unknown")]).toEqual([true, false])
  })

  it("is notified of the start only by work that is still running after the delay", async () => {
    const { handler, gates } = held("held")
    const quick = defineHandler({ name: "quick", run: async () => null })
    const { run, of } = worker([handler, quick], { settings: { startedAfterSeconds: 0.3 } })
    await run(task("quick"))
    const slow = task("held")
    const outcome = run(slow)
    const data = `local-${process.pid}`
    await expect.poll(() => of("started")).toEqual([{ type: "started", task: slow, data }])
    gates[0]!.open()
    await outcome
    expect(of("started")).toHaveLength(1)
  })
})

describe("tasks to be announced", () => {
  const count = () => {
    const state = { ran: 0 }
    return { state, handler: defineHandler({ name: "count", run: () => void state.ran++ }) }
  }

  it("run once their start is durable, which is reported once", async () => {
    const durable = gate<void>()
    const { state, handler } = count()
    const { run, of, broker } = worker([handler], { durable: durable.promise })
    const outcome = run(task("count", { announce: true }))
    await settled()
    expect([state.ran, of("started").length, broker.running]).toEqual([0, 1, 1])
    durable.open()
    await outcome
    expect([state.ran, of("started").length, broker.running]).toEqual([1, 1, 0])
  })

  it("never run if they were cancelled meanwhile, or if their start could not be stored", async () => {
    const durable = gate<void>()
    const { state, handler } = count()
    const cancelled = worker([handler], { durable: durable.promise })
    const one = task("count", { announce: true })
    cancelled.broker.dispatch(one)
    await settled()
    cancelled.broker.cancel(one)
    durable.open()
    const fenced = worker([handler], { durable: Promise.reject(new Error("fenced")) })
    fenced.broker.dispatch(task("count", { announce: true }))
    await settled()
    expect([state.ran, cancelled.broker.running, fenced.broker.running]).toEqual([0, 0, 0])
    expect([...cancelled.of("finished"), ...fenced.of("finished")]).toEqual([])
  })
})

describe("isolated tasks", () => {
  const isolation = { diedAt: 0, deaths: 0, seconds: 60 }
  const suspect = (jobId: string, more: Partial<typeof isolation> = {}) =>
    task("held", { jobId, announce: true, isolation: { ...isolation, ...more } })
  const starts = (of: ReturnType<typeof worker>["of"]) =>
    of("started").map(({ task: started }) => {
      const { jobId, alone } = started as unknown as { jobId: string; alone?: boolean }
      return [jobId, alone]
    })

  it("run one at a time, and hold back no other", async () => {
    const { handler, gates, order } = held("held")
    const { broker, of } = worker([handler], { concurrency: 10 })
    for (const jobId of ["a", "b"]) broker.dispatch(suspect(jobId))
    for (const jobId of ["x", "y"]) broker.dispatch(task("held", { jobId }))
    await settled()
    expect([[...order].sort(), broker.running, broker.suspects]).toEqual([["a", "x", "y"], 3, 1])
    gates[order.indexOf("a")]!.open()
    await settled()
    expect([order.at(-1), broker.suspects]).toEqual(["b", 0])
    expect(starts(of)).toEqual([
      ["a", true],
      ["b", true],
    ])
  })

  it("the one that has died alone comes after those that have not, the latest last", async () => {
    const { handler, gates, order } = held("held")
    const { broker } = worker([handler], { concurrency: 1 })
    broker.dispatch(task("held", { jobId: "other" }))
    await settled()
    broker.dispatch(suspect("late", { diedAt: 2000, deaths: 1 }))
    broker.dispatch(suspect("early", { diedAt: 1000, deaths: 1 }))
    broker.dispatch(suspect("never"))
    for (let done = 0; done < 4; done++) {
      await expect.poll(() => gates.length).toBe(done + 1)
      gates[done]!.open()
    }
    expect(order).toEqual(["other", "never", "early", "late"])
  })

  it("one that has died alone waits for those that were lost with it", async () => {
    const { handler, gates, order } = held("held")
    const { broker } = worker([handler])
    broker.dispatch(suspect("died", { diedAt: 1000, deaths: 1 }))
    await settled()
    expect(order).toEqual([])
    broker.dispatch(suspect("innocent"))
    await settled()
    expect(order).toEqual(["innocent"])
    gates[0]!.open()
    await expect.poll(() => order).toEqual(["innocent", "died"])
  })

  it("one that runs for longer than its time is joined by the next, once that is durable", async () => {
    const { handler, order } = held("held")
    const { broker, of } = worker([handler])
    broker.dispatch(suspect("long", { seconds: 0.05 }))
    broker.dispatch(suspect("next"))
    await expect.poll(() => order).toEqual(["long", "next"])
    expect(starts(of)).toEqual([
      ["long", true],
      ["long", false],
      ["next", true],
    ])
  })

  it("X6 one that waits for its place in a provider's rate is joined by the next after its time", async () => {
    const { handler, gates, order } = held("held")
    const place = gate()
    const durable = async ({ jobId, alone }: { jobId: string; alone?: boolean | undefined }) =>
      jobId === "waits" && alone ? place.promise : undefined
    const { broker, of } = worker([handler], { durable })
    broker.dispatch({ ...suspect("waits", { seconds: 0.05 }), provider: "acme" })
    broker.dispatch(suspect("next"))
    await expect.poll(() => order).toEqual(["next"])
    place.open()
    await expect.poll(() => order).toEqual(["next", "waits"])
    for (const one of gates) one.open()
    expect(starts(of)).toEqual([
      ["waits", true],
      ["waits", false],
      ["next", true],
    ])
  })

  it("X6 one that requests another place is announced as alone, as before", async () => {
    const asks = defineHandler({ name: "asks", run: (_, ctx) => ctx.place() })
    const { run, of } = worker([asks])
    await run(task("asks", { jobId: "a", provider: "acme", announce: true, isolation }))
    expect(starts(of)).toEqual([
      ["a", true],
      ["a", true],
    ])
    // The first place is the one that the task came with.
    const places = () => of("started").map(report => (report.task as StartReport).place)
    expect(places()).toEqual([undefined, true])
    await run(task("asks", { jobId: "b", provider: "acme", announce: true, isLate: true }))
    expect(places().slice(2)).toEqual([true, true])
  })

  it("one without a waiting task behind it is not joined", async () => {
    const { handler, gates } = held("held")
    const { run, of } = worker([handler])
    const outcome = run(suspect("long", { seconds: 0.02 }))
    await new Promise(resolve => setTimeout(resolve, 60))
    gates[0]!.open()
    await outcome
    expect(starts(of)).toEqual([["long", true]])
  })

  it("a cancelled one leaves the line, waiting or running", async () => {
    const { handler, order } = held("held")
    const { broker } = worker([handler], { settings: { graceSeconds: 0 } })
    const [first, second, third] = ["first", "second", "third"].map(jobId => suspect(jobId))
    for (const one of [first!, second!, third!]) broker.dispatch(one)
    await settled()
    broker.cancel(second!)
    broker.cancel(first!)
    await expect.poll(() => order).toEqual(["first", "third"])
    expect(broker.suspects).toBe(0)
  })

  it("a handler at its limit lets the next one begin", async () => {
    const narrow = held("narrow")
    const { handler, order } = held("held")
    const { broker } = worker([defineHandler({ ...narrow.handler, concurrency: 1 }), handler])
    broker.dispatch(task("narrow", { jobId: "full" }))
    await settled()
    broker.dispatch(task("narrow", { jobId: "waits", announce: true, isolation }))
    broker.dispatch(suspect("begins"))
    await settled()
    expect([narrow.order, order]).toEqual([["full"], ["begins"]])
  })
})

describe("J16 cancellation", () => {
  it("what is queued never starts", async () => {
    const { handler, gates, order } = held("held")
    const { broker, run } = worker([handler], { concurrency: 1 })
    const first = run(task("held", { jobId: "first" }))
    const second = task("held", { jobId: "second" })
    broker.dispatch(second)
    await settled()
    broker.cancel(second)
    gates[0]!.open()
    await first
    await settled()
    expect(order).toEqual(["first"])
    expect([broker.running, broker.queued]).toEqual([0, 0])
  })

  it("what runs gets the abort signal at once, and its result is dropped", async () => {
    const reasons: unknown[] = []
    const polite = defineHandler({
      name: "polite",
      run: (_, { signal }) =>
        new Promise(resolve =>
          signal.addEventListener("abort", () => {
            reasons.push(signal.reason)
            resolve("too late")
          }),
        ),
    })
    const { broker, of } = worker([polite])
    const one = task("polite")
    broker.dispatch(one)
    await settled()
    broker.cancel(one)
    expect(reasons).toMatchObject([{ name: "AbortError" }])
    await settled()
    expect(of("finished")).toEqual([])
    expect(broker.running).toBe(0)
  })

  it("a handler that ignores the signal loses its slot after the grace, and its late result is dropped", async () => {
    const { handler, gates } = held("deaf")
    const quick = defineHandler({ name: "quick", run: () => "in" })
    const { broker, run, of } = worker([handler, quick], { concurrency: 1, settings: { graceSeconds: 0.05 } })
    const deaf = task("deaf")
    broker.dispatch(deaf)
    await settled()
    broker.cancel(deaf)
    expect(outputIn(await run(task("quick")))).toBe("in")
    gates[0]!.open()
    await settled()
    expect(of("finished")).toHaveLength(1)
  })

  it("the same task that arrives again while the cancelled one has its slot is run, and reported", async () => {
    const { handler, gates } = held("deaf")
    const { broker, run, of } = worker([handler])
    const deaf = task("deaf")
    broker.dispatch(deaf)
    await settled()
    broker.cancel(deaf)
    const again = run(deaf)
    await settled()
    expect([gates.length, broker.running, broker.queued]).toEqual([2, 2, 0])
    for (const one of gates) one.open()
    await again
    await settled()
    expect(of("finished")).toHaveLength(1)
    expect([broker.running, broker.queued]).toEqual([0, 0])
  })

  it("a signal requested after the abort has fired already", async () => {
    const { promise, open } = gate()
    const seen = gate<boolean>()
    const late = defineHandler({
      name: "late",
      run: async (_, ctx) => {
        await promise
        seen.open(ctx.signal.aborted)
      },
    })
    const { broker } = worker([late])
    const one = task("late")
    broker.dispatch(one)
    await settled()
    broker.cancel(one)
    open()
    expect(await seen.promise).toBe(true)
  })
})

describe("S5 drain", () => {
  it("waits for what runs, leaves what is queued, takes nothing new", async () => {
    const { handler, gates, order } = held("held")
    const { broker, of } = worker([handler], { concurrency: 1 })
    for (const jobId of ["running", "queued"]) broker.dispatch(task("held", { jobId }))
    await settled()
    const drained = broker.drain(10_000)
    broker.dispatch(task("held", { jobId: "new" }))
    gates[0]!.open()
    await drained
    expect(order).toEqual(["running"])
    expect(of("finished")).toHaveLength(1)
  })

  it("aborts after the grace what has not ended, and reports nothing of it", async () => {
    const { handler } = held("held")
    const reason = gate<unknown>()
    const polite = defineHandler({
      name: "polite",
      run: (_, { signal }) =>
        new Promise(resolve =>
          signal.addEventListener("abort", () => {
            reason.open(signal.reason)
            resolve(null)
          }),
        ),
    })
    const { broker, of } = worker([handler, polite], { settings: { graceSeconds: 0.05 } })
    broker.dispatch(task("held"))
    broker.dispatch(task("polite"))
    await settled()
    await broker.drain(50)
    expect(await reason.promise).toMatchObject({ name: "AbortError", message: "The worker is stopping." })
    await settled()
    expect(of("finished")).toEqual([])
  })
})
