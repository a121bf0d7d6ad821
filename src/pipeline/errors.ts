import { UmbraError } from "../errors.ts"

/** The adapter's breaker is open: it was not called, and the message spends no try. */
export class CircuitOpenError extends UmbraError {
  constructor(adapter: string) {
    super(
      "E701",
      `The circuit breaker of adapter "${adapter}" is open: too many of its calls have failed lately.`,
    )
    this.name = "CircuitOpenError"
  }
}

/** P1 */
export class TooManyConcurrentExecutionsError extends UmbraError {
  constructor(limit: number) {
    super(
      "E702",
      `As many pipeline executions are under way as are allowed: ${limit} (UMBRA_MAX_EXECUTIONS). Try again when one has ended.`,
      { details: { limit } },
    )
    this.name = "TooManyConcurrentExecutionsError"
  }
}
