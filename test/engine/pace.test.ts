import { expect, it } from "vitest"
import { Pace } from "../../src/engine/pace.ts"
import { openMemory } from "../../src/journal/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"

const settled = () => new Promise(resolve => setImmediate(resolve))

function stage() {
  const clock = new VirtualClock()
  const start = clock.now()
  const pace = new Pace({
    journal: openMemory(),
    clock,
    patiently: ask => ask(),
    until: at =>
      at <= clock.now()
        ? Promise.resolve()
        : new Promise(resolve => clock.after(at - clock.now(), () => resolve())),
  })
  const sent: { owner: string; at: number }[] = []
  const send = (owner: string, ratePerOwner: number | null = null) => {
    const request = { provider: "acme", owner, rate: 10, ratePerOwner }
    void pace.turn(request).then(() => sent.push({ owner, at: clock.now() - start }))
  }
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 5) {
      clock.advance(5)
      await settled()
    }
  }
  return { send, sent, pass }
}

it("X6 owners take turns in the rate of a provider: a backlog does not stand before another's single request", async () => {
  const { send, sent, pass } = stage()
  for (let n = 0; n < 100; n++) send("busy")
  await pass(50)
  send("other")
  await pass(3000)
  const index = sent.findIndex(({ owner }) => owner === "other")
  // Places are given out a second ahead: at most so many stand before it.
  expect(index).toBeGreaterThan(0)
  expect(index).toBeLessThanOrEqual(13)
})

it("X6 an owner over its own rate holds up nobody else", async () => {
  const { send, sent, pass } = stage()
  for (let n = 0; n < 10; n++) send("slow", 1)
  await pass(10)
  for (let n = 0; n < 5; n++) send("other", null)
  await pass(2000)
  expect(sent.filter(({ owner }) => owner === "other").length).toBe(5)
  expect(sent.findLast(({ owner }) => owner === "other")!.at).toBeLessThan(1000)
  expect(sent.filter(({ owner }) => owner === "slow").length).toBeLessThanOrEqual(3)
  await pass(10_000)
  expect(sent.length).toBe(15)
})
