/** Routes of an execution as JSON for people and programs, read from its stored progress. */
import type { JsonObject } from "../json.ts"
import type { BreakerState } from "./breaker.ts"
import { routesBehind } from "./flow.ts"
import { decodeProgress, newProgress, unsettled } from "./progress.ts"

export interface RouteView {
  readonly name: string
  readonly inbound: string
  /** Queues by kind of message. */
  readonly outbound: { readonly [kind: string]: string }
  readonly adapters: readonly { readonly type: string; readonly breaker: BreakerState | null }[]
  readonly queued: number
  /** Messages in adapters, in their first try or a later one, and those that wait to be gathered. */
  readonly in_flight: number
  /** Messages that wait for the time of another try. */
  readonly waiting: number
  readonly done: number
  /** Messages that failed permanently: dead letters, and those that failed the job (`dead_letter: false`). */
  readonly failed: number
  /** Deliveries that failed, those of messages that were retried included. */
  readonly failed_tries: number
  /** Messages that failed permanently and were kept. */
  readonly dead_lettered: number
  /** Messages per second, recently. */
  readonly rate: number
  readonly latency_ms: number
  /** How many may be in flight right now; null: no process runs the execution. */
  readonly concurrency: number | null
  /** With this many queued messages, routes that write to it wait. */
  readonly max_queued: number
  /** The route behind it that it waits for, since that has `max_queued` messages; null: none. */
  readonly held_up_by: string | null
}

/** Messages of an execution that failed permanently and that no job has replayed. */
export interface DeadLettersView {
  readonly count: number
  /** The first of them, by route and number. */
  readonly first: {
    readonly message: string
    readonly error: { readonly code: string; readonly message: string }
  } | null
}

/** The part of a pipeline's plan that is shown. */
export interface ShownRoute {
  readonly name: string
  readonly inbound: string
  readonly adapters: readonly { readonly type: string }[]
  readonly outbound: ReadonlyMap<string, number>
  readonly backpressure: { readonly maxQueued: number }
}

/** `progress` as it was stored; null: the execution has not begun. `isRun`: by a live process, as far as known. */
export function routeViews(
  routes: readonly ShownRoute[],
  progress: string | null,
  isRun: boolean,
): readonly RouteView[] {
  const decoded = progress === null ? { ...newProgress(routes.length), live: null } : decodeProgress(progress)
  const behind = routesBehind(routes)
  const isFull = (route: number) => unsettled(decoded.routes[route]!) >= routes[route]!.backpressure.maxQueued
  return routes.map((route, position) => {
    const full = isRun ? behind[position]!.find(isFull) : undefined
    const { settled: _, tail: _tail, ...counts } = decoded.routes[position]!
    const left = unsettled(decoded.routes[position]!)
    const live = isRun ? { ...notRunning, ...findLiveRoute(decoded.live, position) } : notRunning
    const retrying = Math.min(live.retrying, counts.waiting)
    const firstTries = Math.min(live.in_flight - live.retrying, left)
    return {
      name: route.name,
      inbound: route.inbound,
      outbound: Object.fromEntries([...route.outbound].map(([kind, to]) => [kind, routes[to]!.inbound])),
      adapters: route.adapters.map(({ type }, i) => ({ type, breaker: live.breakers[i] ?? null })),
      queued: left - firstTries,
      in_flight: firstTries + retrying,
      waiting: counts.waiting - counts.fatal - retrying,
      done: counts.done,
      failed: counts.dead + counts.fatal,
      failed_tries: counts.failedTries,
      dead_lettered: counts.dead,
      rate: live.rate,
      latency_ms: live.latency_ms,
      concurrency: live.concurrency,
      max_queued: route.backpressure.maxQueued,
      held_up_by: full === undefined ? null : routes[full]!.name,
    }
  })
}

interface LiveRoute {
  readonly in_flight: number
  /** Messages in flight in a later try than the first. They are not in the queue. */
  readonly retrying: number
  readonly concurrency: number | null
  readonly rate: number
  readonly latency_ms: number
  readonly breakers: readonly (BreakerState | null)[]
}

const notRunning: LiveRoute = {
  ...{ in_flight: 0, retrying: 0, concurrency: null, rate: 0, latency_ms: 0 },
  breakers: [],
}

function findLiveRoute(live: JsonObject | null, position: number): Partial<LiveRoute> {
  const routes = (live?.routes ?? []) as unknown as readonly Partial<LiveRoute>[]
  return routes[position] ?? {}
}
