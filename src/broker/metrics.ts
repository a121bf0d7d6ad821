import { secondsBounds, Tally } from "../metrics.ts"
import type { Outcome } from "./port.ts"

/** What came of attempts at one handler. */
export interface HandlerMeasures {
  readonly seconds: Tally
  readonly outcomes: Record<Outcome["type"] | "aborted", number>
}

/** What a pool of workers knows of its work, since the process started. */
export class AttemptMeasures {
  /** From hand-over until a slot was free. */
  readonly waitSeconds = new Tally(secondsBounds)
  readonly handlers = new Map<string, HandlerMeasures>()

  ended(handler: string, outcome: Outcome | null, ms: number): void {
    let measures = this.handlers.get(handler)
    if (measures === undefined) {
      const seconds = new Tally([...secondsBounds, 300, 1800])
      const outcomes = { completed: 0, failed: 0, waiting: 0, submitted: 0, child: 0, aborted: 0 }
      measures = { seconds, outcomes }
      this.handlers.set(handler, measures)
    }
    measures.outcomes[outcome?.type ?? "aborted"]++
    measures.seconds.add(ms / 1000)
  }
}
