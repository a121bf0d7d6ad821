/**
 * The logger of a handler. It is called as one of pino: with fields and a text, an error, or a text, each with values for
 * `%s`, `%d`, `%i`, `%f`, `%j`, `%o` and `%O`. A call never throws, whatever it is given.
 */
import type { HandlerLog, LogLevel, LogMethod } from "../../log.ts"
import { type SafeFields, safeFields, safeText } from "./safe-fields.ts"

/** One call of the logger, without secrets. */
export interface LogEntry extends SafeFields {
  readonly message: string | undefined
}

interface HandlerLogOptions {
  readonly write: (level: LogLevel, entry: LogEntry) => void
  /** Removes secrets from a text. */
  readonly clean: ((text: string) => string) | undefined
  /** The fields of a child. */
  readonly bound?: SafeFields
}

export function handlerLog(options: HandlerLogOptions): HandlerLog {
  const { write, clean, bound } = options
  const at =
    (level: LogLevel): LogMethod =>
    (given: unknown, ...values: unknown[]) =>
      write(level, withBound(buildEntry(given, values, clean), bound))
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: more =>
      handlerLog({ ...options, bound: withBound({ ...safeFields(more ?? {}, { clean }) }, bound) }),
  }
}

function withBound<T extends SafeFields>(entry: T, bound: SafeFields | undefined): T {
  if (bound === undefined) return entry
  return {
    ...entry,
    fields: { ...bound.fields, ...entry.fields },
    errors: [...bound.errors, ...entry.errors],
  }
}

function buildEntry(given: unknown, values: unknown[], clean: HandlerLogOptions["clean"]): LogEntry {
  if (typeof given === "object" && given !== null) {
    const { fields, errors } = safeFields(given, { clean })
    const [text, ...more] = values
    return { fields, errors, message: formatMessage(text, more, clean) ?? messageIn(fields) }
  }
  const [text, ...more] = (given ?? undefined) === undefined ? values : [given, ...values]
  return { fields: {}, errors: [], message: formatMessage(text, more, clean) }
}

/** The message of an error that was logged without a text. */
function messageIn({ err, msg }: Record<string, unknown>): string | undefined {
  if (msg !== undefined || typeof err !== "object" || err === null) return undefined
  const { message } = err as { message?: unknown }
  return typeof message === "string" ? message : undefined
}

function formatMessage(
  text: unknown,
  values: readonly unknown[],
  clean: HandlerLogOptions["clean"],
): string | undefined {
  if (text === undefined || text === null) return undefined
  if (typeof text === "object") return [text, ...values].map(value => safeText(value, clean)).join(" ")
  const formatted = typeof text === "string" ? format(text, values, clean) : written(text)
  return clean?.(formatted) ?? formatted
}

/** As pino: a place without a value stays, values without a place are left out. */
function format(text: string, values: readonly unknown[], clean: HandlerLogOptions["clean"]): string {
  if (values.length === 0) return text
  let next = 0
  return text.replace(/%([sdfijoO%])/g, (place, kind: string) => {
    if (kind === "%") return "%"
    if (next >= values.length) return place
    const value = values[next++]
    if (kind === "s") return written(value)
    if ("dfi".includes(kind)) {
      if (value === undefined || value === null) return place
      return written(value, kind === "i" ? given => Math.floor(Number(given)) : Number)
    }
    if (value === undefined) return place
    if (typeof value === "string") return `'${value}'`
    return typeof value === "function" ? written(value, functionName) : safeText(value, clean)
  })
}

const functionName = (given: unknown) => (given as { name?: unknown }).name || "<anonymous>"

function written(value: unknown, convert: (value: unknown) => unknown = given => given): string {
  try {
    return String(convert(value))
  } catch {
    return "[Throws]"
  }
}

export interface AttemptNames {
  readonly jobId: string
  readonly nodeId: string
  readonly item?: number | undefined
  readonly shownAttempt: number
  readonly handler: string
}

/** The fields of each entry of an attempt in the process log. */
export function attemptFields(names: AttemptNames): Record<string, unknown> {
  const { jobId, nodeId, item, shownAttempt, handler } = names
  return {
    job_id: jobId,
    node_id: nodeId,
    ...(item !== undefined && { item }),
    attempt: shownAttempt,
    handler,
  }
}
