/** The metrics of an execution: stored with its progress, so that any process can show them. */
import type { JsonObject } from "../../core/json.ts"
import type { PipelineTotals } from "../../definition/pipeline/plan.ts"
import type { RouteRun } from "./route-run.ts"

export function liveMetrics(routes: readonly RouteRun[]): JsonObject {
  return {
    routes: routes.map(({ inFlight, retrying, limit, breakers, metrics }) => ({
      in_flight: inFlight,
      ...(retrying === 0 ? {} : { retrying }),
      concurrency: limit,
      rate: metrics.rate,
      latency_ms: metrics.latencyMs,
      ...(breakers.some(state => state !== null) ? { breakers } : {}),
    })),
  }
}

/** The output of an execution that has drained. */
export function totals(routes: readonly RouteRun[]): PipelineTotals {
  return {
    routes: Object.fromEntries(
      routes.map(({ plan, progress }) => [
        plan.name,
        {
          messages: progress.tail,
          done: progress.done,
          failed: progress.dead,
          failed_tries: progress.failedTries,
          dead_lettered: progress.dead,
        },
      ]),
    ),
  }
}

/** A summary for people who watch the job: `fetch 12/40 (1 dead, http_fetch open), store 9/12`. */
export function summary(routes: readonly RouteRun[]): string {
  return routes
    .map(({ plan, progress: { done, tail, dead }, breakers }) => {
      const open = breakers.flatMap((state, i) => (state === "open" ? `${plan.adapters[i]!.type} open` : []))
      const trouble = [...(dead === 0 ? [] : [`${dead} dead`]), ...open]
      return `${plan.name} ${done}/${tail}${trouble.length === 0 ? "" : ` (${trouble.join(", ")})`}`
    })
    .join(", ")
}
