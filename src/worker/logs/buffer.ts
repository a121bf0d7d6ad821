/**
 * Lines that handlers have logged and that are not stored yet.
 *
 * 1. A line is sent at the latest DELAY_MS after it was logged, together with all lines of this process; one write is in
 *    flight at a time.
 * 2. Nothing waits for a write. What is kept is bounded: the oldest lines are dropped first. The numbers of the lines then
 *    have a gap, which readers see.
 * 3. An attempt that logs nothing has no object here.
 */

import { UmbraError } from "../../errors.ts"
import type { Log, LoggedLines, LogSink } from "../../log.ts"

const DELAY_MS = 100
/** After a write that failed. */
const RETRY_MS = 1000
/** One write takes rows of about this size. */
const WRITE_BYTES = 1024 * 1024
/** Of the lines in a row. */
export const ROW_BYTES = 64_000
/** What a process that ends waits for. */
const CLOSE_MS = 2000

export interface LogBufferOptions {
  readonly sink: LogSink
  readonly maxBytes: number
  readonly log: Log
  readonly delayMs?: number
}

/** The lines of one attempt that no row has yet. */
export interface OpenLines {
  readonly key: Omit<LoggedLines, "firstLine" | "lastLine" | "level" | "lines">
  lines: string[]
  bytes: number
  level: number
  /** The number of the last line. */
  last: number
}

export class LogBuffer {
  /** The number of lines that were dropped since the process started. */
  dropped = 0
  readonly #options: LogBufferOptions
  readonly #open = new Set<OpenLines>()
  /** Oldest first. */
  #rows: LoggedLines[] = []
  #bytes = 0
  #timer: NodeJS.Timeout | null = null
  #writing: Promise<void> | null = null
  #isFailing = false

  constructor(options: LogBufferOptions) {
    this.#options = options
  }

  /** `line`: the JSON text of a stored line; `bytes`: its size. */
  add(open: OpenLines, { line, bytes, level }: { line: string; bytes: number; level: number }): void {
    if (open.bytes + bytes >= ROW_BYTES) this.#pack(open)
    open.lines.push(line)
    open.bytes += bytes + 1
    open.last += 1
    if (level > open.level) open.level = level
    this.#open.add(open)
    this.#grow(bytes + 1)
  }

  /** Lines that another process has packed. */
  addRows(rows: readonly LoggedLines[]): void {
    for (const row of rows) {
      this.#rows.push(row)
      this.#grow(row.lines.length)
    }
  }

  /** Sends what is there, and resolves when it is stored, or after a while. */
  async close(): Promise<void> {
    const until = performance.now() + CLOSE_MS
    while (this.#open.size + this.#rows.length > 0 && performance.now() < until) {
      await Promise.race([this.#flush(), new Promise(resolve => setTimeout(resolve, CLOSE_MS).unref())])
      if (this.#isFailing) break
    }
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  #grow(bytes: number): void {
    this.#bytes += bytes
    if (this.#bytes > this.#options.maxBytes) this.#dropOldest()
    this.#schedule(this.#options.delayMs ?? DELAY_MS)
  }

  #schedule(ms: number): void {
    if (this.#timer !== null || this.#writing !== null) return
    this.#timer = setTimeout(() => void this.#flush(), ms)
    this.#timer.unref()
  }

  #pack(open: OpenLines): void {
    this.#open.delete(open)
    const { lines, level, last, key } = open
    if (lines.length === 0) return
    const text = `[${lines.join(",")}]`
    this.#rows.push({ ...key, firstLine: last - lines.length + 1, lastLine: last, level, lines: text })
    // From now on by the length of the text, which is exact enough for a bound.
    this.#bytes += text.length - open.bytes
    open.lines = []
    open.bytes = 0
    open.level = 0
  }

  #dropOldest(): void {
    if (this.#rows.length === 0) for (const open of [...this.#open]) this.#pack(open)
    while (this.#bytes > this.#options.maxBytes && this.#rows.length > 0) {
      const row = this.#rows.shift()!
      this.#bytes -= row.lines.length
      this.dropped += row.lastLine - row.firstLine + 1
    }
  }

  #flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    this.#writing ??= this.#write().finally(() => {
      this.#writing = null
      if (this.#open.size + this.#rows.length > 0)
        this.#schedule(this.#isFailing ? RETRY_MS : (this.#options.delayMs ?? DELAY_MS))
    })
    return this.#writing
  }

  async #write(): Promise<void> {
    for (const open of [...this.#open]) this.#pack(open)
    while (this.#rows.length > 0) {
      const batch = this.#next()
      try {
        await this.#options.sink(batch)
        this.#isFailing = false
      } catch (error) {
        if (!this.#failed(batch, error)) return
      }
    }
  }

  /** Rows in flight belong to the write: what is dropped meanwhile are others. */
  #next(): LoggedLines[] {
    let bytes = 0
    let count = 0
    while (count < this.#rows.length && (count === 0 || bytes < WRITE_BYTES))
      bytes += this.#rows[count++]!.lines.length
    this.#bytes -= bytes
    return this.#rows.splice(0, count)
  }

  /** Returns whether the next rows can be written: these were rejected for what they contain. */
  #failed(batch: readonly LoggedLines[], error: unknown): boolean {
    const { log } = this.#options
    if (error instanceof UmbraError && error.code === "E502") {
      for (const { firstLine, lastLine } of batch) this.dropped += lastLine - firstLine + 1
      log.warn({ error: error.message }, "the store rejected log lines of handlers; they are dropped")
      return true
    }
    if (!this.#isFailing)
      log.warn({ error: String(error) }, "log lines of handlers cannot be stored; retrying")
    this.#isFailing = true
    this.#rows.unshift(...batch)
    for (const { lines } of batch) this.#bytes += lines.length
    if (this.#bytes > this.#options.maxBytes) this.#dropOldest()
    return false
  }
}
