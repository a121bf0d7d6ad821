/**
 * The adapters of a route with `run_on: workers`: messages are sent to remote workers and return with the
 * messages that were emitted. A message that was lost with its worker is delivered again; nothing of the lost
 * delivery counts.
 */

import type { CallAnswer, RemoteWorkers } from "../../broker/port.ts"
import type { Json } from "../../core/json.ts"
import { Breaker } from "../../core/pipeline/breaker.ts"
import type { RoutePlan } from "../../definition/pipeline/plan.ts"
import type { LiveMessage } from "../../engine/remote/live-messages.ts"
import type { Invocation } from "../../journal/port/pipelines.ts"
import { type Delivery, type Ending, failedCalls, referencesIn } from "../commit/delivery.ts"
import type { ChainEvents, ExecutionContext, RouteChain } from "./chain.ts"
import type { ActiveDelivery } from "./delivery-run.ts"

interface RemoteChainParts {
  readonly position: number
  readonly plan: RoutePlan
  readonly queue: string
  readonly owner: string
  readonly job: Json
  readonly context: ExecutionContext
  readonly lossLimit: number
  /** undefined: this process has no fleet. */
  readonly workers: () => RemoteWorkers | undefined
}

/** While no worker is available, the interval between two checks. */
const RECHECK_MS = 500

export class RemoteChain implements RouteChain {
  readonly breakers: readonly (Breaker | null)[]
  readonly #parts: RemoteChainParts
  readonly #events: ChainEvents
  readonly #route: RouteCall["route"]
  /** The number of deliveries that were lost with their worker, by message, while it is in memory. */
  readonly #losses = new Map<number, number>()
  /** Messages that were sent to workers, with their calls as far as a worker has reported them. */
  readonly #inHand = new Map<number, ReportedCalls | null>()
  /** Whether the absence of workers was logged. */
  #isLogged = false

  constructor(parts: RemoteChainParts, events: ChainEvents) {
    const { plan, position } = parts
    this.#parts = parts
    this.#events = events
    this.#route = describeRoute(plan, position)
    this.breakers = plan.adapters.map(() => (plan.breaker === null ? null : new Breaker(plan.breaker)))
  }

  mayBeginAt(now: number): number {
    if (!this.#isServed()) return now + RECHECK_MS
    return this.breakers.reduce((at, breaker) => Math.max(at, breaker?.mayCallAt(now) ?? 0), 0)
  }

  #isServed(): boolean {
    const { workers, queue, context, plan } = this.#parts
    const isServed = workers()?.answers(queue) === true
    if (!isServed && !this.#isLogged)
      context.log.warn(
        { route: plan.name, queue },
        "no worker is available that takes messages of this route",
      )
    this.#isLogged = !isServed
    return isServed
  }

  live(seq: number): LiveMessage | null {
    const reported = this.#inHand.get(seq)
    if (reported == null) return reported === null ? { rows: [], running: null } : null
    const { rows, running, receivedAt } = reported
    const sinceUs = Math.round((performance.now() - receivedAt) * 1000)
    return { rows, running: running && { ...running, durationUs: running.durationUs + sinceUs } }
  }

  /** By the clock of this process. Any process that reaches Redis can send anything. */
  #reported({ seq }: Delivery, report: RouteReport): void {
    if (!this.#inHand.has(seq) || !Number.isFinite(report?.at) || !Array.isArray(report.rows)) return
    const shift = this.#parts.context.now() - report.at
    const local = <T extends { readonly at: number }>(call: T): T => ({ ...call, at: call.at + shift })
    this.#inHand.set(seq, {
      rows: report.rows.map(local),
      running: report.running && local(report.running),
      receivedAt: performance.now(),
    })
  }

  deliver(delivery: Delivery): void {
    this.#inHand.set(delivery.seq, null)
    const { context, queue, plan, owner, workers } = this.#parts
    const begunAt = performance.now()
    const trials = this.breakers.map(breaker => breaker?.begin(context.now()) ?? 0)
    const of = { jobId: context.jobId, nodeId: plan.name, handler: queue, owner, workflow: context.pipeline }
    const call = { ...of, config: this.#call(delivery) as unknown as Json }
    void workers()!
      .call(call, {
        signal: context.signal,
        onPreview: report => this.#reported(delivery, report as unknown as RouteReport),
      })
      .then(answer => this.#answered({ delivery, begunAt, members: [] }, trials, answer))
  }

  #answered(run: ActiveDelivery, trials: readonly number[], answer: CallAnswer): void {
    const { delivery } = run
    this.#inHand.delete(delivery.seq)
    const end = this.#resolveAnswer(delivery, answer)
    if (end === null) {
      for (const [i, breaker] of this.breakers.entries()) breaker?.forget(trials[i]!)
      this.#events.ended(run, null)
      return
    }
    this.#losses.delete(delivery.seq)
    this.#updateBreakers(trials, end)
    const hashes = "fault" in end.result ? [] : referencesIn(end.result.emitted)
    if (hashes.length === 0) this.#ended(run, end)
    else
      void this.#parts.context.artifactFault(hashes).then(fault => {
        const { invocations } = end
        this.#ended(
          run,
          fault === null ? end : { invocations: failedCalls(invocations, fault), result: { fault } },
        )
      })
  }

  #ended(run: ActiveDelivery, end: RouteAnswer): void {
    this.#events.ended(run, { delivery: run.delivery, members: [], ...end })
  }

  /** null: the message is delivered once more, and this delivery does not count. */
  #resolveAnswer({ seq }: Delivery, answer: CallAnswer): RouteAnswer | null {
    if (answer === null) return null
    if (answer !== "lost") {
      if (answer.type === "completed") return this.#toLocalClock(answer.output as unknown as RouteAnswer)
      return answer.type === "failed" ? { invocations: [], result: { fault: answer.fault } } : null
    }
    const losses = (this.#losses.get(seq) ?? 0) + 1
    this.#losses.set(seq, losses)
    if (losses < this.#parts.lossLimit) return null
    const message = `${losses} workers were lost while they held this message; it is not tried again.`
    return { invocations: [], result: { fault: { code: "E709", message, retryable: false } } }
  }

  /**
   * The times of calls come from the worker's clock. They are shifted so that the last call ended when the
   * answer arrived.
   */
  #toLocalClock({ invocations, result }: RouteAnswer): RouteAnswer {
    const shift = this.#parts.context.now() - (invocations.at(-1)?.at ?? 0)
    const moved = invocations.map((call): Invocation => ({ ...call, at: call.at + shift }))
    return { invocations: moved, result }
  }

  #call(delivery: Delivery): RouteCall {
    const { context, job } = this.#parts
    return {
      pipeline: context.pipeline,
      job,
      input: context.input,
      route: this.#route,
      message: delivery,
      id: context.formatKey(delivery),
      parent: delivery.parent === null ? null : context.formatKey(delivery.parent),
    }
  }

  #updateBreakers(trials: readonly number[], { invocations, result }: RouteAnswer): void {
    const { context } = this.#parts
    const isFailure = "fault" in result && result.fault.retryable
    for (const [adapter, breaker] of this.breakers.entries()) {
      const call = invocations.find(each => each.adapter === adapter)
      if (call === undefined) breaker?.forget(trials[adapter]!)
      const changed =
        call === undefined
          ? null
          : breaker?.ended(trials[adapter]!, call.status === "failed" && isFailure, context.now())
      if (changed != null) this.#events.breakerChanged(adapter, changed)
    }
  }

  stop(): void {
    this.#losses.clear()
  }
}

/** A message sent to a remote worker, which takes it through the adapters of its route, and the answer. */
export interface RouteCall {
  readonly pipeline: string
  readonly job: Json
  readonly input: Json
  readonly route: {
    readonly name: string
    readonly position: number
    readonly adapters: readonly { readonly type: string; readonly config: Json }[]
    readonly outbound: { readonly [kind: string]: number }
    /** Left out by engines of 0.1: 1. */
    readonly rules?: number
  }
  readonly message: Delivery
  /** The names of the message and of its parent. */
  readonly id: string
  readonly parent: string | null
}

/** The calls of a message that takes longer, as its worker reports them meanwhile. */
export interface RouteReport extends LiveMessage {
  /** When, by the worker's clock. */
  readonly at: number
}

interface ReportedCalls extends LiveMessage {
  /** `performance.now()` */
  readonly receivedAt: number
}

export interface RouteAnswer {
  readonly invocations: readonly Invocation[]
  readonly result: Ending["result"]
}

/** The queue for routes whose adapters are all built in. */
export const builtinQueue = "adapters"
/** The queue for routes that need this adapter. */
export const adapterQueue = (type: string) => `adapter:${type}`

/**
 * The queue of a route: that of the workers that have its first adapter which is not built in. They need the
 * others, too.
 */
export function routeQueueName({ adapters }: RoutePlan, isBuiltin: (type: string) => boolean): string {
  const own = adapters.find(({ type }) => !isBuiltin(type))
  return own === undefined ? builtinQueue : adapterQueue(own.type)
}

function describeRoute(plan: RoutePlan, position: number): RouteCall["route"] {
  return {
    name: plan.name,
    position,
    adapters: plan.adapters.map(({ type, config }) => ({ type, config: config.source })),
    outbound: Object.fromEntries(plan.outbound),
    rules: plan.rules,
  }
}
