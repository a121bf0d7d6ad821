/** A message sent to a remote worker, which takes it through the adapters of its route, and the answer. */
import type { Json } from "../../core/json.ts"
import type { RoutePlan } from "../../definition/pipeline/plan.ts"
import type { Delivery, Ending, Invocation } from "../commit/delivery.ts"

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

export function routeOf(plan: RoutePlan, position: number): RouteCall["route"] {
  return {
    name: plan.name,
    position,
    adapters: plan.adapters.map(({ type, config }) => ({ type, config: config.source })),
    outbound: Object.fromEntries(plan.outbound),
    rules: plan.rules,
  }
}
