/** The stored log of one attempt: made with its first line. */

import type { Task } from "../../broker/port.ts"
import { type LogLevel, levelIndex } from "../../log.ts"
import { jsonReplacer } from "../redact.ts"
import { type LogBuffer, type OpenLines, ROW_BYTES } from "./buffer.ts"

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
    const key = { jobId, nodeId, item, fence, attempt }
    this.#open = { key, lines: [], bytes: 0, level: 0, last: 0 }
  }

  line(at: number, level: LogLevel, fields: object, message: string | undefined): void {
    const line = encodeLine(at, levelIndex(level), fields, message ?? "")
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

  /** The attempt has ended: one line reports what its limits have dropped. Returns the number of the last line. */
  end(at: number): number {
    if (this.#droppedLines > 0) this.#reportDropped(at)
    return this.#open.last
  }

  #reportDropped(at: number): void {
    const { maxBytes, maxLines } = this.#limits
    const message = `${this.#droppedLines} lines (${this.#droppedBytes} bytes) were dropped: an attempt keeps at most ${maxLines} lines and ${maxBytes} bytes.`
    this.#droppedLines = 0
    this.#droppedBytes = 0
    const level = levelIndex("warn")
    const line = encodeLine(at, level, {}, message)
    this.#buffer.add(this.#open, { line, bytes: Buffer.byteLength(line), level })
  }
}

/** The JSON text of a stored line. One that would not fit into a row is cut. */
function encodeLine(at: number, level: number, fields: object, message: string): string {
  const line = lineText(at, level, message, fieldsText(fields))
  const bytes = Buffer.byteLength(line)
  if (bytes < ROW_BYTES) return line
  for (let kept = message.slice(0, ROW_BYTES); ; kept = kept.slice(0, kept.length / 2)) {
    const cut = lineText(at, level, `${kept} … (cut: the line has ${bytes} bytes)`, "{}")
    if (Buffer.byteLength(cut) < ROW_BYTES) return cut
  }
}

function lineText(at: number, level: number, message: string, fields: string): string {
  const text = JSON.stringify(message)
  return fields === "{}" ? `[${at},${level},${text}]` : `[${at},${level},${text},${fields}]`
}

function fieldsText(fields: object): string {
  // Most lines have none, and a replacer is slow.
  if (Object.keys(fields).length === 0) return "{}"
  try {
    return JSON.stringify(fields, jsonReplacer)
  } catch {
    return JSON.stringify({ fields: String(fields) })
  }
}
