/**
 * The adapters of a route with `run_on: workers`: messages go to workers elsewhere and come back with what was emitted.
 * What a worker took and was lost with it is delivered again; nothing of it counts.
 */
import type { RemoteWorkers } from "../broker/port.ts"
import type { Fault } from "../core/faults.ts"
import type { Json } from "../core/json.ts"
import { Breaker } from "../core/pipeline/breaker.ts"
import type { RoutePlan } from "../definition/pipeline/plan.ts"
import type { ChainEvents, ExecutionScene, RouteChain } from "./chain.ts"
import type { Delivery, Ending } from "./delivery.ts"
import { type RouteAnswer, type RouteCall, routeOf } from "./route-call.ts"

export interface RemoteChainParts {
  readonly position: number
  readonly plan: RoutePlan
  readonly queue: string
  readonly owner: string
  readonly job: Json
  readonly scene: ExecutionScene
  readonly lossLimit: number
  /** undefined: this process has no fleet. */
  readonly workers: () => RemoteWorkers | undefined
}

/** With nobody to send to, how soon to look again. */
const LOOK_AGAIN_MS = 500

export class RemoteChain implements RouteChain {
  readonly breakers: readonly (Breaker | null)[]
  readonly #parts: RemoteChainParts
  readonly #events: ChainEvents
  readonly #route: RouteCall["route"]
  /** Deliveries that were lost with their worker, by message, while it is in memory. */
  readonly #losses = new Map<number, number>()

  constructor(parts: RemoteChainParts, events: ChainEvents) {
    const { plan, position } = parts
    this.#parts = parts
    this.#events = events
    this.#route = routeOf(plan, position)
    this.breakers = plan.adapters.map(() => (plan.breaker === null ? null : new Breaker(plan.breaker)))
  }

  mayBeginAt(now: number): number {
    if (this.#parts.workers()?.answers(this.#parts.queue) !== true) return now + LOOK_AGAIN_MS
    return this.breakers.reduce((at, breaker) => Math.max(at, breaker?.mayCallAt(now) ?? 0), 0)
  }

  deliver(delivery: Delivery): void {
    const { scene, queue, plan, owner, workers } = this.#parts
    const begunAt = performance.now()
    for (const breaker of this.breakers) breaker?.begin(scene.now())
    const of = { jobId: scene.jobId, nodeId: plan.name, handler: queue, owner, workflow: scene.pipeline }
    const call = { ...of, config: this.#call(delivery) as unknown as Json }
    const passage = { delivery, begunAt, members: [] }
    void workers()!
      .call(call, scene.signal)
      .then(outcome => {
        const answer = outcome?.type === "completed" ? (outcome.output as unknown as RouteAnswer) : null
        const fault = outcome?.type === "failed" ? outcome.fault : this.#lossOf(delivery, answer)
        if (answer === null && fault === null) {
          for (const breaker of this.breakers) breaker?.forget()
          this.#events.held(passage)
          return
        }
        this.#losses.delete(delivery.seq)
        const { invocations, result } = answer ?? { invocations: [], result: { fault: fault! } }
        this.#tellBreakers(invocations)
        this.#events.ended(passage, { delivery, invocations, members: [], result })
      })
  }

  #call(delivery: Delivery): RouteCall {
    const { scene, job } = this.#parts
    return {
      pipeline: scene.pipeline,
      job,
      input: scene.input,
      route: this.#route,
      message: delivery,
      id: scene.nameOf(delivery),
      parent: delivery.parent === null ? null : scene.nameOf(delivery.parent),
    }
  }

  /** Why it is not delivered once more; null: it is, or it was answered. */
  #lossOf({ seq }: Delivery, answer: RouteAnswer | null): Fault | null {
    if (answer !== null || this.#parts.scene.signal.aborted) return null
    const losses = (this.#losses.get(seq) ?? 0) + 1
    this.#losses.set(seq, losses)
    if (losses < this.#parts.lossLimit) return null
    const message = `${losses} workers were lost while they had this message; it is not tried again.`
    return { code: "E709", message, retryable: false }
  }

  #tellBreakers(invocations: Ending["invocations"]): void {
    const { scene, plan } = this.#parts
    for (const [adapter, breaker] of this.breakers.entries()) {
      const call = invocations.find(each => each.adapter === adapter)
      if (call === undefined) breaker?.forget()
      const changed = call === undefined ? null : breaker?.ended(call.status === "failed", scene.now())
      if (changed == null) continue
      scene.log.warn(
        { route: plan.name, adapter: plan.adapters[adapter]!.type, breaker: changed },
        "circuit breaker",
      )
      this.#events.breakerChanged(adapter, changed)
    }
  }

  stop(): void {
    this.#losses.clear()
  }
}
