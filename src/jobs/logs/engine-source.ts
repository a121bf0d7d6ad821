/** What the engine did, event by event, and the starts of attempts whose lines come first. */
import type { JobEvent } from "../../core/view/events.ts"
import type { LogExtent } from "../../journal/port/logs.ts"
import { logLevels } from "../../log.ts"
import type { EventPlace } from "../event-page.ts"
import { engineLine } from "./engine-lines.ts"
import { fenceIn, nodePositions } from "./fences.ts"
import { type HandlerHead, type HandlerLines, rowQuery } from "./handler-source.ts"
import type { LogFilter, LogParts } from "./logs.ts"
import { type Begun, isLater, isSelected, leastLevel, type Position, type Unplaced } from "./selection.ts"

/** Lines are stored up to 200 ms after the fact that ends their attempt; on a busy machine, or if Redis was unavailable, later. */
const LATE_MS = 5000
/** Events that are read at once, and by one page. */
const EVENTS = 500
const MAX_EVENTS = 5000
const BYTES = 1024 * 1024

/** `dispatch` and `start` of an attempt stand before its lines, `end` after them. */
type Role = "dispatch" | "start" | "end" | null

interface Entry {
  readonly event: JobEvent
  readonly role: Role
  readonly fence: number | undefined
  /** null: it is about no attempt. */
  readonly extent: LogExtent | null
}

export interface EngineHead {
  readonly line: Unplaced
  readonly role: Role
  readonly fence: number | undefined
}

/** Ordered by time, except around the lines of one attempt: the clock of its worker may differ. */
export function isBefore({ line, role, fence }: EngineHead, { row, at }: HandlerHead): boolean {
  const isSame = line.node === row.nodeId && (line.item ?? -1) === row.item
  if (!isSame || role === null || fence === undefined) return line.at <= at
  return fence === row.fence ? role !== "end" : fence < row.fence
}

export class EngineLines {
  readonly #parts: LogParts
  readonly #jobId: string
  readonly #filter: LogFilter
  readonly #least: number
  readonly #rows: HandlerLines
  #entries: Entry[] = []
  #next = 0
  #read = 0
  #isAtEnd = false
  #hasRows = false
  /** Shown before the first rows of their attempts. */
  readonly #shown = new Set<JobEvent>()
  #after: EventPlace
  /** Entries reach up to here. */
  #end: EventPlace
  /** An end whose rows are not among those that the filter selects. */
  #released: Entry | null = null

  constructor(
    parts: LogParts,
    jobId: string,
    given: { readonly filter: LogFilter; readonly position: Position; readonly rows: HandlerLines },
  ) {
    const { filter, position, rows } = given
    this.#parts = parts
    this.#jobId = jobId
    this.#filter = filter
    this.#least = leastLevel(filter)
    this.#rows = rows
    this.#after = { seq: position.seq, place: position.place }
    this.#end = this.#after
  }

  get position(): Pick<Position, "seq" | "place"> {
    return this.#after
  }

  /** Reads events, if all were taken. */
  async fill(): Promise<void> {
    if (this.#next < this.#entries.length || this.#isAtEnd || this.#read >= MAX_EVENTS) return
    this.#entries = []
    this.#next = 0
    await this.#readMore()
  }

  /** `held`: the rows of the attempt come first. */
  async head(): Promise<EngineHead | "bound" | "pending" | "held" | null> {
    for (;;) {
      for (; this.#next < this.#entries.length; this.take()) {
        const entry = this.#entries[this.#next]!
        if (this.#isShown(entry)) continue
        const lost = missingLines(entry)
        if (lost > 0 && this.#parts.now() - entry.event.at < LATE_MS) return "pending"
        if (this.#isHeld(entry)) return "held"
        const line = this.#line(entry)
        if (line !== null) return { line, role: entry.role, fence: entry.fence }
      }
      if (this.#isAtEnd) return null
      if (this.#read >= MAX_EVENTS) return "bound"
      await this.fill()
    }
  }

  take(): void {
    const { seq, idempotency_key } = this.#entries[this.#next++]!.event
    this.#after = { seq, place: Number(idempotency_key.slice(idempotency_key.lastIndexOf(":") + 1)) }
  }

  /** No row is left that the held end could wait for. */
  release(): void {
    this.#released = this.#entries[this.#next]!
  }

  /** The next line before the first row of an attempt, and what has been shown with it. */
  async start({ row, at }: HandlerHead): Promise<{ readonly line: Unplaced | null; readonly begun: Begun }> {
    const { nodeId, item, fence, attempt, run } = row
    const time = Number.isFinite(at) ? at : null
    const of = { node: nodeId, ...(item >= 0 && { item }), attempt }
    const startedAs = (message: string) => {
      const line = { at: time ?? 0, level: "info", source: "engine", ...of, message } as const
      return { line: time !== null && isSelected(line, this.#filter) ? line : null, begun: 2 } as const
    }
    // Facts do not record it: the task was sent again.
    if (run > 1) return startedAs("started again")
    const isOfIt = ({ event, fence: of }: Entry) =>
      of === fence && event.node === nodeId && (event.item ?? -1) === item
    const ahead = () => this.#entries.slice(this.#next).filter(isOfIt)
    while (!this.#isAtEnd && this.#read < MAX_EVENTS && !ahead().some(({ role }) => role === "start"))
      await this.#readMore()
    const found = ahead()
    for (const entry of found) {
      if (this.#isShown(entry) || (entry.role !== "dispatch" && entry.role !== "start")) continue
      this.#shown.add(entry.event)
      const line = this.#isWanted(entry.event) ? this.#line(entry) : null
      if (line !== null) return { line, begun: entry.role === "start" ? 2 : 1 }
    }
    const isKnown = found.some(({ role }) => role === "start" || role === "end")
    if (isKnown || (await this.#hasStarted(row))) return { line: null, begun: 2 }
    // Facts do not record it yet, or never will: the process died first.
    return startedAs("started")
  }

  /** According to facts up to the last event that was read. */
  async #hasStarted({ nodeId, item, fence }: HandlerHead["row"]): Promise<boolean> {
    const seq = this.#entries.at(-1)?.event.seq ?? this.#after.seq
    const state = await this.#parts.state(this.#jobId, seq)
    const node = nodePositions(state.graph).get(nodeId)!
    if (fenceIn(state, node, item >= 0 ? item : undefined) !== fence) return false
    return (item >= 0 ? state.lists.get(node)!.state.startedAt[item]! : state.startedAt[node]!) > 0
  }

  async #readMore(): Promise<void> {
    const query = { after: this.#end, limit: EVENTS, maxBytes: BYTES, withFences: true }
    const { events, next, fences } = await this.#parts.events(this.#jobId, query)
    this.#read += events.length
    const entries = events.map((event, n) => ({ event, role: eventRole(event), fence: fences?.[n] }))
    const hasRows = await this.#hasStoredRows()
    const asked = entries.filter(
      ({ event, role, fence }) =>
        (hasRows || event.payload.logged !== undefined) &&
        role !== null &&
        fence !== undefined &&
        this.#isWanted(event),
    )
    const attempts = asked.map(({ event, fence }) => {
      const { node, item = -1 } = event
      const runId = readLogged(event)?.run
      return { nodeId: node!, item, fence: fence!, attempt: eventAttempt(event) ?? 0, runId }
    })
    const found = asked.length === 0 ? [] : await this.#parts.journal.logs.extents(this.#jobId, attempts)
    const extents = new Map(asked.map(({ event }, n) => [event, found[n]!]))
    for (const entry of entries) this.#entries.push({ ...entry, extent: extents.get(entry.event) ?? null })
    if (next === null) this.#isAtEnd = true
    this.#end = next ?? this.#end
  }

  /** Most jobs log nothing. Then only an end that names lines depends on what is stored. */
  async #hasStoredRows(): Promise<boolean> {
    if (!this.#hasRows) {
      const query = { ...rowQuery(this.#jobId, {}), from: 0, limit: 1, maxBytes: 1 }
      this.#hasRows = (await this.#parts.journal.logs.read(query)).length > 0
    }
    return this.#hasRows
  }

  #isShown({ event, role, extent }: Entry): boolean {
    if (role !== "dispatch" && role !== "start") return false
    return this.#shown.has(event) || this.#rows.begunAt(extent?.first ?? null) >= (role === "start" ? 2 : 1)
  }

  #isHeld(entry: Entry): boolean {
    const { role, extent } = entry
    if (role !== "end" || extent === null || this.#filter.source !== undefined) return false
    return entry !== this.#released && !this.#rows.hasPassed(extent.last)
  }

  #isWanted(event: JobEvent): boolean {
    const { node, item, attempt } = this.#filter
    if (node !== undefined && event.node !== node) return false
    if (item !== undefined && (event.item ?? -1) !== item) return false
    return (
      (attempt === undefined || eventAttempt(event) === attempt) && !isLater(eventTime(event), this.#filter)
    )
  }

  #line(entry: Entry): Unplaced | null {
    const { event, role, extent } = entry
    if (!this.#isWanted(event)) return null
    const line = engineLine(event)
    if (line === null) return null
    const lost = missingLines(entry)
    const level = lost > 0 && line.level === "info" ? "warn" : line.level
    if (logLevels.indexOf(level) < this.#least) return null
    const attempt = eventAttempt(event)
    const isAgain = role === "start" && extent?.isRepeated === true
    return {
      ...{ at: eventTime(event), level, source: "engine", node: event.node! },
      ...(event.item !== undefined && { item: event.item }),
      ...(attempt !== undefined && { attempt }),
      message: isAgain ? line.message.replace("started", "started again") : line.message,
      ...(lost > 0 && { lost }),
    }
  }
}

function eventRole({ node, type, payload }: JobEvent): Role {
  if (node === undefined) return null
  switch (type.replace(/^item\./, "node.")) {
    case "node.queued":
      if (payload.reason === "dependencies_done" || payload.reason === "job_retried") return "dispatch"
      return payload.reason === "lost" || payload.reason === "handed_over" ? null : "end"
    case "node.running":
      return "start"
    case "node.waiting":
    case "node.completed":
    case "node.failed":
    case "node.cancelled":
    case "attempt.lost":
      return "end"
    default:
      return null
  }
}

/** How many lines at the end of the attempt are not stored. */
function missingLines({ event, extent }: Entry): number {
  const logged = readLogged(event)
  return logged === undefined || extent === null ? 0 : Math.max(0, logged.lines - extent.lastLine)
}

function readLogged({ payload }: JobEvent) {
  return payload.logged as { readonly lines: number; readonly run?: number } | undefined
}

/** A start may be stored seconds later. */
function eventTime(event: JobEvent): number {
  const { at, payload } = event
  const { started_at } = payload
  return eventRole(event) === "start" && typeof started_at === "number" ? started_at : at
}

/** The event of a retry has the number of the next attempt; its line is about the one that failed. */
function eventAttempt({ attempt, payload }: JobEvent): number | undefined {
  return attempt !== undefined && payload.reason === "retry" ? Math.max(1, attempt - 1) : attempt
}
