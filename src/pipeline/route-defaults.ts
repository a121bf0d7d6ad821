import type { RoutePlan } from "../definition/pipeline/plan.ts"

/** A route without limits: limits apply where the execution runs. */
export const unlimitedRoute: Omit<RoutePlan, "name" | "adapters" | "outbound" | "rules"> = {
  inbound: "",
  runOn: "engine",
  concurrency: 1,
  prefetch: 1,
  rate: null,
  backpressure: { adaptive: false, minConcurrency: 1, tolerance: 1, maxQueued: Number.POSITIVE_INFINITY },
  retry: { maxAttempts: 1, initialSeconds: 0, maxSeconds: 0, multiplier: 1, jitter: 0 },
  deadLetter: true,
  breaker: null,
}
