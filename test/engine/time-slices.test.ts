/** Handing out nodes takes time; what does not fit into a turn of the event loop waits for the next one. */
import { describe, expect, it } from "vitest"
import { TimeSlices } from "../../src/engine/dispatch/dispatcher.ts"
import { Alarms } from "../../src/engine/owner/alarms.ts"
import type { LiveJob } from "../../src/engine/owner/live-job.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { flow, handler, open } from "./stage.ts"

const job = (id: string, evicted = false) => ({ id, evicted }) as LiveJob
const turn = () => new Promise<void>(resolve => setImmediate(resolve))

/** Each hand-out takes 4 ms: three of them fill a turn. */
function stage() {
  const clock = new VirtualClock()
  const handed: string[] = []
  const turns = new TimeSlices(clock, ({ id }, { node }) => {
    handed.push(`${id}${node}`)
    clock.advance(4)
  })
  const dispatch = (of: LiveJob, count: number) => {
    for (let node = 0; node < count; node++) turns.dispatch(of, { node, attempt: 1 })
  }
  return { turns, handed, dispatch }
}

describe("alarms", () => {
  it("that are due together fire in several turns of the event loop, each once", async () => {
    const clock = new VirtualClock()
    const rung: string[] = []
    const alarms = new Alarms(clock, ({ id }) => {
      rung.push(id)
      clock.advance(4)
    })
    const due = ["a", "b", "c", "d", "e"].map(id => ({ id, alarmIndex: -1, alarmAt: 0 }) as LiveJob)
    for (const each of due) alarms.set(each, clock.now() + 5)
    clock.advance(5)
    expect(rung).toHaveLength(3)
    clock.advance(100)
    expect([...rung].sort()).toEqual(["a", "b", "c", "d", "e"])
  })
})

describe("dispatch in time slices", () => {
  it("continues in later turns of the event loop, each node once and in order", async () => {
    const { handed, dispatch } = stage()
    dispatch(job("a"), 8)
    expect(handed).toEqual(["a0", "a1", "a2"])
    await turn()
    expect(handed).toHaveLength(6)
    await turn()
    expect(handed).toEqual(Array.from({ length: 8 }, (_, node) => `a${node}`))
  })

  it("a job with many nodes does not delay other jobs until all its nodes are dispatched", async () => {
    const { handed, dispatch } = stage()
    dispatch(job("a"), 100)
    dispatch(job("b"), 2)
    await turn()
    await turn()
    expect(handed).toEqual(["a0", "a1", "a2", "a3", "b0", "a4", "b1", "a5", "a6"])
  })

  it("drops waiting nodes of an evicted job, and all when it is stopped", async () => {
    const { turns, handed, dispatch } = stage()
    const [gone, other] = [job("a"), job("b")]
    dispatch(gone, 50)
    dispatch(other, 2)
    gone.evicted = true
    await turn()
    expect(handed.slice(3)).toEqual(["a3", "b0", "b1"])
    dispatch(other, 10)
    turns.stop()
    const before = handed.length
    await turn()
    expect(handed).toHaveLength(before)
  })

  it.each(["computes", "acts"])(
    "S5 a fan-out of nodes whose handler %s leaves the event loop to others",
    async name => {
      /** A machine on which every look at the clock comes 2 ms later. */
      class SlowClock extends VirtualClock {
        #late = 0
        override now(): number {
          this.#late += 2
          return super.now() + this.#late
        }
      }
      let turns = 0
      let isOver = false
      const look = () => {
        turns++
        if (!isOver) setImmediate(look)
      }
      const acts = handler("acts", config => config)
      const umbra = await open({ clock: new SlowClock(), handlers: [acts], worker: { concurrency: 1000 } })
      const each = { handler: name === "acts" ? "acts" : "transform", config: { value: "{{ item }}" } }
      setImmediate(look)
      const submitted = await umbra.submit(flow([{ id: "n", for_each: "{{ range(300) }}", ...each }]))
      const { status } = await submitted.wait()
      isOver = true
      expect(status).toBe("COMPLETED")
      // Five looks fill a turn.
      expect(turns).toBeGreaterThanOrEqual(300 / 5)
    },
  )
})
