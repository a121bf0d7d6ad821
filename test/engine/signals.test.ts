import { describe, expect, it } from "vitest"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { flow, open, openOn, until } from "./stage.ts"

const approval = (config: Record<string, unknown> = {}) =>
  flow(
    [
      { id: "ask", handler: "wait_for_signal", config: { signal: "approval", ...config } },
      { id: "after", handler: "transform", config: { value: "{{ ask.ok }}" } },
    ],
    { output: { ok: "{{ after }}" } },
  )

describe("wait_for_signal", () => {
  it("J19 waits without a worker, shows what for, and completes with what the signal carries", async () => {
    const clock = new VirtualClock()
    const umbra = await open({ clock, engine: { ttlSeconds: null } })
    const job = await umbra.submit(approval({ timeout_seconds: 60, default: { ok: "nobody" } }))
    const waiting = {
      node: "ask",
      kind: "signal",
      name: "approval",
      until: clock.now() + 60_000,
      default: { ok: "nobody" },
    }
    await until("it waits", async () => (await job.graph()).waiting_for.length > 0)
    expect(await job.graph()).toMatchObject({ workflow_status: "WAITING_SINGLE", waiting_for: [waiting] })
    await job.signal("other", { ok: "wrong" })
    await job.signal("approval", { ok: "yes" })
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { ok: "yes" } })
  })

  it("counts a signal that arrived before the node waited for it, each once and in order", async () => {
    const umbra = await open()
    const twice = flow([
      { id: "nap", handler: "sleep", config: { seconds: 0.05 } },
      { id: "one", handler: "wait_for_signal", config: { signal: "s" }, dependencies: ["nap"] },
      { id: "two", handler: "wait_for_signal", config: { signal: "s" }, dependencies: ["one"] },
    ])
    const job = await umbra.submit({ ...twice, output: ["{{ one }}", "{{ two }}"] })
    await job.signal("s", 1)
    await job.signal("s", 2)
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: [1, 2] })
  })

  it.each<[string, Record<string, unknown>, object]>([
    ["its default", { default: { ok: "late" } }, { status: "COMPLETED", output: { ok: "late" } }],
    ["a failure (E416) without one", {}, { status: "FAILED", error: { code: "E416", node: "ask" } }],
  ])("after its timeout comes to %s, also over a restart", async (_, config, outcome) => {
    const store = createMemoryStore()
    const clock = new VirtualClock()
    const first = await openOn(store, { clock, engine: { ttlSeconds: null } })
    const job = await first.submit(approval({ timeout_seconds: 3600, ...config }))
    await until("it has left memory", () => !first.activity(job.id).isHere)
    await first.close()
    clock.advance(3_600_000)
    const second = await openOn(store, { clock })
    await until("the next engine owns it", () => {
      clock.advance(20)
      return second.owns(job.id)
    })
    expect(await second.wait(job.id)).toMatchObject(outcome)
    const [asked] = (await second.events(job.id)).filter(
      event => event.node === "ask" && (event.to === "COMPLETED" || event.to === "FAILED"),
    )
    expect(asked).toMatchObject({ source: "timer" })
  })

  it("refuses a secret: what it is configured with is stored", async () => {
    const umbra = await open()
    const definition = approval({ timeout_seconds: 1, default: "{{ secrets.TOKEN }}" })
    await expect(umbra.submit(definition)).rejects.toMatchObject({ code: "E112" })
  })
})
