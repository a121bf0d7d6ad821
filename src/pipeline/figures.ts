/** How an execution is doing, for those who look: written with its progress, so that any process can show it. */
import type { Json, JsonObject } from "../core/json.ts"
import type { RouteRun } from "./route-run.ts"

export function liveFigures(routes: readonly RouteRun[]): JsonObject {
  return {
    routes: routes.map(({ inHand, waitsToBeGathered, limit, breakers, figures }) => ({
      in_flight: inHand + waitsToBeGathered,
      concurrency: limit,
      rate: figures.rate,
      latency_ms: figures.latencyMs,
      ...(breakers.some(state => state !== null) ? { breakers } : {}),
    })),
  }
}

/** The output of an execution that has drained. */
export function totals(routes: readonly RouteRun[]): Json {
  return {
    routes: Object.fromEntries(
      routes.map(({ plan, progress }) => [
        plan.name,
        { messages: progress.tail, done: progress.done, failed: progress.failed, dead_lettered: progress.dead },
      ]),
    ),
  }
}

/** For whoever watches the job. */
export function summary(routes: readonly RouteRun[]): string {
  return routes.map(({ plan, progress }) => `${plan.name} ${progress.done}/${progress.tail}`).join(", ")
}
