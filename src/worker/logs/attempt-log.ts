/** The stored log of one attempt: made with its first line. */

import type { Task } from "../../broker/port.ts"
import { type LoggedEnd, type LogLevel, levelIndex } from "../../log.ts"
import { type LogBuffer, type OpenLines, ROW_BYTES } from "./buffer.ts"
import type { LogEntry } from "./handler-log.ts"
import { jsonBytes, prefix, safeFields, withoutStacks } from "./safe-fields.ts"

export interface LogLimits {
  /** Of one attempt. */
  readonly maxBytes: number
  readonly maxLines: number
}

export class AttemptLog {
  readonly #buffer: LogBuffer
  readonly #limits: LogLimits
  readonly #open: OpenLines
  #bytes = 0
  #droppedLines = 0
  #droppedBytes = 0

  constructor(task: Task, buffer: LogBuffer, limits: LogLimits) {
    const { jobId, nodeId, item = -1, attempt: fence, shownAttempt: attempt } = task
    this.#buffer = buffer
    this.#limits = limits
    const key = { jobId, nodeId, item, fence, attempt, runId: newRunId() }
    this.#open = { key, lines: [], bytes: 0, level: 0, last: 0 }
  }

  line(at: number, level: LogLevel, entry: LogEntry): void {
    const line = encodeLine(at, levelIndex(level), entry)
    const bytes = Buffer.byteLength(line)
    const { maxBytes, maxLines } = this.#limits
    if (this.#droppedLines > 0 || this.#bytes + bytes > maxBytes || this.#open.last >= maxLines) {
      this.#droppedLines++
      this.#droppedBytes += bytes
      return
    }
    this.#bytes += bytes
    this.#buffer.add(this.#open, { line, bytes, level: levelIndex(level) })
  }

  /** The attempt has ended: one line reports what its limits have dropped. */
  end(at: number): LoggedEnd {
    if (this.#droppedLines > 0) this.#reportDropped(at)
    return { lines: this.#open.last, runId: this.#open.key.runId! }
  }

  #reportDropped(at: number): void {
    const { maxBytes, maxLines } = this.#limits
    const message = `${this.#droppedLines} lines (${this.#droppedBytes} bytes) were dropped: an attempt keeps at most ${maxLines} lines and ${maxBytes} bytes.`
    this.#droppedLines = 0
    this.#droppedBytes = 0
    const level = levelIndex("warn")
    const line = encodeLine(at, level, { fields: {}, errors: [], message })
    this.#buffer.add(this.#open, { line, bytes: Buffer.byteLength(line), level })
  }
}

/** Distinguishes the few runs of one attempt. Fits into 32 bits with a sign, and is not 0. */
const newRunId = () => 1 + Math.floor(Math.random() * (2 ** 31 - 1))

/** The JSON text of a stored line. What does not fit into a row is cut: the fields, the message, or half of each. */
function encodeLine(at: number, level: number, entry: LogEntry): string {
  const { fields, errors, message = "" } = entry
  const line = lineText(at, level, message, fieldsText(fields, errors))
  const bytes = Buffer.byteLength(line)
  if (bytes <= ROW_BYTES) return line
  const room = ROW_BYTES - lineText(at, level, "", "{}").length - 1
  const inFields = Math.max(room / 2, room - jsonBytes(message))
  const kept = fittingFields(entry, inFields)
  const inMessage = room - Buffer.byteLength(kept)
  return lineText(at, level, fittingMessage(message, inMessage, bytes), kept)
}

/** Marks of what was left out, one for each object around it. */
const MARK_BYTES = 1500

function fittingFields({ fields, errors }: LogEntry, bytes: number): string {
  const text = fieldsText(fields, errors)
  if (Buffer.byteLength(text) <= bytes) return text
  const stored = JSON.parse(text) as object
  const kept = safeFields(stored, { maxBytes: bytes - MARK_BYTES, measureText: jsonBytes }).fields
  const cut = JSON.stringify(kept)
  return Buffer.byteLength(cut) <= bytes ? cut : "{}"
}

function fittingMessage(message: string, bytes: number, of: number): string {
  if (jsonBytes(message) <= bytes) return message
  const mark = ` … (cut: the line has ${of} bytes)`
  return prefix(message, bytes - jsonBytes(mark)) + mark
}

function lineText(at: number, level: number, message: string, fields: string): string {
  const text = JSON.stringify(message)
  return fields === "{}" ? `[${at},${level},${text}]` : `[${at},${level},${text},${fields}]`
}

function fieldsText(fields: object, errors: readonly object[]): string {
  // Most lines have none.
  return Object.keys(fields).length === 0 ? "{}" : withoutStacks(fields, errors)
}
