import { MetricHistogram, secondsBounds } from "../metrics.ts"
import type { Outcome } from "./port.ts"

/** The outcomes of attempts of one handler. */
interface HandlerMetrics {
  readonly seconds: MetricHistogram
  readonly outcomes: Record<Outcome["type"] | "aborted", number>
}

/** The counters of a pool of workers since the process started. */
export class AttemptMetrics {
  /** The time from dispatch until a slot was free. */
  readonly waitSeconds = new MetricHistogram(secondsBounds)
  readonly handlers = new Map<string, HandlerMetrics>()

  ended(handler: string, outcome: Outcome | null, ms: number): void {
    let metrics = this.handlers.get(handler)
    if (metrics === undefined) {
      const seconds = new MetricHistogram([...secondsBounds, 300, 1800])
      const outcomes = { completed: 0, failed: 0, waiting: 0, submitted: 0, child: 0, aborted: 0 }
      metrics = { seconds, outcomes }
      this.handlers.set(handler, metrics)
    }
    metrics.outcomes[outcome?.type ?? "aborted"]++
    metrics.seconds.add(ms / 1000)
  }
}
