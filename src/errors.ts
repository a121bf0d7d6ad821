/**
 * The one table of errors. A code never changes its meaning; `docs/errors.md` lists exactly these codes
 * (test/shape/errors.test.ts). E1xx: what a user wrote. E2xx: rendering templates. E3xx: commands to a job.
 * E4xx: why a node failed. E5xx: storage. E6xx: the process and its configuration.
 */
export interface ErrorKind {
  /** A few words, the heading in docs/errors.md. */
  readonly title: string
  /** The HTTP status an API answers with. */
  readonly status: number
  /** May the same action succeed later without a change? */
  readonly retryable: boolean
}

const kind = (title: string, status: number, retryable = false): ErrorKind => ({ title, status, retryable })

export const errorTable = {
  E101: kind("invalid document", 422),
  E102: kind("config fails the handler's schema", 422),
  E103: kind("unknown handler or adapter type", 422),
  E104: kind("duplicate node id", 422),
  E105: kind("missing dependency", 422),
  E106: kind("node depends on itself", 422),
  E107: kind("cycle", 422),
  E108: kind("no entry or no exit", 422),
  E109: kind("unreachable node", 422),
  E110: kind("template syntax", 422),
  E111: kind("reference to an unknown name", 422),
  E112: kind("secret where it would be stored", 422),

  E201: kind("missing value in a template", 422),
  E202: kind("template cannot be evaluated", 422),
  E203: kind("template limit reached", 422),
} as const satisfies Record<string, ErrorKind>

export type ErrorCode = keyof typeof errorTable

export interface UmbraErrorOptions {
  readonly cause?: unknown
  /** Machine-readable particulars: JSON only, never a secret. */
  readonly details?: Readonly<Record<string, unknown>>
}

/** Every error Umbra raises on purpose. The message tells the reader what to do next. */
export class UmbraError extends Error {
  readonly code: ErrorCode
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, message: string, options: UmbraErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = "UmbraError"
    this.code = code
    this.details = options.details ?? {}
  }

  get status(): number {
    return errorTable[this.code].status
  }

  get retryable(): boolean {
    return errorTable[this.code].retryable
  }
}
