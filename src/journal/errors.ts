import { UmbraError } from "../errors.ts"

/**
 * The two ways an append can end without an answer. The caller acts differently on each, so nothing else is
 * thrown: unavailable → the outcome is unknown, resend the same batch; data rejected → nothing was written,
 * and resending will not help.
 */
export class JournalUnavailableError extends UmbraError {
  /** No later try on this journal can succeed: it was closed, or taken over. */
  readonly final: boolean

  constructor(message: string, options: { readonly cause?: unknown; readonly final?: boolean } = {}) {
    super("E501", message, { cause: options.cause })
    this.name = "JournalUnavailableError"
    this.final = options.final ?? false
  }
}

export class JournalDataError extends UmbraError {
  constructor(message: string, options: { readonly cause?: unknown; readonly sqlState?: string } = {}) {
    const details = options.sqlState === undefined ? {} : { sql_state: options.sqlState }
    super("E502", message, { details, cause: options.cause })
    this.name = "JournalDataError"
  }
}

/**
 * SQLSTATE classes for data or a statement that can never be stored: data exception, integrity violation,
 * program limit (too deeply nested, too large). 54 is also the class for an out-of-range array or a 1 GB
 * value.
 */
const REFUSED = /^(22|23|54)/

const DUPLICATE_KEY = "23505"

/** A row with this key already exists. */
export function isDuplicate(error: unknown): boolean {
  return error instanceof JournalDataError && error.details.sql_state === DUPLICATE_KEY
}

/**
 * SQLSTATE classes after which the same statement may succeed: connection, resources, operator intervention,
 * system error, deadlock or serialization, a lock not available, a server in recovery or read-only during
 * fail-over.
 */
const PASSING = /^(08|40|53|57|58|XX|55P03|25006|25P0[34])/

/** Converts the error of a driver to one of ours. `label` names the store, without credentials. */
export function classify(error: unknown, label: string): Error {
  if (error instanceof UmbraError) return error
  const state = sqlState(error)
  const reason = error instanceof Error ? error.message : String(error)
  if (state !== null && REFUSED.test(state)) {
    const message = `${label} rejected the data: ${reason} (SQLSTATE ${state}). Nothing of it was stored.`
    return new JournalDataError(message, { cause: error, sqlState: state })
  }
  if (mayPass(state)) {
    const message = `${label} cannot be reached or did not answer: ${reason}. Check that it is running.`
    return new JournalUnavailableError(message, { cause: error })
  }
  const message = `${label} rejected a statement: ${reason} (SQLSTATE ${state}). Check its user, password and permissions, and that its tables were not changed manually.`
  return new UmbraError("E506", message, { cause: error, details: { sql_state: state } })
}

/** May the same statement succeed later? `state` null: not the server failed, but the connection to it. */
export const mayPass = (state: string | null): boolean => state === null || PASSING.test(state)

/** Only errors of the server have a severity; a socket's `EPIPE` looks like a SQLSTATE but is none. */
export function sqlState(error: unknown): string | null {
  const { code, severity } = (error ?? {}) as { readonly code?: unknown; readonly severity?: unknown }
  return typeof code === "string" && typeof severity === "string" ? code : null
}
