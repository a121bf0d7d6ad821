/** The lines of handlers, row by row. */
import type { Json } from "../../core/json.ts"
import type { LogRow } from "../../journal/port/logs.ts"
import { logLevels, type StoredLine } from "../../log.ts"
import type { LogFilter, LogParts } from "./logs.ts"
import { type Begun, isLater, leastLevel, type Position, type Unplaced } from "./selection.ts"

/** Rows of the store that are read at once, and the size of their lines. */
export const ROWS = 500
const BYTES = 1024 * 1024
export const MAX_ROWS = 20_000

export function rowQuery(jobId: string, filter: LogFilter) {
  const { node: nodeId, item, attempt } = filter
  return { ...{ jobId, nodeId, item, attempt }, level: leastLevel(filter), limit: ROWS, maxBytes: BYTES }
}

export function handlerLine(row: LogRow, index: number, [at, level, message, fields]: StoredLine): Unplaced {
  const { nodeId, item, attempt, run, firstLine } = row
  return {
    ...{ at, level: logLevels[level]!, source: "handler", node: nodeId },
    ...(item >= 0 && { item }),
    ...{ attempt, message },
    ...(run > 1 && { run }),
    ...(fields !== undefined && { fields: fields as { [name: string]: Json } }),
    line: firstLine + index,
  }
}

export interface HandlerHead {
  readonly row: LogRow
  /** null: the start of the run stands here, if it was not shown before. */
  readonly line: Unplaced | null
  /** Of the line, or of the next one in the row. */
  readonly at: number
}

export class HandlerLines {
  readonly #parts: LogParts
  readonly #jobId: string
  readonly #filter: LogFilter
  readonly #hasStarts: boolean
  readonly #least: number
  #rows: readonly LogRow[] = []
  #nextRow = 0
  /** null: no row was entered. */
  #lines: readonly StoredLine[] | null = null
  #read = 0
  #isAtEnd = false
  /** Of the lines that were not taken. */
  #row: number
  #line: number
  #begun: Begun
  #lost = 0

  constructor(
    parts: LogParts,
    jobId: string,
    given: { readonly filter: LogFilter; readonly position: Position; readonly hasStarts: boolean },
  ) {
    const { filter, position, hasStarts } = given
    this.#parts = parts
    this.#jobId = jobId
    this.#filter = filter
    this.#hasStarts = hasStarts
    this.#least = leastLevel(filter)
    this.#row = position.row
    this.#line = position.line
    this.#begun = position.begun
  }

  get position(): Pick<Position, "row" | "line" | "begun"> {
    return { row: this.#row, line: this.#line, begun: this.#line === 0 ? this.#begun : 0 }
  }

  /** What of an attempt whose first row is at this position was shown. */
  begunAt(row: number | null): Begun {
    if (row === null || row > this.#row) return 0
    return row < this.#row || this.#line > 0 ? 2 : this.#begun
  }

  hasPassed(row: number | null): boolean {
    return row === null || row < this.#row
  }

  async head(): Promise<HandlerHead | "bound" | null> {
    for (;;) {
      if (this.#lines !== null) {
        const row = this.#rows[this.#nextRow - 1]!
        if (this.#mayBegin(row))
          return { row, line: null, at: this.#lines[0]?.[0] ?? Number.NEGATIVE_INFINITY }
        for (; this.#line < this.#lines.length; this.#line++) {
          const stored = this.#lines[this.#line]!
          if (stored[1] >= this.#least && !isLater(stored[0], this.#filter))
            return { row, line: this.#unplaced(row, stored), at: stored[0] }
        }
        this.#leaveRow()
      } else if (this.#nextRow < this.#rows.length) this.#enterRow()
      else if (this.#isAtEnd) return null
      else if (this.#read >= MAX_ROWS) return "bound"
      else await this.#readRows()
    }
  }

  take(): void {
    this.#line++
    this.#lost = 0
  }

  begin(begun: Begun): void {
    this.#begun = begun
  }

  /** Rows may have been stored since the last ones were read. */
  readAgain(): void {
    this.#isAtEnd = false
  }

  /** Is it the first row of its run that is stored? Then all lines before it are missing. */
  #mayBegin({ firstLine, lost }: LogRow): boolean {
    return this.#hasStarts && this.#line === 0 && this.#begun < 2 && lost === firstLine - 1
  }

  #unplaced(row: LogRow, stored: StoredLine): Unplaced {
    const line = handlerLine(row, this.#line, stored)
    return this.#lost > 0 ? { ...line, lost: this.#lost } : line
  }

  #leaveRow(): void {
    this.#lines = null
    this.#row++
    this.#line = 0
    this.#begun = 0
  }

  #enterRow(): void {
    const { position, lines, level, lost } = this.#rows[this.#nextRow]!
    // The rest of the page has more bytes than are read at once.
    if (lines === null && level >= this.#least) {
      this.#rows = []
      this.#nextRow = 0
      this.#isAtEnd = false
      return
    }
    this.#nextRow++
    if (position > this.#row) {
      this.#line = 0
      this.#begun = 0
    }
    this.#row = position
    this.#lost = this.#line === 0 ? lost : 0
    this.#lines = lines === null ? [] : (JSON.parse(lines) as StoredLine[])
  }

  async #readRows(): Promise<void> {
    const query = { ...rowQuery(this.#jobId, this.#filter), from: this.#row }
    this.#rows = await this.#parts.journal.logs.read(query)
    this.#nextRow = 0
    this.#read += this.#rows.length
    this.#isAtEnd = this.#rows.length < ROWS
  }
}
