/** The part of a structured logger that handlers and workers use; a pino logger is one. */
export interface Log {
  debug(fields: object, message?: string): void
  info(fields: object, message?: string): void
  warn(fields: object, message?: string): void
  error(fields: object, message?: string): void
  child(fields: Record<string, unknown>): Log
}

const nothing = () => {}

export const silentLog: Log = {
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  child: () => silentLog,
}

export type LogLevel = "debug" | "info" | "warn" | "error"

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
