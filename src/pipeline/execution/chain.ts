/** The adapters of one route, and the common context of their calls. */
import type { Json } from "../../core/json.ts"
import type { Breaker, BreakerState } from "../../core/pipeline/breaker.ts"
import type { RoutePlan } from "../../definition/pipeline/plan.ts"
import type { MessageKey } from "../../journal/port/pipelines.ts"
import type { Log } from "../../log.ts"
import type { Redactor } from "../../worker/redact.ts"
import type { Delivery, Ending } from "../commit/delivery.ts"
import type { LiveMessage } from "../commit/live-message.ts"
import type { PreparedAdapter, PreparedRoute } from "../registry/prepared-adapter.ts"
import type { PipelineSettings } from "../settings.ts"
import type { OpensStorage } from "../storage.ts"
import { type DeliveryEvents, DeliveryRun } from "./delivery-run.ts"
import { Gatherers } from "./gathering.ts"

/** Shared by all routes of an execution. */
export interface ExecutionContext {
  readonly jobId: string
  readonly owner: string
  readonly pipeline: string
  readonly input: Json
  readonly signal: AbortSignal
  readonly log: Log
  readonly storage: OpensStorage
  readonly settings: PipelineSettings
  readonly now: () => number
  /** True if no other process can have taken over yet. */
  readonly isSure: () => boolean
  readonly after: (ms: number, fire: () => void) => () => void
  readonly submit: (workflow: string, input: Json | undefined, key: string) => Promise<string>
  readonly nameOf: (key: MessageKey) => string
}

/** Takes messages of one route through its adapters, in this process or on workers. */
export interface RouteChain {
  /** By adapter; null: the adapter has none. */
  readonly breakers: readonly (Breaker | null)[]
  /** When a message may begin, as far as the chain knows; a time in the past: now. */
  mayBeginAt(now: number): number
  deliver(delivery: Delivery): void
  /** The message with this number, if it is in flight. */
  live(seq: number): LiveMessage | null
  stop(): void
}

export interface ChainEvents extends DeliveryEvents {
  breakerChanged(adapter: number, state: BreakerState): void
}

export class Chain implements RouteChain {
  readonly route: number
  readonly plan: RoutePlan
  readonly adapters: readonly PreparedAdapter[]
  readonly redactor: Redactor | null
  readonly events: ChainEvents
  readonly log: Log
  /**
   * The limit of what an adapter returns for the next one: larger than that of a message in a queue, but not
   * unlimited.
   */
  readonly passedOn: { readonly maxBytes: number; readonly what: string }
  readonly context: ExecutionContext
  readonly #gatherers: Gatherers
  readonly #inHand = new Map<number, DeliveryRun>()

  constructor(
    route: { readonly position: number; readonly plan: RoutePlan; readonly prepared: PreparedRoute },
    context: ExecutionContext,
    events: ChainEvents,
  ) {
    this.route = route.position
    this.plan = route.plan
    this.adapters = route.prepared.adapters
    this.redactor = route.prepared.redactor
    this.events = events
    this.log = context.log.child({ route: route.plan.name })
    this.passedOn = { maxBytes: context.settings.maxEmittedBytes, what: "message for the next adapter" }
    this.context = context
    this.#gatherers = new Gatherers(context, context.settings.maxGathered)
  }

  deliver(delivery: Delivery): void {
    const run = new DeliveryRun(this, delivery)
    this.#inHand.set(delivery.seq, run)
    run.advance()
  }

  live(seq: number): LiveMessage | null {
    return this.#inHand.get(seq)?.live ?? null
  }

  /** The delivery has ended, with those of the messages that were gathered into it. */
  ended(run: DeliveryRun, ending: Ending | null): void {
    for (const { delivery } of [run, ...run.members]) this.#inHand.delete(delivery.seq)
    this.events.ended(run, ending)
  }

  /** The message waits here, or continues with a group. */
  gather(run: DeliveryRun, prepared: PreparedAdapter): void {
    this.#gatherers.add(run, prepared)
  }

  get breakers(): readonly (Breaker | null)[] {
    return this.adapters.map(({ breaker }) => breaker)
  }

  mayBeginAt(now: number): number {
    let at = 0
    for (const { breaker } of this.adapters) if (breaker !== null) at = Math.max(at, breaker.mayCallAt(now))
    return at
  }

  breakerChanged(adapter: number, type: string, state: BreakerState): void {
    this.log.warn({ adapter: type, breaker: state }, `circuit breaker is ${state}`)
    this.events.breakerChanged(adapter, state)
  }

  /** Waiting groups are left unchanged: their messages are delivered again. */
  stop(): void {
    this.#gatherers.stop()
  }
}
