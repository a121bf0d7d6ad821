/** Log entries of handlers and the engine, as lines: above the live view, or on standard error. */
import { type Log, type LogLevel, logLevels, logTo } from "../../log.ts"
import { printable } from "./terminal.ts"

export interface CommandLog {
  readonly log: Log
  /** Where the lines are shown; null: standard error. */
  to(show: ((line: string) => void) | null): void
}

export function commandLog(least: LogLevel = "info"): CommandLog {
  let show: ((line: string) => void) | null = null
  const log = logTo((level, fields, message) => {
    if (logLevels.indexOf(level) < logLevels.indexOf(least)) return
    const line = formatLine(level, fields, message)
    if (show === null) process.stderr.write(`${line}\n`)
    else show(line)
  })
  return {
    log,
    to(next) {
      show = next
    },
  }
}

/** Fields that are already in the line or of no use to a reader. */
const left = new Set(["job_id", "node_id", "handler", "attempt"])

function formatLine(level: LogLevel, fields: Record<string, unknown>, message = ""): string {
  const rest = Object.entries(fields).filter(([name]) => !left.has(name))
  const more = rest.map(([name, value]) => `${name}=${formatValue(value)}`)
  const who = typeof fields.node_id === "string" ? `${fields.node_id}: ` : ""
  const mark = level === "info" || level === "debug" ? "" : `${level}: `
  const text = [message, ...more].filter(Boolean).join(" ")
  return printable(`  ${who}${mark}${text.replace(/\s*[\r\n]+\s*/g, " ")}`)
}

function formatValue(value: unknown): string {
  if (value instanceof Error) return value.message
  return typeof value === "string" ? value : (JSON.stringify(value) ?? String(value))
}
