/** The adapters of one route, and the common context of their calls. */

import type { Fault } from "../../core/faults.ts"
import type { Json } from "../../core/json.ts"
import type { Breaker, BreakerState } from "../../core/pipeline/breaker.ts"
import type { LiveMessage } from "../../engine/remote/live-messages.ts"
import { UmbraError } from "../../errors.ts"
import type { MessageKey } from "../../journal/port/pipelines.ts"
import type { Log } from "../../log.ts"
import type { Redactor } from "../../worker/redact.ts"
import type { Gathering } from "../adapter.ts"
import type { Delivery, Ending } from "../commit/delivery.ts"
import type { ChainPlan, PreparedAdapter, PreparedRoute } from "../registry/prepared-adapter.ts"
import type { PipelineSettings } from "../settings.ts"
import type { OpensStorage } from "../storage.ts"
import { type DeliveryEvents, DeliveryRun } from "./delivery-run.ts"

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
  readonly formatKey: (key: MessageKey) => string
  /** Why the owner of the job cannot refer to these artifacts; null: it can. */
  readonly artifactFault: (hashes: readonly string[]) => Promise<Fault | null>
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
  readonly plan: ChainPlan
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
    route: { readonly position: number; readonly plan: ChainPlan; readonly prepared: PreparedRoute },
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

/** Messages that wait at an adapter until there are enough of them to be processed as one. */
interface Group {
  readonly runs: DeliveryRun[]
  readonly count: number
  readonly cancelTimer: () => void
}

class Gatherers {
  readonly #clock: { after(ms: number, fire: () => void): () => void }
  readonly #max: number
  /** By adapter and key; the oldest first. */
  readonly #groups = new Map<string, Group>()
  #waiting = 0
  #isStopped = false

  constructor(clock: { after(ms: number, fire: () => void): () => void }, max: number) {
    this.#clock = clock
    this.#max = max
  }

  /** The message waits, or continues with its group. */
  add(run: DeliveryRun, prepared: PreparedAdapter): void {
    if (this.#isStopped) {
      run.hold()
      return
    }
    let terms: Gathering
    try {
      terms = readTerms(prepared, run)
    } catch (error) {
      run.fail(prepared, error)
      return
    }
    const name = `${run.adapter}/${terms.key ?? ""}`
    const group = this.#groups.get(name) ?? this.#open(name, terms)
    group.runs.push(run)
    this.#waiting += 1
    run.chain.events.waits(run)
    if (group.runs.length >= group.count) this.#complete(name)
    else if (this.#waiting > this.#max) this.#complete(this.#groups.keys().next().value!)
  }

  stop(): void {
    this.#isStopped = true
    for (const { cancelTimer } of this.#groups.values()) cancelTimer()
    this.#groups.clear()
    this.#waiting = 0
  }

  #open(name: string, terms: Gathering): Group {
    const cancelTimer = this.#clock.after(terms.seconds * 1000, () => this.#complete(name))
    const group = { runs: [], count: terms.count, cancelTimer }
    this.#groups.set(name, group)
    return group
  }

  #complete(name: string): void {
    const group = this.#groups.get(name)
    if (group === undefined) return
    this.#groups.delete(name)
    group.cancelTimer()
    this.#waiting -= group.runs.length
    const [first, ...others] = group.runs
    first!.members.push(...others)
    first!.chain.events.resumed(first!)
    first!.advanceGathered()
  }
}

function readTerms(prepared: PreparedAdapter, { body }: DeliveryRun): Gathering {
  const config = prepared.configFor(body)
  if (!(config instanceof Promise)) return prepared.adapter.gather!(config)
  throw new UmbraError(
    "E720",
    `The config schema of adapter "${prepared.type}" is asynchronous, and an adapter that gathers needs its config synchronously.`,
  )
}
