/** The part of a structured logger that handlers and workers use; a pino logger is one. */
export interface Log {
  debug(fields: object, message?: string): void
  info(fields: object, message?: string): void
  warn(fields: object, message?: string): void
  error(fields: object, message?: string): void
  child(fields: Record<string, unknown>): Log
}

/** As of pino: `values` are for `%s`, `%d`, `%o`, … in the message. */
export interface LogMethod {
  (message: string, ...values: unknown[]): void
  /** An error is the field `err`, and the message if there is no other. */
  (fields: object, message?: string, ...values: unknown[]): void
}

/** The logger of an attempt. No call throws. */
export interface HandlerLog {
  readonly debug: LogMethod
  readonly info: LogMethod
  readonly warn: LogMethod
  readonly error: LogMethod
  child(fields: object): HandlerLog
}

const nothing = () => {}

export const silentLog: Log = {
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  child: () => silentLog,
}

/** From the lowest. Stored rows have the index of a level: a new one cannot be inserted without a migration. */
export const logLevels = ["debug", "info", "warn", "error"] as const

export type LogLevel = (typeof logLevels)[number]

/** A logger that sends everything through `write`, fields of children included. */
export function logTo(
  write: (level: LogLevel, fields: Record<string, unknown>, message: string | undefined) => void,
  fields: Record<string, unknown> = {},
): Log {
  // pino also accepts a text as first argument.
  const at = (level: LogLevel) => (more: object | string, message?: string) =>
    typeof more === "string" ? write(level, fields, more) : write(level, { ...fields, ...more }, message)
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: more => logTo(write, { ...fields, ...more }),
  }
}

/** Lines of one attempt that are stored together; lines of an attempt are numbered from 1. */
export interface LoggedLines {
  readonly jobId: string
  readonly nodeId: string
  /** -1: of the node itself. */
  readonly item: number
  readonly fence: number
  /** The attempt number that people see. */
  readonly attempt: number
  /**
   * Identifies the run, since a task that is sent again keeps its fence: random. Absent: of a process that does not assign one; all of
   * its rows of an attempt are one run.
   */
  readonly runId?: number | undefined
  readonly firstLine: number
  readonly lastLine: number
  /** The highest level of the lines, as an index of `logLevels`. */
  readonly level: number
  /** JSON: a list of `StoredLine`. */
  readonly lines: string
}

/** What a run has logged when it ends: the number of its last line. */
export interface LoggedEnd {
  readonly lines: number
  readonly runId: number
}

/** `at`: milliseconds since 1970. */
export type StoredLine = readonly [at: number, level: number, message: string, fields?: object]

/** Where lines go; rejects if they may have to be sent again. */
export type LogSink = (rows: readonly LoggedLines[]) => Promise<void>

export function levelIndex(level: LogLevel): number {
  return logLevels.indexOf(level)
}
