import { describe, expect, it } from "vitest"
import { defineHandler, type JobHandle, openUmbra } from "../../src/index.ts"
import { createMemoryStore, openMemory, VirtualClock } from "../../src/testing/index.ts"

describe("the virtual clock", () => {
  it("fires timers in the order of their times, and each at its time", () => {
    const clock = new VirtualClock({ start: 0 })
    const fired: [string, number][] = []
    const note = (name: string) => () => void fired.push([name, clock.now()])
    clock.after(20, note("b"))
    clock.after(10, () => {
      note("a")()
      clock.after(5, note("a+5"))
    })
    clock.after(20, note("b2"))
    clock.after(15, note("never"))()
    clock.after(100, note("later"))
    clock.advance(50)
    expect(fired).toEqual([
      ["a", 10],
      ["a+5", 15],
      ["b", 20],
      ["b2", 20],
    ])
    expect([clock.now(), clock.next]).toEqual([50, 100])
  })

  it("gives the same random numbers for the same seed, all in [0, 1)", () => {
    const draw = (seed: number) => {
      const clock = new VirtualClock({ seed })
      return Array.from({ length: 1000 }, () => clock.random())
    }
    expect(draw(7)).toEqual(draw(7))
    expect(draw(7)).not.toEqual(draw(8))
    expect(draw(7).every(n => n >= 0 && n < 1)).toBe(true)
    const mean = draw(7).reduce((sum, n) => sum + n) / 1000
    expect(Math.abs(mean - 0.5)).toBeLessThan(0.05)
  })
})

/** Lets everything happen that needs no time, then moves the time by a second or an hour, until the job has ended. */
async function untilEnded(handle: JobHandle, clock: VirtualClock) {
  for (;;) {
    const job = await handle.wait({ timeoutMs: 5 })
    if (job.finished_at !== null) return job
    const { nodes, workflow_status } = await handle.graph()
    if (workflow_status !== "WAITING_SINGLE") continue
    const isAsleep = nodes.some(({ id, status }) => id === "nap" && status === "WAITING")
    clock.advance(isAsleep ? 3_600_000 : 1000)
  }
}

describe("umbra/testing", () => {
  it("runs retries and a sleep of days in no time", async () => {
    const clock = new VirtualClock()
    const tries: number[] = []
    const flaky = defineHandler({
      name: "flaky",
      run: (_, ctx) => {
        tries.push(clock.now())
        if (ctx.attempt < 3) throw new Error("not yet")
        return ctx.attempt
      },
    })
    const umbra = await openUmbra("memory:", { clock, handlers: [flaky], engine: { ttlSeconds: null } })
    const nodes = [
      { id: "try", handler: "flaky", retry: { max_attempts: 3, initial_seconds: 10, jitter: 0 } },
      { id: "nap", handler: "sleep", config: { seconds: 3 * 86_400 }, dependencies: ["try"] },
    ]
    const handle = await umbra.submit({ name: "patient", nodes })
    const job = await untilEnded(handle, clock)
    expect(job.status).toBe("COMPLETED")
    expect(tries.map(at => at - tries[0]!)).toEqual([0, 10_000, 30_000])
    const slept = Date.parse(job.finished_at!) - tries[2]!
    expect(slept).toBe(3 * 86_400_000)
    await umbra.close()
  })

  it("lets two engines share a store in memory, as they share a database", async () => {
    const store = createMemoryStore()
    const first = await openUmbra(openMemory(store))
    const { id } = await first.submit({ name: "one", nodes: [{ id: "a", handler: "input" }] }, { x: 1 })
    await first.wait(id)
    const second = await openUmbra(openMemory(store))
    expect(await second.job(id)).toMatchObject({ status: "COMPLETED", output: { a: { x: 1 } } })
    await Promise.all([first.close(), second.close()])
  })
})
