/**
 * What the executions of this process have done since it started, by pipeline and route. Nothing is counted for it while
 * messages pass: the figures that an execution keeps anyway are read when somebody looks, and kept when it ends.
 */
import { type RouteProgress, unsettled } from "../core/pipeline/progress.ts"
import type { RouteRun } from "./execution/route-run.ts"

export interface RouteMeasures {
  readonly pipeline: string
  readonly route: string
  done: number
  /** Messages that failed for good. */
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

export interface MeasuredRun {
  readonly pipeline: string
  readonly routes: readonly RouteRun[]
}

type Figures = Pick<RouteProgress, "done" | "failedTries" | "dead">

/** Pipelines come with names of their own: what is beyond so many routes is counted as one. */
const MOST_ROUTES = 1000
const other = { pipeline: "(other)", route: "(other)" }

export class PipelineMeasures {
  readonly #ended = new Map<string, RouteMeasures>()
  /** With what had been done before it was taken over. */
  readonly #running = new Map<MeasuredRun, readonly Figures[]>()

  get executions(): number {
    return this.#running.size
  }

  begun(run: MeasuredRun): void {
    const before = run.routes.map(({ progress: { done, failedTries, dead } }) => ({
      done,
      failedTries,
      dead,
    }))
    this.#running.set(run, before)
  }

  ended(run: MeasuredRun): void {
    this.#add(run, this.#ended)
    this.#running.delete(run)
  }

  routes(): RouteMeasures[] {
    const all = new Map([...this.#ended].map(([key, measures]) => [key, { ...measures }]))
    for (const run of this.#running.keys()) {
      this.#add(run, all)
      for (const route of run.routes) addPresent(measuresOf(all, run.pipeline, route), route)
    }
    return [...all.values()]
  }

  #add(run: MeasuredRun, to: Map<string, RouteMeasures>): void {
    const before = this.#running.get(run)
    if (before === undefined) return
    for (const [position, route] of run.routes.entries()) {
      const measures = measuresOf(to, run.pipeline, route)
      const { done, failedTries, dead, fatal } = route.progress
      const { opened, closed, retriedDead } = route.figures
      measures.done += done - before[position]!.done
      measures.failedTries += failedTries - before[position]!.failedTries
      measures.failed += dead + fatal - before[position]!.dead + retriedDead
      measures.opened += opened
      measures.closed += closed
    }
  }
}

function measuresOf(all: Map<string, RouteMeasures>, pipeline: string, { plan }: RouteRun): RouteMeasures {
  const wanted = { pipeline, route: plan.name }
  const isKnown = all.size < MOST_ROUTES || all.has(keyOf(wanted))
  const names = isKnown ? wanted : other
  let measures = all.get(keyOf(names))
  if (measures === undefined) {
    const counts = { done: 0, failed: 0, failedTries: 0, opened: 0, closed: 0 }
    measures = { ...names, ...counts, queued: 0, inFlight: 0, openBreakers: 0 }
    all.set(keyOf(names), measures)
  }
  return measures
}

const keyOf = ({ pipeline, route }: typeof other) => `${pipeline}\n${route}`

function addPresent(measures: RouteMeasures, route: RouteRun): void {
  measures.inFlight += route.inFlight
  // Messages in a later try than the first are not in the queue.
  measures.queued += Math.max(0, unsettled(route.progress) - (route.inFlight - route.retrying))
  measures.openBreakers += route.breakers.filter(state => state === "open").length
}
