/** The pace of retention, in simulated time: a step takes as long as the test says. */
import { describe, expect, it } from "vitest"
import { PacedLoop } from "../../src/engine/recovery/paced-loop.ts"
import { collectLog } from "./stage.ts"

const PAGE = 200

interface RowsOptions {
  readonly backlog?: number
  /** Rows that become old in a second. */
  readonly rate?: number
  /** How long a step takes, whatever it removes. */
  readonly tookMs: number
  readonly maxScale?: number
}

/** Rows that become old at a rate, and a loop that removes them in pages. */
class Rows {
  now = 0
  removed = 0
  /** Removed rows, and milliseconds in steps, by second. */
  readonly perSecond: number[] = []
  readonly busyMs: number[] = []
  readonly pauses: number[] = []
  readonly log = collectLog()
  isBroken = false
  largest = 0
  readonly loop: PacedLoop
  #timer: { at: number; fire: () => void } | null = null
  readonly #tookMs: number
  readonly #backlog: number
  readonly #ratePerSecond: () => number
  #arrived = 0

  constructor({ backlog = 0, rate = 0, tookMs, maxScale = 1 }: RowsOptions) {
    this.#tookMs = tookMs
    this.#backlog = backlog
    this.#ratePerSecond = () => rate
    this.loop = new PacedLoop({
      ...{ idleMs: 10_000, maxScale, log: this.log.log, step: scale => this.#step(Math.floor(PAGE * scale)) },
      clock: {
        ...{ now: () => this.now, random: () => 0 },
        after: (ms, fire) => {
          this.pauses.push(ms)
          this.#timer = { at: this.now + ms, fire }
          return () => {
            this.#timer = null
          }
        },
      },
    })
    this.loop.soon()
  }

  get left(): number {
    return this.#backlog + Math.floor(this.#arrived) - this.removed
  }

  get isPending(): boolean {
    return this.#timer !== null
  }

  async run(seconds: number): Promise<this> {
    const until = this.now + seconds * 1000
    while (this.#timer !== null && this.#timer.at <= until) {
      const { at, fire } = this.#timer
      this.#timer = null
      this.#wait(at - this.now)
      fire()
      await new Promise(resolve => setImmediate(resolve))
    }
    this.#wait(Math.max(0, until - this.now))
    return this
  }

  async #step(page: number): Promise<boolean> {
    if (this.isBroken) throw new Error("no database")
    const count = Math.min(page, this.left)
    this.largest = Math.max(this.largest, count)
    const second = Math.floor(this.now / 1000)
    this.#wait(this.#tookMs)
    this.removed += count
    this.perSecond[second] = (this.perSecond[second] ?? 0) + count
    this.busyMs[second] = (this.busyMs[second] ?? 0) + this.#tookMs
    return count === page
  }

  #wait(ms: number): void {
    this.now += ms
    this.#arrived += (this.#ratePerSecond() * ms) / 1000
  }
}

describe("the pace of retention", () => {
  it.each([
    [10, 8],
    [400, 8],
    [4000, 8],
    [20_000, 2],
  ])("J17 %s rows a second are removed as evenly as they come, in steps of %s ms", async (rate, tookMs) => {
    const rows = await new Rows({ rate, tookMs }).run(60)
    const before = rows.perSecond.length
    await rows.run(60)
    // The slowest rates are removed every ten seconds.
    expect(rows.left).toBeLessThanOrEqual(Math.max(2 * PAGE, rate))
    if (rate < 1000) return
    const seconds = rows.perSecond.slice(before + 1, -1)
    expect(Math.max(...seconds)).toBeLessThanOrEqual(1.5 * rate)
    expect(Math.min(...seconds)).toBeGreaterThanOrEqual(0.5 * rate)
  })

  it("J17 a backlog is worked off without pause and without taking more than a quarter of the time", async () => {
    const rows = await new Rows({ backlog: 200_000, tookMs: 8 }).run(20)
    const busy = rows.busyMs.slice(0, 20)
    expect(Math.max(...busy)).toBeLessThanOrEqual(320)
    // Once the pace is found, no second is much slower than another.
    expect(Math.min(...busy.slice(5))).toBeGreaterThanOrEqual(200)
    await rows.run(40)
    expect(rows.left).toBe(0)
  })

  it("J17 where a quarter of the time is too little, the share rises until it keeps pace", async () => {
    // 200 rows in 25 ms: 4,000 a second need half of the time.
    const rows = await new Rows({ rate: 4000, tookMs: 25 }).run(20 * 60)
    const most = rows.left
    await rows.run(20 * 60)
    expect(rows.left).toBeLessThanOrEqual(Math.max(most, 4000))
    expect(Math.max(...rows.busyMs.slice(-600))).toBeLessThanOrEqual(1000)
  })

  it("J17 pages grow where each step takes long, whatever it removes, and only there", async () => {
    // A page of 200 every second, with three quarters of it in pauses, is a tenth of what is needed.
    const slow = await new Rows({ rate: 2000, tookMs: 250, maxScale: 20 }).run(60)
    const { left } = slow
    await slow.run(60)
    expect(slow.left).toBeLessThanOrEqual(Math.max(left, 4000))
    expect(slow.largest).toBeGreaterThan(PAGE)
    const fast = await new Rows({ rate: 4000, tookMs: 8, maxScale: 20 }).run(60)
    fast.largest = 0
    await fast.run(60)
    expect(fast.largest).toBe(PAGE)
  })

  it("polls every ten seconds while there is nothing to do", async () => {
    const rows = await new Rows({ tookMs: 1 }).run(120)
    expect(rows.pauses.slice(-3)).toEqual([10_000, 10_000, 10_000])
    expect(rows.pauses.length).toBeLessThan(15)
  })

  it("logs a step that failed, and retries it later", async () => {
    const rows = new Rows({ backlog: 1000, tookMs: 8 })
    rows.isBroken = true
    await rows.run(25)
    expect(rows.log.lines.filter(({ message }) => message.startsWith("could not remove"))).toHaveLength(3)
    rows.isBroken = false
    await rows.run(60)
    expect(rows.left).toBe(0)
  })

  it("does nothing after it was stopped, also when a step was running", async () => {
    const rows = await new Rows({ backlog: 1000, tookMs: 8 }).run(0)
    rows.loop.stop()
    const { removed } = rows
    await rows.run(60)
    expect(rows.removed).toBe(removed)
    expect(rows.isPending).toBe(false)
  })
})
