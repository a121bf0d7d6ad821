/**
 * The log of a job: lines of its handlers, interleaved with what the engine did with its nodes.
 *
 * 1. The sources are merged by time: handlers, events of the engine, refused webhooks. A position has a place in each, so a reader
 *    that continues misses nothing and reads nothing twice, whatever arrives later in any of them.
 * 2. A page is bounded work: it may end before it is full.
 * 3. The lines of an attempt stand between its start and its end. An end that comes too early waits for the rows of its attempt that
 *    are stored, and holds up what the engine did afterwards; it is shown with the number of the lines that are missing, LATE_MS
 *    later. A start that comes too late is shown before the first row of its attempt, and left out at its own place: whether it was
 *    shown follows from the position among the rows, so a position needs no list of exceptions.
 * 4. An attempt may run more than once. The lines of a run are in their order; those of two runs may be mixed, and have the number of
 *    their run.
 * 5. Pages before a line contain lines of handlers only: those of the engine are computed by a fold, which reads facts in ascending order.
 */

import type { Json } from "../../core/json.ts"
import type { JobState } from "../../core/state.ts"
import type { LoadParts } from "../../engine/recovery/fold.ts"
import { UmbraError } from "../../errors.ts"
import type { LogRow } from "../../journal/port/logs.ts"
import type { LogLevel, StoredLine } from "../../log.ts"
import { nextTurnIfLate } from "../../turns.ts"
import { type EventPage, type EventPageQuery, eventPage } from "../event-page.ts"
import type { History } from "../history.ts"
import { EngineLines, isBefore } from "./engine-source.ts"
import { nodePositions } from "./fences.ts"
import { HandlerLines, handlerLine, MAX_ROWS, ROWS, rowQuery } from "./handler-source.ts"
import { type Begun, isLater, isSelected, leastLevel, type Position, type Unplaced } from "./selection.ts"
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
  /** Of a handler's line: its number among the lines of the run, from 1. */
  readonly line?: number
  /** Of a handler's line: the number of the run among those of the attempt; absent: the first. Each run numbers its lines from 1. */
  readonly run?: number
  /** How many lines of the run before this one were lost; of a line of the engine: those at the end of the attempt. */
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

/** A page ends with the line that exceeds this size: a line may have 64 KB. */
const PAGE_BYTES = 1024 * 1024

export interface LogParts extends LoadParts {
  now(): number
  events(jobId: string, query: EventPageQuery): Promise<EventPage>
  /** The job after the facts up to this seq. */
  state(jobId: string, seq: number): Promise<JobState>
}

export function jobLogs(parts: LoadParts & Pick<LogParts, "now">, history: History): JobLogs {
  return new JobLogs({
    ...parts,
    events: (...given) => eventPage(parts, history, ...given),
    state: async (jobId, seq) => (await history.state(jobId, { seq })).state,
  })
}

export class JobLogs {
  readonly #parts: LogParts

  constructor(parts: LogParts) {
    this.#parts = parts
  }

  /** Throws if the job has no such node. */
  async checkNode(jobId: string, node: string | undefined): Promise<void> {
    if (node === undefined) return
    const { graph } = await this.#parts.state(jobId, -1)
    if (!nodePositions(graph).has(node))
      throw new UmbraError("E310", `Job ${jobId} has no node "${node}". Its graph lists its nodes.`)
  }

  async page(jobId: string, query: LogPageQuery): Promise<LogPage> {
    if (query.node === undefined && (query.item !== undefined || query.attempt !== undefined))
      throw new UmbraError("E309", "item and attempt need a node.")
    if (query.before !== undefined) return this.#pageBefore(jobId, query, query.before)
    const position = query.after === undefined ? START : parsePosition(query.after)
    const showsEngine = query.source !== "handler"
    const handler = new HandlerLines(this.#parts, jobId, { filter: query, position, hasStarts: showsEngine })
    const engine = new EngineLines(this.#parts, jobId, { filter: query, position, rows: handler })
    const accepts = (line: Unplaced) => isSelected(line, query)
    const webhooks = new WebhookLines(this.#parts, jobId, { accepts, after: position.webhook })
    const lines: LogLine[] = []
    const bound = () => formatPosition({ ...engine.position, ...handler.position, ...webhooks.position })
    let bytes = 0
    const add = (line: Unplaced) => {
      bytes += measureLine(line)
      lines.push({ id: bound(), ...line })
    }
    while (lines.length < query.limit && bytes <= PAGE_BYTES) {
      // Many readers may get what they have queried in the same turn of the event loop.
      const late = nextTurnIfLate()
      if (late !== undefined) await late
      const readsEngine = showsEngine && !query.hasNoNewFacts
      // Events are read before rows: what an end waits for is stored by then.
      if (readsEngine) await engine.fill()
      const other = query.source === "engine" ? null : await handler.head()
      const found = readsEngine ? await engine.head() : null
      const isHeld = found === "pending" || found === "held"
      const one = isHeld ? null : found
      const skipsWebhooks = query.skipsWebhooks || !showsEngine || found === "pending"
      const third = skipsWebhooks ? null : await webhooks.head()
      // A source that has read its share and found nothing may have an earlier line.
      if (one === "bound" || other === "bound" || third === "bound") return { lines, next: bound() }
      const isWebhook = third !== null && (one === null || third.at < one.line.at)
      if (other === null && found === "held" && !isWebhook) {
        handler.readAgain()
        engine.release()
      } else if (one === null && third === null && other === null)
        return { lines, next: null, ...(found === "pending" && { pending: true }) }
      else if (isWebhook && (other === null || third.at <= other.at)) {
        webhooks.take()
        add(third)
      } else if (!isWebhook && one !== null && (other === null || isBefore(one, other))) {
        engine.take()
        add(one.line)
      } else if (other!.line === null) {
        const { line, begun } = await engine.start(other!)
        handler.begin(begun)
        if (line !== null) add(line)
      } else {
        handler.take()
        add(other!.line)
      }
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
          bytes += measureLine(found)
          if (lines.length === query.limit || bytes > PAGE_BYTES) return page(found.id)
        }
        ;[row, line] = [stored.position, 1]
      }
      if (rows.length < ROWS && !rows.some(isUnread)) return page(null)
    }
    return page(formatPosition({ ...START, row, line }))
  }
}

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

function measureLine({ message, fields }: Unplaced): number {
  return message.length + (fields === undefined ? 0 : JSON.stringify(fields).length)
}

const START: Position = { seq: -1, place: Number.POSITIVE_INFINITY, row: 0, line: 0, begun: 0, webhook: 0 }
const END: Position = { ...START, row: Number.MAX_SAFE_INTEGER, line: 0 }
const POSITION = /^(\d{1,16})\.(\d{1,7})\.(\d{1,16})\.(\d{1,7})(?:\.(\d{1,16}))?(?:\.([12]))?$/

/** A reader that has read no event begins with seq 0, which no fact has. */
function formatPosition({ seq, place, row, line, begun, webhook }: Position): string {
  const lines = seq < 0 ? `0.0.${row}.${line}` : `${seq}.${place}.${row}.${line}`
  if (begun > 0) return `${lines}.${webhook}.${begun}`
  return webhook === 0 ? lines : `${lines}.${webhook}`
}

function parsePosition(text: string): Position {
  const found = POSITION.exec(text)
  if (found === null) throw new UmbraError("E309", `"${text}" is not the id of a log line.`)
  const [seq, place, row, line] = found.slice(1).map(Number) as [number, number, number, number]
  const webhook = Number(found[5] ?? 0)
  const rest = { row, line, webhook, begun: Number(found[6] ?? 0) as Begun }
  return seq === 0 ? { ...START, ...rest } : { seq, place, ...rest }
}
