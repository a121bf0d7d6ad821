import { expect, it } from "vitest"
import { ProviderRate } from "../../src/engine/providers/rate.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"

const settled = () => new Promise(resolve => setImmediate(resolve))

function stage() {
  const clock = new VirtualClock()
  const start = clock.now()
  const pace = new ProviderRate({
    journal: openMemory(),
    clock,
    untilStoreAnswers: ask => ask(),
    guardMs: 50,
    until: at =>
      at <= clock.now()
        ? Promise.resolve(clock.now() - at)
        : new Promise(resolve => clock.after(at - clock.now(), () => resolve(clock.now() - at))),
  })
  const sent: { owner: string; at: number }[] = []
  const send = (owner: string, ratePerOwner: number | null = null) => {
    const request = { provider: "acme", owner, rate: 10, ratePerOwner }
    void pace.waitForPlace(request).then(() => sent.push({ owner, at: clock.now() - start }))
  }
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 5) {
      clock.advance(5)
      await settled()
    }
  }
  return { send, sent, pass }
}

it("X6 owners take turns in the rate of a provider: a backlog does not delay another owner's single request", async () => {
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

it("X6 an owner over its own rate does not delay other owners", async () => {
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

/** The most in any second, both ends of which may be anywhere. */
function mostInASecond(times: readonly number[]): number {
  let [most, from] = [0, 0]
  for (const [to, time] of times.entries()) {
    while (times[from]! <= time - 1000) from++
    most = Math.max(most, to - from + 1)
  }
  return most
}

/** Several processes that share a store. What each sends reaches the provider 0 to 40 ms later. */
async function received(given: {
  readonly rate: number
  readonly count: number
  readonly processes: number
  readonly stalls?: readonly number[]
}) {
  const { rate, count, processes, stalls = [] } = given
  const clock = new VirtualClock({ seed: 7 })
  const store = createMemoryStore()
  const arrived: number[] = []
  const start = clock.now()
  /** No timer of the process fires between these times: it is busy. */
  const busyUntil = (at: number) => {
    const stall = stalls.find(from => at - start >= from && at - start < from + 400)
    return stall === undefined ? at : start + stall + 400
  }
  const until = (at: number) =>
    new Promise<number>(resolve => {
      const due = busyUntil(Math.max(at, clock.now()))
      if (due <= clock.now()) resolve(clock.now() - at)
      else clock.after(due - clock.now(), () => resolve(clock.now() - at))
    })
  for (let n = 0; n < processes; n++) {
    const pace = new ProviderRate({
      journal: openMemory(store),
      clock,
      untilStoreAnswers: ask => ask(),
      guardMs: 50,
      until,
    })
    const request = { provider: "acme", owner: "local", rate, ratePerOwner: null }
    for (let k = 0; k < count / processes; k++)
      void pace.waitForPlace(request).then(() => arrived.push(clock.now() + clock.random() * 40))
  }
  for (let idle = 0; arrived.length < count && idle < 100; ) {
    const { next } = clock
    if (next === null) idle++
    else clock.advance(next - clock.now())
    await settled()
  }
  return arrived.sort((a, b) => a - b)
}

it.each([
  { rate: 10, processes: 1 },
  { rate: 10, processes: 3 },
  { rate: 100, processes: 2 },
])(
  "X6 10,000 requests at rate $rate from $processes processes, delayed by 0 to 40 ms each: no second has more",
  async ({ rate, processes }) => {
    const times = await received({ rate, count: 10_000, processes })
    expect(times.length).toBeGreaterThanOrEqual(9_999)
    expect(mostInASecond(times)).toBeLessThanOrEqual(rate)
    // And it is used: 5 % are the guard.
    expect(times.at(-1)! - times[0]!).toBeLessThan((times.length / rate) * 1000 * 1.06)
  },
)

it("X6 places that a busy process could not use do not cause a burst later", async () => {
  const times = await received({ rate: 10, count: 300, processes: 2, stalls: [2000, 5000, 9100, 9600] })
  expect(times.length).toBe(300)
  expect(mostInASecond(times)).toBeLessThanOrEqual(10)
})
