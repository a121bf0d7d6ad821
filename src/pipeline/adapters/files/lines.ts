/**
 * Reads lines of a file from a byte offset, a bounded number at a time.
 *
 * 1. Lines are cut as bytes and decoded as a whole, so a character is never split at the boundary of two
 *    reads.
 * 2. At most the bytes of the step, one line and one chunk are in memory, however long the file or a line is.
 * 3. A step ends between two lines, or inside a line that is too long and is being skipped.
 */
import type { FileHandle } from "node:fs/promises"

export interface LineCursor {
  /** The byte at which the next line begins, or at which the rest of a line that is too long continues. */
  readonly offset: number
  /** The number of the next line, from 1. */
  readonly line: number
  /** The position is inside a line that is too long. */
  readonly passing?: boolean
}

export interface StepLimits {
  readonly lines: number
  readonly bytes: number
  readonly lineBytes: number
}

/** `text` null: the line is too long. */
export interface Line {
  readonly line: number
  readonly text: string | null
}

export interface LineStep {
  readonly lines: readonly Line[]
  readonly next: LineCursor
  readonly isEnd: boolean
}

const chunkBytes = 64 * 1024
const newline = 0x0a
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf])

export async function readLines(
  file: FileHandle,
  from: LineCursor,
  limits: StepLimits,
  signal: AbortSignal,
): Promise<LineStep> {
  const step = new Step(from, limits)
  for (let position = from.offset; ; ) {
    signal.throwIfAborted()
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(chunkBytes), 0, chunkBytes, position)
    if (bytesRead === 0) return step.atEnd()
    position += bytesRead
    if (step.take(buffer.subarray(0, bytesRead))) return step.result(false)
  }
}

class Step {
  readonly #from: number
  readonly #limits: StepLimits
  readonly #lines: Line[] = []
  /** The parts of the line that is being read. */
  #parts: Buffer[] = []
  #partBytes = 0
  #isPassing: boolean
  /** Everything before it is processed. */
  #offset: number
  #line: number

  constructor({ offset, line, passing = false }: LineCursor, limits: StepLimits) {
    this.#limits = limits
    this.#from = offset
    this.#offset = offset
    this.#line = line
    this.#isPassing = passing
  }

  /** Returns true if the step is full. */
  take(chunk: Buffer): boolean {
    let start = 0
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      this.#add(chunk.subarray(start, end))
      start = end + 1
      this.#endLine(1)
      if (this.#isFull()) return true
    }
    this.#add(chunk.subarray(start))
    return this.#isPassing && this.#isFull()
  }

  atEnd(): LineStep {
    if (this.#partBytes > 0 || this.#isPassing) this.#endLine(0)
    return this.result(true)
  }

  result(isEnd: boolean): LineStep {
    const next = { offset: this.#offset, line: this.#line, ...(this.#isPassing ? { passing: true } : {}) }
    return { lines: this.#lines, next, isEnd }
  }

  #isFull(): boolean {
    return this.#lines.length >= this.#limits.lines || this.#offset - this.#from >= this.#limits.bytes
  }

  #add(part: Buffer): void {
    if (!this.#isPassing) {
      this.#parts.push(part)
      this.#partBytes += part.length
      if (this.#partBytes <= this.#limits.lineBytes) return
      this.#isPassing = true
      this.#offset += this.#partBytes
      this.#parts = []
      this.#partBytes = 0
      this.#lines.push({ line: this.#line, text: null })
      return
    }
    this.#offset += part.length
  }

  #endLine(separator: number): void {
    if (!this.#isPassing) this.#lines.push({ line: this.#line, text: this.#text() })
    this.#offset += this.#partBytes + separator
    this.#line++
    this.#parts = []
    this.#partBytes = 0
    this.#isPassing = false
  }

  #text(): string {
    let bytes = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts)
    if (this.#line === 1 && bytes.subarray(0, 3).equals(byteOrderMark)) bytes = bytes.subarray(3)
    if (bytes.at(-1) === 0x0d) bytes = bytes.subarray(0, -1)
    return bytes.toString()
  }
}
