/**
 * One route of a running execution: takes messages from its queue, keeps as many in flight as its concurrency
 * allows, and reports their results.
 *
 * 1. In memory are the messages in flight, at most `prefetch` that are ready, and those that wait to be
 *    gathered; all others are rows.
 * 2. A message begins only if it is durable, not in flight, and not settled.
 */

import { isOverload } from "../../core/faults.ts"
import type { BreakerState } from "../../core/pipeline/breaker.ts"
import { Concurrency } from "../../core/pipeline/concurrency.ts"
import type { RouteProgress } from "../../core/pipeline/progress.ts"
import type { RoutePlan } from "../../definition/pipeline/plan.ts"
import type { LiveMessage } from "../../engine/remote/live-messages.ts"
import type { MessageRow } from "../../journal/port/pipelines.ts"
import type { Delivery, Ending } from "../commit/delivery.ts"
import type { ChainEvents, ExecutionContext, RouteChain } from "./chain.ts"
import type { ActiveDelivery } from "./delivery-run.ts"
import { RouteQueue, type RouteQueueParts } from "./route-queue.ts"
import type { Suspects } from "./suspects.ts"

interface RouteRunParts {
  readonly position: number
  readonly plan: RoutePlan
  readonly chain: (events: ChainEvents) => RouteChain
  readonly progress: RouteProgress
  readonly context: ExecutionContext
  readonly queue: Omit<RouteQueueParts, "route" | "prefetch" | "progress" | "arrived">
  /** Do the routes behind it have room? */
  readonly mayBegin: () => boolean
  /** null: a delivery has ended that does not count. */
  readonly ended: (ending: Ending | null) => void
  /** A message for people who watch the job. */
  readonly reportProgress: (message: string) => void
  readonly suspects: Suspects
}

const sliceMs = 10

export class RouteRun implements ChainEvents {
  readonly plan: RoutePlan
  readonly progress: RouteProgress
  readonly metrics: RouteState
  readonly queue: RouteQueue
  readonly #parts: RouteRunParts
  readonly #chain: RouteChain
  readonly #concurrency: Concurrency
  readonly #rate: RouteRate
  #inHand = 0
  /** Messages in flight that are announced and not delivered yet. */
  readonly #announcing = new Set<Delivery>()
  #gathered = 0
  /** Messages in flight or waiting to be gathered that are in a retry. */
  #retrying = 0
  #isPumping = false
  #isStopped = false
  #cancelTimer: (() => void) | null = null

  constructor(parts: RouteRunParts) {
    const { plan, position, progress, context } = parts
    this.#parts = parts
    this.plan = plan
    this.progress = progress
    this.metrics = new RouteState(context.now)
    const { adaptive, minConcurrency: min, tolerance } = plan.backpressure
    this.#concurrency = new Concurrency({ adaptive, min, max: plan.concurrency, tolerance })
    this.#rate = new RouteRate(plan.rate)
    this.#chain = parts.chain(this)
    this.queue = new RouteQueue({
      ...parts.queue,
      route: position,
      prefetch: plan.prefetch,
      progress,
      arrived: () => this.pump(),
    })
  }

  /** The message with this number, if it is in flight. */
  live(seq: number): LiveMessage | null {
    return this.#chain.live(seq)
  }

  get inHand(): number {
    return this.#inHand
  }

  get limit(): number {
    return this.#concurrency.limit
  }

  /** The state of the breaker of each adapter; null: the adapter has none. */
  get breakers(): readonly (BreakerState | null)[] {
    const now = this.#parts.context.now()
    return this.#chain.breakers.map(breaker => breaker?.state(now) ?? null)
  }

  /** The number of messages in flight, including those that wait to be gathered. */
  get inFlight(): number {
    return this.#inHand + this.#gathered
  }

  /** The number of messages in flight that are in a retry. */
  get retrying(): number {
    return this.#retrying
  }

  /** Begins as many messages as the limits allow. */
  pump(): void {
    if (this.#isPumping || this.#isStopped) return
    this.#isPumping = true
    this.#begin()
    this.#isPumping = false
    this.queue.fill()
  }

  #begin(): void {
    const end = performance.now() + sliceMs
    while (this.#mayBegin()) {
      if (performance.now() >= end) {
        setImmediate(() => this.pump())
        return
      }
      const delivery = this.queue.take()
      if (delivery === undefined) return
      this.#rate.begun(this.#parts.context.now())
      this.#inHand += 1
      if (isRetry(delivery)) this.#retrying += 1
      if (this.#parts.suspects.has(delivery)) this.#announce(delivery)
      else this.#chain.deliver(delivery)
    }
  }

  /** The message is delivered when its announcement is durable, which may take some time. */
  #announce(delivery: Delivery): void {
    this.#announcing.add(delivery)
    this.#parts.suspects.try(delivery, announced => {
      if (this.#isStopped) return
      this.#announcing.delete(delivery)
      this.#chain.deliver(announced)
    })
  }

  #mayBegin(): boolean {
    const { suspects, mayBegin } = this.#parts
    if (this.#isStopped || this.#inHand >= this.#concurrency.limit || suspects.isAlone || !mayBegin())
      return false
    const now = this.#parts.context.now()
    const at = Math.max(this.#chain.mayBeginAt(now), this.#rate.mayBeginAt(now))
    if (at <= now) return true
    this.#pumpAfter(at - now)
    return false
  }

  #pumpAfter(ms: number): void {
    if (this.#cancelTimer !== null) return
    this.#cancelTimer = this.#parts.context.after(ms, () => {
      this.#cancelTimer = null
      this.pump()
    })
  }

  // The events of delivery runs.

  ended(run: ActiveDelivery, ending: Ending | null): void {
    const { suspects, ended } = this.#parts
    const deliveries = [run, ...run.members].map(({ delivery }) => delivery)
    if (ending !== null) this.#measure(run, ending.result, deliveries.length)
    this.#inHand -= 1
    for (const delivery of deliveries) {
      if (isRetry(delivery)) this.#retrying -= 1
      if (ending === null) suspects.putOff(delivery)
      else if ("fault" in ending.result) this.queue.failing(delivery.seq)
    }
    if (ending === null) this.queue.putBack(deliveries)
    suspects.next()
    ended(ending)
    this.pump()
  }

  #measure({ begunAt }: ActiveDelivery, result: Ending["result"], messages: number): void {
    const latencyMs = performance.now() - begunAt
    // The time until a message fails is not a measure of the capacity.
    if (!("fault" in result)) this.#concurrency.ended(latencyMs, this.#inHand)
    else if (isOverload(result.fault)) this.#concurrency.overloaded()
    this.metrics.ended(latencyMs, messages)
  }

  waits(): void {
    this.#inHand -= 1
    this.#gathered += 1
    this.#parts.suspects.next()
    this.pump()
  }

  resumed(first: ActiveDelivery): void {
    this.#gathered -= 1 + first.members.length
    this.#inHand += 1
  }

  breakerChanged(adapter: number, state: BreakerState): void {
    this.metrics.breakerChanged(state)
    this.#parts.reportProgress(
      `circuit breaker of ${this.plan.name}/${this.plan.adapters[adapter]!.type} is ${state}`,
    )
  }

  /** These messages are durable now. */
  arrived(messages: readonly MessageRow[], tail: number): void {
    this.queue.arrived(messages, tail)
    this.pump()
  }

  /** Begins no further message. Messages in flight may end. */
  stop(): void {
    for (const delivery of this.#announcing) {
      this.#inHand -= 1
      if (isRetry(delivery)) this.#retrying -= 1
    }
    this.#announcing.clear()
    this.#isStopped = true
    this.#cancelTimer?.()
    this.#chain.stop()
    this.queue.stop()
  }
}

/** A message from the queue is in its first try, a parked one in a later try. */
const isRetry = ({ dueAt }: Delivery): boolean => dueAt !== null

/** Limits the number of messages per second, evenly spaced, with short bursts. */
class RouteRate {
  readonly #intervalMs: number
  readonly #burstMs: number
  /** When the next message would begin if all were evenly spaced. */
  #next = 0

  /** null: no limit. */
  constructor(perSecond: number | null) {
    this.#intervalMs = perSecond === null ? 0 : 1000 / perSecond
    // A timer fires some milliseconds late: this burst makes up for it.
    this.#burstMs = Math.max(this.#intervalMs, 20)
  }

  mayBeginAt(now: number): number {
    return this.#intervalMs === 0 || this.#next - this.#burstMs < now ? 0 : this.#next - this.#burstMs + 1
  }

  begun(now: number): void {
    if (this.#intervalMs > 0) this.#next = Math.max(this.#next, now) + this.#intervalMs
  }
}

/** The current state of a route, for metrics and queries. */
class RouteState {
  readonly #now: () => number
  #since: number
  #count = 0
  #rate = 0
  #latencyMs = 0
  /** How often a breaker opened, and closed again. */
  opened = 0
  closed = 0
  /** Dead letters of an earlier run that this run has retried. */
  retriedDead = 0

  constructor(now: () => number) {
    this.#now = now
    this.#since = now()
  }

  ended(latencyMs: number, messages: number): void {
    this.#count += messages
    this.#latencyMs =
      this.#latencyMs === 0 ? latencyMs : this.#latencyMs + (latencyMs - this.#latencyMs) * 0.05
  }

  breakerChanged(state: BreakerState): void {
    if (state === "open") this.opened += 1
    if (state === "closed") this.closed += 1
  }

  get latencyMs(): number {
    return Math.round(this.#latencyMs * 1000) / 1000
  }

  /** Messages per second, over the last seconds. */
  get rate(): number {
    const now = this.#now()
    const seconds = (now - this.#since) / 1000
    if (seconds >= 1) {
      const share = Math.min(1, seconds / 5)
      this.#rate += (this.#count / seconds - this.#rate) * (this.#rate === 0 ? 1 : share)
      this.#since = now
      this.#count = 0
    }
    return Math.round(this.#rate * 10) / 10
  }
}
