import { atTime, type Clock } from "../clock.ts"
import type { LiveJob } from "./live-job.ts"

/** An alarm that ends a job renders its output, which may take milliseconds, and a thousand alarms may be due at once. */
const TURN_MS = 10

/**
 * One alarm per job in memory, in a heap in which every job knows its index: nearly every job gets an alarm (its TTL)
 * and ends long before it, so removing an alarm must be cheap and leave nothing behind.
 */
export class Alarms {
  readonly #heap: LiveJob[] = []
  readonly #clock: Clock
  readonly #onAlarm: (job: LiveJob) => void
  #timer: { readonly at: number; readonly cancel: () => void } | null = null

  constructor(clock: Clock, onAlarm: (job: LiveJob) => void) {
    this.#clock = clock
    this.#onAlarm = onAlarm
  }

  set(job: LiveJob, at: number | null): void {
    if (at === null) {
      this.clear(job)
      return
    }
    if (job.alarmIndex >= 0 && job.alarmAt === at) return
    if (job.alarmIndex < 0) {
      job.alarmIndex = this.#heap.length
      this.#heap.push(job)
    }
    job.alarmAt = at
    this.#reorder(job)
    this.#arm()
  }

  clear(job: LiveJob): void {
    const index = job.alarmIndex
    if (index < 0) return
    job.alarmIndex = -1
    const last = this.#heap.pop()!
    if (last === job) return
    last.alarmIndex = index
    this.#heap[index] = last
    this.#reorder(last)
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = null
    for (const job of this.#heap) job.alarmIndex = -1
    this.#heap.length = 0
  }

  #arm(): void {
    const first = this.#heap[0]
    if (first === undefined || (this.#timer !== null && this.#timer.at <= first.alarmAt)) return
    this.#timer?.cancel()
    const at = first.alarmAt
    this.#timer = { at, cancel: atTime(this.#clock, at, () => this.#fire()) }
  }

  #fire(): void {
    this.#timer = null
    const now = this.#clock.now()
    for (let first = this.#heap[0]; first !== undefined && first.alarmAt <= now; first = this.#heap[0]) {
      // The other alarms fire in the next turns of the event loop.
      if (this.#clock.now() - now >= TURN_MS) break
      this.clear(first)
      this.#onAlarm(first)
    }
    this.#arm()
  }

  #reorder(job: LiveJob): void {
    const heap = this.#heap
    let index = job.alarmIndex
    for (
      let parent = (index - 1) >> 1;
      index > 0 && heap[parent]!.alarmAt > job.alarmAt;
      parent = (index - 1) >> 1
    ) {
      this.#place(heap[parent]!, index)
      index = parent
    }
    for (
      let child = this.#smallerChild(index);
      child !== null && child.alarmAt < job.alarmAt;
      child = this.#smallerChild(index)
    ) {
      const below = child.alarmIndex
      this.#place(child, index)
      index = below
    }
    this.#place(job, index)
  }

  #smallerChild(index: number): LiveJob | null {
    const left = this.#heap[2 * index + 1]
    const right = this.#heap[2 * index + 2]
    if (left === undefined) return null
    return right !== undefined && right.alarmAt < left.alarmAt ? right : left
  }

  #place(job: LiveJob, index: number): void {
    this.#heap[index] = job
    job.alarmIndex = index
  }
}
