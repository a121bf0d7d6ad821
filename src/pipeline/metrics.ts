/**
 * The metrics of the executions of this process since it started, by pipeline and route. Counting adds no
 * work while messages are processed: the counters that an execution keeps anyway are read when metrics are
 * requested, and kept when it ends.
 */
import { valueIn } from "../core/maps.ts"
import { type RouteProgress, unsettled } from "../core/pipeline/progress.ts"
import type { RouteRun } from "./execution/route-run.ts"

export interface RouteMetrics {
  readonly pipeline: string
  readonly route: string
  done: number
  /** Messages that failed permanently. */
  failed: number
  /** Deliveries that failed. */
  failedTries: number
  /** How often a breaker opened, and closed again. */
  opened: number
  closed: number
  queued: number
  inFlight: number
  openBreakers: number
}

export interface ObservedRun {
  readonly pipeline: string
  readonly routes: readonly RouteRun[]
}

type RouteCounts = Pick<RouteProgress, "done" | "failedTries" | "dead">

/** Pipelines bring names of their own: routes beyond this number are counted as one. */
const MOST_ROUTES = 1000
const other = { pipeline: "(other)", route: "(other)" }

export class PipelineMetrics {
  readonly #ended = new Map<string, RouteMetrics>()
  /** With the counts from before this process took the execution over. */
  readonly #running = new Map<ObservedRun, readonly RouteCounts[]>()

  get executions(): number {
    return this.#running.size
  }

  begun(run: ObservedRun): void {
    const before = run.routes.map(({ progress: { done, failedTries, dead } }) => ({
      done,
      failedTries,
      dead,
    }))
    this.#running.set(run, before)
  }

  ended(run: ObservedRun): void {
    this.#add(run, this.#ended)
    this.#running.delete(run)
  }

  routes(): RouteMetrics[] {
    const all = new Map([...this.#ended].map(([key, metrics]) => [key, { ...metrics }]))
    for (const run of this.#running.keys()) {
      this.#add(run, all)
      for (const route of run.routes) addCurrent(routeCounts(all, run.pipeline, route), route)
    }
    return [...all.values()]
  }

  #add(run: ObservedRun, to: Map<string, RouteMetrics>): void {
    const before = this.#running.get(run)
    if (before === undefined) return
    for (const [position, route] of run.routes.entries()) {
      const metrics = routeCounts(to, run.pipeline, route)
      const { done, failedTries, dead, fatal } = route.progress
      const { opened, closed, retriedDead } = route.metrics
      metrics.done += done - before[position]!.done
      metrics.failedTries += failedTries - before[position]!.failedTries
      metrics.failed += dead + fatal - before[position]!.dead + retriedDead
      metrics.opened += opened
      metrics.closed += closed
    }
  }
}

function routeCounts(all: Map<string, RouteMetrics>, pipeline: string, { plan }: RouteRun): RouteMetrics {
  const wanted = { pipeline, route: plan.name }
  const isKnown = all.size < MOST_ROUTES || all.has(routeKey(wanted))
  const names = isKnown ? wanted : other
  const counts = { done: 0, failed: 0, failedTries: 0, opened: 0, closed: 0 }
  const made = () => ({ ...names, ...counts, queued: 0, inFlight: 0, openBreakers: 0 })
  return valueIn(all, routeKey(names), made)
}

const routeKey = ({ pipeline, route }: typeof other) => `${pipeline}\n${route}`

function addCurrent(metrics: RouteMetrics, route: RouteRun): void {
  metrics.inFlight += route.inFlight
  // Messages in a retry are not in the queue.
  metrics.queued += Math.max(0, unsettled(route.progress) - (route.inFlight - route.retrying))
  metrics.openBreakers += route.breakers.filter(state => state === "open").length
}
