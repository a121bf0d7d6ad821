import { UmbraError } from "../errors.ts"

/** The circuit breaker of the adapter is open: the adapter was not called, and the message uses up no try. */
export class CircuitOpenError extends UmbraError {
  constructor(adapter: string) {
    super(
      "E701",
      `The circuit breaker of adapter "${adapter}" is open: too many of its recent calls have failed.`,
    )
    this.name = "CircuitOpenError"
  }
}

/** P1 */
export class TooManyConcurrentExecutionsError extends UmbraError {
  constructor(limit: number) {
    super(
      "E702",
      `The limit of ${limit} concurrent pipeline executions is reached (UMBRA_MAX_EXECUTIONS). Try again when one has ended.`,
      { details: { limit } },
    )
    this.name = "TooManyConcurrentExecutionsError"
  }
}
