/** Which workers are live after Redis has lost its data: no worker is dead because of that. */
import { beforeEach, expect, it, onTestFinished, vi } from "vitest"
import type { Link } from "../../src/broker/redis/client/link.ts"
import { Keys } from "../../src/broker/redis/keys.ts"
import { Roster } from "../../src/broker/redis/roster.ts"
import { silentLog } from "../../src/log.ts"

const DEAD_MS = 3000
const keys = new Keys({ prefix: "test", store: "0123456789ab", runId: "run" })

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] })
  onTestFinished(() => void vi.useRealTimers())
})

/** A roster on a Redis in which the test registers workers. */
function stage() {
  const registered = new Map<string, string>()
  const send = async (args: readonly string[]) => {
    if (args[0] === "SMEMBERS") return args[1] === keys.workers ? [...registered.keys()] : []
    if (args[0] === "MGET")
      return args.slice(1).map(key => [...registered].find(([id]) => keys.worker(id) === key)?.[1] ?? null)
    return []
  }
  const roster = new Roster({
    link: { send } as unknown as Link,
    deadMs: DEAD_MS,
    shownDeadMs: 0,
    log: silentLog,
  })
  return {
    roster,
    register(id: string) {
      const numbers = { concurrency: 1, prefetch: 0, running: 0, queued: 0, at: 0 }
      registered.set(id, JSON.stringify({ id, handlers: [], held: [], ...numbers }))
    },
    loseData() {
      registered.clear()
      roster.dataLost()
    },
    poll: () => roster.poll(keys, async () => false),
  }
}

it("S6 a worker that registered between two losses of data has a whole death timeout after the second", async () => {
  const { roster, register, loseData, poll } = stage()
  register("a")
  await poll()
  loseData()
  await vi.advanceTimersByTimeAsync(DEAD_MS - 500)
  // The engine does not poll while it is registered again.
  register("a")
  loseData()
  await vi.advanceTimersByTimeAsync(DEAD_MS - 500)
  await poll()
  expect(roster.isLive("a")).toBe(true)
  await vi.advanceTimersByTimeAsync(500)
  await poll()
  expect(roster.isLive("a")).toBe(false)
})

it("S6 a holder of a task that no poll found before Redis lost its data has a death timeout to register", async () => {
  const { roster, register, loseData, poll } = stage()
  register("a")
  await poll()
  loseData()
  register("a")
  await poll()
  expect(await roster.findDeadHolders(keys, ["a", "unseen"])).toEqual({ dead: new Set(), isSure: false })
  await vi.advanceTimersByTimeAsync(DEAD_MS)
  expect(await roster.findDeadHolders(keys, ["a", "unseen"])).toEqual({
    dead: new Set(["unseen"]),
    isSure: true,
  })
})

it("S6 a worker that registered after the poll is not dead, and one that is in no key is", async () => {
  const { roster, register, poll } = stage()
  await poll()
  register("late")
  expect(await roster.findDeadHolders(keys, ["late", "dead"])).toEqual({
    dead: new Set(["dead"]),
    isSure: true,
  })
})
