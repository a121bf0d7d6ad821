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
import type { MessageRow } from "../../journal/port/pipelines.ts"
import type { Delivery, Ending } from "../commit/delivery.ts"
import type { LiveMessage } from "../commit/live-message.ts"
import type { ChainEvents, ExecutionContext, RouteChain } from "./chain.ts"
import type { ActiveDelivery } from "./delivery-run.ts"
import { RouteState } from "./route-metrics.ts"
import { RouteQueue, type RouteQueueParts } from "./route-queue.ts"
import { RouteRate } from "./route-rate.ts"
import type { Suspects } from "./suspects.ts"

export interface RouteRunParts {
  readonly position: number
  readonly plan: RoutePlan
  readonly chain: (events: ChainEvents) => RouteChain
  readonly progress: RouteProgress
  readonly context: ExecutionContext
  readonly queue: Omit<RouteQueueParts, "route" | "prefetch" | "progress" | "arrived">
  /** Do the routes behind it have room? */
  readonly mayBegin: () => boolean
  readonly ended: (ending: Ending) => void
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

  ended(run: ActiveDelivery, ending: Ending): void {
    const latencyMs = performance.now() - run.begunAt
    // How quickly a message fails says nothing about the capacity.
    if (!("fault" in ending.result)) this.#concurrency.ended(latencyMs, this.#inHand)
    else if (isOverload(ending.result.fault)) this.#concurrency.overloaded()
    this.metrics.ended(latencyMs, 1 + ending.members.length)
    this.#inHand -= 1
    for (const { delivery } of [ending, ...ending.members]) {
      if (isRetry(delivery)) this.#retrying -= 1
      if ("fault" in ending.result) this.queue.failing(delivery.seq)
    }
    this.#parts.suspects.next()
    this.#parts.ended(ending)
    this.pump()
  }

  held(run: ActiveDelivery): void {
    this.#inHand -= 1
    const deliveries = [run.delivery, ...run.members.map(({ delivery }) => delivery)]
    for (const delivery of deliveries) {
      if (isRetry(delivery)) this.#retrying -= 1
      this.#parts.suspects.putOff(delivery)
    }
    this.#parts.suspects.next()
    this.queue.putBack(deliveries)
    this.pump()
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
