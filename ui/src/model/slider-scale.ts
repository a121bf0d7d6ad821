/**
 * The axis of the time slider: time from left to right, in parts of its width (0 to 1). Stretches without an event that
 * would take more than a tenth of it, and are far longer than usual, are folded to a short break.
 */
import type { FactRecord } from "../../../src/core/index.ts"

export interface Break {
  readonly from: number
  readonly to: number
  readonly x: number
}

const LONG = 0.1
/** Times the mean: with few events all stretches may be long, and are the job's rhythm. */
const UNUSUAL = 4
const BREAK = 0.02

export class SliderScale {
  readonly breaks: readonly Break[]
  readonly start: number
  readonly end: number
  /** Ends of stretches: time and place on the axis. */
  readonly #times: number[] = []
  readonly #places: number[] = []
  readonly #facts: readonly FactRecord[]

  /** `end`: the right edge; at least the time of the last fact. */
  constructor(facts: readonly FactRecord[], end: number) {
    this.#facts = facts
    this.start = facts[0]?.at ?? end
    this.end = Math.max(end, this.start + 1)
    const gaps = longGaps(facts, this.start, this.end)
    const folded = gaps.reduce((sum, [from, to]) => sum + to - from, 0)
    const scale = (1 - gaps.length * BREAK) / Math.max(1, this.end - this.start - folded)
    const breaks: Break[] = []
    let [time, place] = [this.start, 0]
    this.#stop(time, place)
    for (const [from, to] of gaps) {
      place += (from - time) * scale
      this.#stop(from, place)
      breaks.push({ from, to, x: place + BREAK / 2 })
      place += BREAK
      time = to
      this.#stop(time, place)
    }
    this.#stop(this.end, 1)
    this.breaks = breaks
  }

  #stop(time: number, place: number): void {
    this.#times.push(time)
    this.#places.push(place)
  }

  timeToX(time: number): number {
    return interpolate(this.#times, this.#places, time)
  }

  xToTime(x: number): number {
    return interpolate(this.#places, this.#times, x)
  }

  /** The number of facts up to the place x. Facts of different nodes may be out of order by a little. */
  indexAt(x: number): number {
    const time = this.xToTime(x)
    let [low, high] = [0, this.#facts.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#facts[middle]!.at <= time) low = middle + 1
      else high = middle
    }
    return Math.max(1, low)
  }

  /** How many facts are in each of `bins` equal parts of the axis. */
  density(bins: number): number[] {
    const counts = new Array<number>(bins).fill(0)
    for (const { at } of this.#facts) counts[Math.min(bins - 1, Math.floor(this.timeToX(at) * bins))]!++
    return counts
  }

  /** Times for the labels below the axis. */
  ticks(most: number): number[] {
    const shown = this.end - this.start
    const step = steps.find(candidate => shown / candidate <= most * 4) ?? steps.at(-1)!
    const ticks: number[] = []
    let last = 0
    for (
      let time = Math.ceil(this.start / step) * step;
      time < this.end && ticks.length < 200;
      time += step
    ) {
      const x = this.timeToX(time)
      if (x - last < 1 / most || x > 1 - 0.4 / most) continue
      ticks.push(time)
      last = x
    }
    return ticks
  }
}

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const steps = [
  ...[1, 2, 5, 10, 15, 30].map(n => n * second),
  ...[1, 2, 5, 10, 15, 30].map(n => n * minute),
  ...[1, 2, 6, 12, 24, 72, 168].map(n => n * hour),
]

function longGaps(facts: readonly FactRecord[], start: number, end: number): [number, number][] {
  const gaps: [number, number][] = []
  const least = (end - start) * Math.max(LONG, UNUSUAL / facts.length)
  let latest = start
  for (const { at } of facts) {
    if (at - latest > least) gaps.push([latest, at])
    latest = Math.max(latest, at)
  }
  if (end - latest > least) gaps.push([latest, end])
  return gaps
}

function interpolate(from: readonly number[], to: readonly number[], value: number): number {
  let right = 1
  while (right < from.length - 1 && from[right]! < value) right++
  const [a, b] = [from[right - 1]!, from[right]!]
  const part = b === a ? 0 : Math.min(1, Math.max(0, (value - a) / (b - a)))
  return to[right - 1]! + part * (to[right]! - to[right - 1]!)
}
