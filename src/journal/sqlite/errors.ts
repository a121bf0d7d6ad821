/**
 * Converts errors of SQLite and its driver to errors of the journal, and serializes errors that leave the
 * thread.
 */
import { UmbraError } from "../../errors.ts"
import { JournalDataError, JournalUnavailableError } from "../errors.ts"

/** Primary result codes of SQLite (https://www.sqlite.org/rescode.html). */
const UNAVAILABLE = new Map([
  [5, "another process is using it"],
  [6, "another process is using it"],
  [7, "there is not enough memory"],
  [8, "it cannot be written to"],
  [10, "reading or writing its files failed"],
  [13, "the disk is full"],
  [14, "its file cannot be opened"],
])
/** TOOBIG, CONSTRAINT, MISMATCH, RANGE. */
const REFUSED = new Set([18, 19, 20, 25])
/** CORRUPT, NOTADB. */
const DAMAGED = new Set([11, 26])

/**
 * SQLite's text for a result code (sqlite3_errstr). `@photostructure/sqlite` gives no code when `all` fails.
 */
const BY_TEXT = new Map([
  ["database is locked", 5],
  ["database table is locked", 6],
  ["out of memory", 7],
  ["attempt to write a readonly database", 8],
  ["disk I/O error", 10],
  ["database disk image is malformed", 11],
  ["database or disk is full", 13],
  ["unable to open database file", 14],
  ["file is not a database", 26],
])

export const isDamage = (error: unknown): boolean => DAMAGED.has(resultCode(error) ?? 0)

function resultCode(error: unknown): number | null {
  const { errcode, message } = error as { errcode?: unknown; message?: unknown }
  return typeof errcode === "number" ? errcode & 0xff : (BY_TEXT.get(String(message)) ?? null)
}

/** `label` names the store. */
export function classify(error: unknown, label: string): Error {
  if (error instanceof UmbraError) return error
  const { code, message } = error as { code?: unknown; message?: unknown }
  const reason = String(message ?? error)
  const result = resultCode(error)
  const passing = result === null ? undefined : UNAVAILABLE.get(result)
  if (passing !== undefined)
    return new JournalUnavailableError(`${label} did not store or read anything: ${passing} (${reason})`, {
      cause: error,
    })
  // Errors of Node's own file functions.
  if (typeof (error as { syscall?: unknown }).syscall === "string")
    return new JournalUnavailableError(`${label} cannot be opened: ${reason}`, { cause: error })
  if ((result !== null && REFUSED.has(result)) || String(code).startsWith("ERR_INVALID_ARG"))
    return new JournalDataError(`${label} rejected the data: ${reason}. Nothing of it was stored.`, {
      cause: error,
    })
  if (isDamage(error))
    return new UmbraError(
      "E508",
      `${label} cannot be used: ${reason}. Its file is damaged, and was not changed. Restore a backup into an empty folder (docs/operations/backup.md).`,
      { cause: error },
    )
  return new UmbraError("E506", `${label} rejected a statement: ${reason}`, { cause: error })
}

export interface SentError {
  readonly kind: "unavailable" | "data" | "other"
  readonly code: UmbraError["code"]
  readonly message: string
  readonly details: UmbraError["details"]
}

export function sentError(error: unknown, label: string): SentError {
  const classified = classify(error, label) as UmbraError
  const { code, message, details } = classified
  return { kind: errorKind(classified), code, message, details }
}

function errorKind(error: UmbraError): SentError["kind"] {
  if (error instanceof JournalUnavailableError) return "unavailable"
  return error instanceof JournalDataError ? "data" : "other"
}

export function receivedError({ kind, code, message, details }: SentError): UmbraError {
  if (kind === "unavailable") return new JournalUnavailableError(message)
  if (kind === "data") return new JournalDataError(message)
  return new UmbraError(code, message, { details })
}
