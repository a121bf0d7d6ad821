/**
 * The log of a job: lines of its handlers, interleaved with what the engine did with its nodes.
 *
 * 1. The sources are merged by time: handlers, events of the engine, refused webhooks. A position has a place in each, so a reader
 *    that continues misses nothing and reads nothing twice, whatever arrives later in any of them.
 * 2. A page is bounded work: it may end before it is full.
 * 3. The end of an attempt follows its lines: it is shown once they are stored, or LATE_MS later, with the number of those
 *    that are missing. What the engine did afterwards is shown after it.
 * 4. Pages before a line contain lines of handlers only: those of the engine are computed by a fold, which reads facts in ascending order.
 */

import type { Json } from "../../core/json.ts"
import type { Graph } from "../../core/plan.ts"
import type { JobEvent } from "../../core/view/events.ts"
import type { LoadParts } from "../../engine/recovery/fold.ts"
import { UmbraError } from "../../errors.ts"
import type { LogRow } from "../../journal/port/logs.ts"
import { type LogLevel, logLevels, type StoredLine } from "../../log.ts"
import type { EventPage, EventPageQuery } from "../event-page.ts"
import { engineLine } from "./engine-lines.ts"
import { WebhookLines } from "./webhook-lines.ts"

export interface LogLine {
  /** `after` for the lines that follow. */
  readonly id: string
  /** Milliseconds since 1970. */
  readonly at: number
  readonly level: LogLevel
  readonly source: "handler" | "engine"
  readonly node: string
  readonly item?: number
  /** The attempt number that is shown to users. */
  readonly attempt?: number
  readonly message: string
  readonly fields?: { readonly [name: string]: Json }
  /** Of a handler's line: its number among the lines of the attempt, from 1. */
  readonly line?: number
  /** How many lines of the attempt before this one were lost; of a line of the engine: those at the end of the attempt. */
  readonly lost?: number
}

export interface LogFilter {
  readonly node?: string | undefined
  /** Only with `node`. */
  readonly item?: number | undefined
  /** Only with `node`. */
  readonly attempt?: number | undefined
  /** The lowest level; default: debug. */
  readonly level?: LogLevel | undefined
  /** Default: both. */
  readonly source?: LogLine["source"] | undefined
  /** Only lines up to this time, in milliseconds since 1970. */
  readonly until?: number | undefined
}

export interface LogPageQuery extends LogFilter {
  /** The id of a line, or `next` of a page; absent: from the beginning. */
  readonly after?: string | undefined
  /** The last lines of handlers before this line, or before the `end`, in their order. */
  readonly before?: string | undefined
  readonly limit: number
  /** The job has no facts that the reader has not seen: only lines of handlers are read. */
  readonly hasNoNewFacts?: boolean | undefined
  /** Refused webhooks are not read. */
  readonly skipsWebhooks?: boolean | undefined
}

export interface LogPage {
  readonly lines: readonly LogLine[]
  /** `after` of the next page, or with `before` that of the page before it; null: there are no more lines now. */
  readonly next: string | null
  /** More lines are certain: the end of an attempt is not among them yet, because its own lines may be under way. */
  readonly pending?: true
}

/** Lines are stored up to 200 ms after the fact that ends their attempt; on a busy machine, or if Redis was unavailable, later. */
const LATE_MS = 5000
/** Rows of the store that are read at once, and the size of their lines. */
const ROWS = 500
const BYTES = 1024 * 1024
/** Events that are read at once, and by one page. */
const EVENTS = 500
const MAX_EVENTS = 5000
const MAX_ROWS = 20_000
/** A page ends with the line that exceeds this size: a line may have 64 KB. */
const PAGE_BYTES = 1024 * 1024

interface Position {
  /** Events up to this one are read. */
  readonly seq: number
  readonly place: number
  /** Rows before this one, and this many lines of it. */
  readonly row: number
  readonly line: number
  /** Webhooks up to this one are read. */
  readonly webhook: number
}

type Unplaced = Omit<LogLine, "id">

export interface LogParts extends LoadParts {
  now(): number
  events(jobId: string, query: EventPageQuery): Promise<EventPage>
  plan(jobId: string): Promise<Graph>
}

export class JobLogs {
  readonly #parts: LogParts

  constructor(parts: LogParts) {
    this.#parts = parts
  }

  /** Throws if the job has no such node. */
  async checkNode(jobId: string, node: string | undefined): Promise<void> {
    if (node === undefined) return
    const { nodes } = await this.#parts.plan(jobId)
    if (!nodes.some(({ id }) => id === node))
      throw new UmbraError("E310", `Job ${jobId} has no node "${node}". Its graph lists its nodes.`)
  }

  async page(jobId: string, query: LogPageQuery): Promise<LogPage> {
    if (query.node === undefined && (query.item !== undefined || query.attempt !== undefined))
      throw new UmbraError("E309", "item and attempt need a node.")
    if (query.before !== undefined) return this.#pageBefore(jobId, query, query.before)
    const position = query.after === undefined ? START : parsePosition(query.after)
    const engine = new EngineLines(this.#parts, jobId, query, position)
    const handler = new HandlerLines(this.#parts, jobId, query, position)
    const accepts = (line: Unplaced) => isSelected(line, query)
    const webhooks = new WebhookLines(this.#parts, jobId, { accepts, after: position.webhook })
    const lines: LogLine[] = []
    const bound = () => formatPosition({ ...engine.position, ...handler.position, ...webhooks.position })
    let bytes = 0
    while (lines.length < query.limit && bytes <= PAGE_BYTES) {
      const found = query.hasNoNewFacts || query.source === "handler" ? null : await engine.head()
      const one = found === "pending" ? null : found
      const other = query.source === "engine" ? null : await handler.head()
      const skipsWebhooks = query.skipsWebhooks || query.source === "handler" || found === "pending"
      const third = skipsWebhooks ? null : await webhooks.head()
      // A source that has read its share and found nothing may have an earlier line.
      if (one === "bound" || other === "bound" || third === "bound") return { lines, next: bound() }
      const isWebhook = third !== null && (one === null || third.at < one.at)
      const made = isWebhook ? third : one
      if (made === null && other === null)
        return { lines, next: null, ...(found === "pending" && { pending: true }) }
      const isMade = other === null || (made !== null && isBefore(made, other))
      const line = isMade ? made! : other
      bytes += sizeOf(line)
      ;(isMade ? (isWebhook ? webhooks : engine) : handler).take()
      lines.push({ id: bound(), ...line })
    }
    return { lines, next: bound() }
  }

  async #pageBefore(jobId: string, query: LogPageQuery, before: string): Promise<LogPage> {
    if (query.source === "engine" || query.after !== undefined)
      throw new UmbraError(
        "E309",
        "before applies to lines of handlers only, and cannot be combined with after.",
      )
    let { row, line } = before === "end" ? END : parsePosition(before)
    const lines: LogLine[] = []
    let bytes = 0
    const page = (next: string | null) => ({ lines: lines.reverse(), next })
    for (let read = 0; read < MAX_ROWS; ) {
      const from = line > 1 ? row : row - 1
      const rows = await this.#parts.journal.logs.read({ ...rowQuery(jobId, query), from, downwards: true })
      read += rows.length
      const isUnread = ({ lines, level }: LogRow) => lines === null && level >= leastLevel(query)
      for (const stored of rows) {
        // It and the rest have more bytes than are read at once.
        if (isUnread(stored)) break
        const end = stored.position === row ? line - 1 : undefined
        for (const found of matchingLines(stored, query, end).reverse()) {
          lines.push(found)
          bytes += sizeOf(found)
          if (lines.length === query.limit || bytes > PAGE_BYTES) return page(found.id)
        }
        ;[row, line] = [stored.position, 1]
      }
      if (rows.length < ROWS && !rows.some(isUnread)) return page(null)
    }
    return page(formatPosition({ ...START, row, line }))
  }
}

const leastLevel = ({ level }: LogFilter) => logLevels.indexOf(level ?? "debug")

/** The lines of a row that the filter selects, of those before `end`. */
function matchingLines(row: LogRow, filter: LogFilter, end: number | undefined): LogLine[] {
  const least = leastLevel(filter)
  if (row.lines === null) return []
  const { position, lost } = row
  const stored = (JSON.parse(row.lines) as StoredLine[]).slice(0, end)
  const found = stored.flatMap((line, index): LogLine[] => {
    if (line[1] < least || isLater(line[0], filter)) return []
    const id = formatPosition({ ...START, row: position, line: index + 1 })
    return [{ id, ...handlerLine(row, index, line) }]
  })
  const [first, ...others] = found
  return first === undefined || lost === 0 ? found : [{ ...first, lost }, ...others]
}

/** Does the filter select a line that is not of a handler? */
function isSelected({ node, item, attempt, at, level }: Unplaced, filter: LogFilter): boolean {
  if (filter.node !== undefined && node !== filter.node) return false
  if (filter.item !== undefined && (item ?? -1) !== filter.item) return false
  if (filter.attempt !== undefined && attempt !== filter.attempt) return false
  return logLevels.indexOf(level) >= leastLevel(filter) && !isLater(at, filter)
}

function isLater(at: number, { until }: LogFilter): boolean {
  return until !== undefined && at > until
}

function handlerLine(row: LogRow, index: number, [at, level, message, fields]: StoredLine): Unplaced {
  const { nodeId, item, attempt, firstLine } = row
  return {
    ...{ at, level: logLevels[level]!, source: "handler", node: nodeId },
    ...(item >= 0 && { item }),
    ...{ attempt, message },
    ...(fields !== undefined && { fields: fields as { [name: string]: Json } }),
    line: firstLine + index,
  }
}

function rowQuery(jobId: string, filter: LogFilter) {
  const { node: nodeId, item, attempt } = filter
  return { ...{ jobId, nodeId, item, attempt }, level: leastLevel(filter), limit: ROWS, maxBytes: BYTES }
}

function sizeOf({ message, fields }: Unplaced): number {
  return message.length + (fields === undefined ? 0 : JSON.stringify(fields).length)
}

/** Ordered by time, except around the lines of one attempt: the clock of its worker may differ. */
function isBefore(engine: Unplaced, handler: Unplaced): boolean {
  const isSame =
    engine.node === handler.node && engine.item === handler.item && engine.attempt === handler.attempt
  return isSame ? /^(dispatched|started)/.test(engine.message) : engine.at <= handler.at
}

class EngineLines {
  readonly #parts: LogParts
  readonly #jobId: string
  readonly #filter: LogFilter
  readonly #least: number
  #events: readonly JobEvent[] = []
  #next = 0
  #read = 0
  #isAtEnd = false
  /** Of ends of attempts whose last lines are not stored: how many. */
  #missing: ReadonlyMap<JobEvent, number> = new Map()
  #after: { readonly seq: number; readonly place: number }

  constructor(parts: LogParts, jobId: string, filter: LogFilter, { seq, place }: Position) {
    this.#parts = parts
    this.#jobId = jobId
    this.#filter = filter
    this.#least = leastLevel(filter)
    this.#after = { seq, place }
  }

  get position(): Pick<Position, "seq" | "place"> {
    return this.#after
  }

  async head(): Promise<Unplaced | "bound" | "pending" | null> {
    for (;;) {
      for (; this.#next < this.#events.length; this.take()) {
        const event = this.#events[this.#next]!
        if (this.#missing.has(event) && this.#parts.now() - event.at < LATE_MS) return "pending"
        const line = this.#line(event)
        if (line !== null) return line
      }
      if (this.#isAtEnd) return null
      if (this.#read >= MAX_EVENTS) return "bound"
      const query = { after: this.#after, limit: EVENTS, maxBytes: BYTES }
      const { events, next } = await this.#parts.events(this.#jobId, query)
      this.#read += events.length
      this.#events = events
      this.#next = 0
      this.#isAtEnd = next === null
      this.#missing = await this.#missingLines(events)
    }
  }

  async #missingLines(events: readonly JobEvent[]): Promise<Map<JobEvent, number>> {
    const ends = events.filter(event => event.payload.logged !== undefined && this.#isWanted(event))
    if (ends.length === 0) return new Map()
    const logged = ends.map(
      ({ payload }) => payload.logged as { readonly lines: number; readonly fence: number },
    )
    const attempts = ends.map(({ node, item = -1 }, n) => ({ nodeId: node!, item, fence: logged[n]!.fence }))
    const stored = await this.#parts.journal.logs.lastLines(this.#jobId, attempts)
    const missing = ends.map((event, n) => [event, logged[n]!.lines - stored[n]!] as const)
    return new Map(missing.filter(([, lines]) => lines > 0))
  }

  take(): void {
    const { seq, idempotency_key } = this.#events[this.#next++]!
    this.#after = { seq, place: Number(idempotency_key.slice(idempotency_key.lastIndexOf(":") + 1)) }
  }

  #isWanted(event: JobEvent): boolean {
    const { node, item, attempt } = this.#filter
    if (node !== undefined && event.node !== node) return false
    if (item !== undefined && (event.item ?? -1) !== item) return false
    return (attempt === undefined || attemptOf(event) === attempt) && !isLater(event.at, this.#filter)
  }

  #line(event: JobEvent): Unplaced | null {
    if (!this.#isWanted(event)) return null
    const line = engineLine(event)
    if (line === null) return null
    const lost = this.#missing.get(event)
    const level = lost !== undefined && line.level === "info" ? "warn" : line.level
    if (logLevels.indexOf(level) < this.#least) return null
    const attempt = attemptOf(event)
    return {
      ...{ at: event.at, level, source: "engine", node: event.node! },
      ...(event.item !== undefined && { item: event.item }),
      ...(attempt !== undefined && { attempt }),
      message: line.message,
      ...(lost !== undefined && { lost }),
    }
  }
}

/** The event of a retry has the number of the next attempt; its line is about the one that failed. */
function attemptOf({ attempt, payload }: JobEvent): number | undefined {
  return attempt !== undefined && payload.reason === "retry" ? Math.max(1, attempt - 1) : attempt
}

class HandlerLines {
  readonly #parts: LogParts
  readonly #jobId: string
  readonly #filter: LogFilter
  readonly #least: number
  #rows: readonly LogRow[] = []
  #nextRow = 0
  #lines: readonly StoredLine[] = []
  #read = 0
  #isAtEnd = false
  /** Of the lines that were not taken. */
  #row: number
  #line: number
  #lost = 0

  constructor(parts: LogParts, jobId: string, filter: LogFilter, { row, line }: Position) {
    this.#parts = parts
    this.#jobId = jobId
    this.#filter = filter
    this.#least = leastLevel(filter)
    this.#row = row
    this.#line = line
  }

  get position(): Pick<Position, "row" | "line"> {
    return { row: this.#row, line: this.#line }
  }

  async head(): Promise<Unplaced | "bound" | null> {
    for (;;) {
      for (; this.#line < this.#lines.length; this.#line++) {
        const stored = this.#lines[this.#line]!
        if (stored[1] >= this.#least && !isLater(stored[0], this.#filter)) return this.#unplaced(stored)
      }
      if (this.#lines.length > 0) this.#leaveRow()
      else if (this.#nextRow < this.#rows.length) this.#enterRow()
      else if (this.#isAtEnd) return null
      else if (this.#read >= MAX_ROWS) return "bound"
      else await this.#readRows()
    }
  }

  take(): void {
    this.#line++
    this.#lost = 0
  }

  #unplaced(stored: StoredLine): Unplaced {
    const line = handlerLine(this.#rows[this.#nextRow - 1]!, this.#line, stored)
    return this.#lost > 0 ? { ...line, lost: this.#lost } : line
  }

  #leaveRow(): void {
    this.#lines = []
    this.#row++
    this.#line = 0
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
    if (position > this.#row) this.#line = 0
    this.#row = position
    this.#lost = this.#line === 0 ? lost : 0
    if (lines === null) this.#leaveRow()
    else this.#lines = JSON.parse(lines) as StoredLine[]
  }

  async #readRows(): Promise<void> {
    const query = { ...rowQuery(this.#jobId, this.#filter), from: this.#row }
    this.#rows = await this.#parts.journal.logs.read(query)
    this.#nextRow = 0
    this.#read += this.#rows.length
    this.#isAtEnd = this.#rows.length < ROWS
  }
}

const START: Position = { seq: -1, place: Number.POSITIVE_INFINITY, row: 0, line: 0, webhook: 0 }
const END: Position = { ...START, row: Number.MAX_SAFE_INTEGER, line: 0 }
const POSITION = /^(\d{1,16})\.(\d{1,7})\.(\d{1,16})\.(\d{1,7})(?:\.(\d{1,16}))?$/

/** A reader that has read no event begins with seq 0, which no fact has. */
function formatPosition({ seq, place, row, line, webhook }: Position): string {
  const lines = seq < 0 ? `0.0.${row}.${line}` : `${seq}.${place}.${row}.${line}`
  return webhook === 0 ? lines : `${lines}.${webhook}`
}

function parsePosition(text: string): Position {
  const found = POSITION.exec(text)
  if (found === null) throw new UmbraError("E309", `"${text}" is not the id of a log line.`)
  const [seq, place, row, line] = found.slice(1).map(Number) as [number, number, number, number]
  const webhook = Number(found[5] ?? 0)
  return seq === 0 ? { ...START, row, line, webhook } : { seq, place, row, line, webhook }
}
