/** How a handler describes its failure. Any other value may be thrown too. */

export interface FailureOptions {
  /** The code of the fault, for example `CARD_DECLINED`. Default `E401`. */
  readonly code?: string
  /** May another try succeed? Default: from the table of faults. */
  readonly retryable?: boolean
  /** No retry before this time has passed. */
  readonly retryAfterSeconds?: number | undefined
  /** JSON, stored with the fault. */
  readonly details?: Readonly<Record<string, unknown>> | undefined
  readonly cause?: unknown
}

export class HandlerError extends Error {
  readonly code: string | undefined
  readonly retryable: boolean | undefined
  readonly retryAfterSeconds: number | undefined
  readonly details: Readonly<Record<string, unknown>> | undefined

  constructor(message: string, options: FailureOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = "HandlerError"
    this.code = options.code
    this.retryable = options.retryable
    this.retryAfterSeconds = options.retryAfterSeconds
    this.details = options.details
  }
}

/** An error that another try would only repeat. */
export function finalError(code: string, message: string, details?: FailureOptions["details"]): HandlerError {
  return new HandlerError(message, { code, retryable: false, details })
}

/** `return fail("Card declined", { code: "CARD_DECLINED", retryable: false })` ends the attempt. */
export function fail(message: string, options: FailureOptions = {}): never {
  throw new HandlerError(message, options)
}
