/**
 * A part of the stored lines of handlers, without gaps, that grows at both ends.
 *
 * 1. A page that was read for another place or moment is not added.
 * 2. It has at most MOST lines: what grows at one end is dropped at the other, and can be read again.
 */
import { ask, buildUrl, jobPath } from "../../../api/http.ts"
import { readStream } from "../../../api/stream.ts"

export interface LogLine {
  readonly id: string
  readonly at: number
  readonly level: string
  readonly item?: number
  readonly message: string
  readonly fields?: { readonly [name: string]: unknown }
  readonly line?: number
  readonly lost?: number
}

interface LogPage {
  readonly lines: readonly LogLine[]
  readonly next: string | null
  readonly pending?: true
}

export interface LogFilter {
  readonly node: string
  readonly item: number | null
  readonly attempt: number | null
  readonly level: string | null
}

type Query = Record<string, string | number | null | undefined>

const PAGE = 200
const MOST = 10_000
const FIRST_RETRY_MS = 1000
const LONGEST_RETRY_MS = 30_000

const withTime = (line: LogLine) => ({ ...line, at: Date.parse(line.at as never) })

async function readPage(jobId: string, query: Query, signal: AbortSignal): Promise<LogPage> {
  const { lines, ...page } = await ask<LogPage>(`${jobPath(jobId)}/logs`, { query, signal })
  return { lines: lines.map(withTime), ...page }
}

export class LogReader {
  lines: readonly LogLine[] = []
  /** Where the page before begins; null: the first line is here. */
  older: string | null = null
  /** Later lines are stored, up to the time that was opened. */
  hasNewer = false
  error: unknown = null
  /** How often a place was opened; 0: none is open. */
  opened = 0
  /** The line that was opened; null: the end, or the beginning. */
  target: string | null = null
  isAtStart = false
  readonly #jobId: string
  readonly #filter: LogFilter
  readonly #changed: () => void
  #until: number | null = null
  #reading = new AbortController()
  #isReading = false
  #stream: AbortController | null = null
  #retryTimer: ReturnType<typeof setTimeout> | undefined
  #arrived: LogLine[] = []
  #flushing: ReturnType<typeof setTimeout> | undefined

  constructor(jobId: string, filter: LogFilter, changed: () => void) {
    this.#jobId = jobId
    this.#filter = filter
    this.#changed = changed
  }

  close(): void {
    this.#reading.abort()
    this.unfollow()
  }

  has(id: string): boolean {
    return this.lines.some(line => line.id === id)
  }

  /** Whether the last lines before this time, or the newest ones, are here. */
  covers(until: number | null): boolean {
    if (this.opened === 0) return false
    if (until === null) return this.#isWhole
    return (
      (this.older === null || this.lines.some(({ at }) => at <= until)) &&
      (this.#isWhole || until === this.#until || this.lines.some(({ at }) => at > until))
    )
  }

  /** The newest line is here. */
  get #isWhole(): boolean {
    return this.#until === null && !this.hasNewer
  }

  /** `place`: the id of a line, with those around it. */
  open(place: string, until: number | null): Promise<void> {
    this.#reading.abort()
    this.#reading = new AbortController()
    this.unfollow()
    this.#until = until
    return this.#read(async page => {
      const isLine = place !== "start" && place !== "end"
      let found: LogPage = { lines: [], next: null }
      if (place !== "start") found = await page({ before: place })
      const before = found.next
      let lines = found.lines
      this.hasNewer = false
      if (place !== "end") {
        found = await page({ after: lines.at(-1)?.id })
        lines = [...lines, ...found.lines]
        this.hasNewer = found.next !== null
      }
      this.lines = lines
      this.older = before
      this.target = isLine ? place : null
      this.isAtStart = place === "start"
      this.opened++
    })
  }

  readOlder(): void {
    const { older } = this
    if (this.#isReading || older === null) return
    void this.#read(async page => {
      const { lines, next } = await page({ before: older })
      this.older = next
      this.lines = [...lines, ...this.lines]
      if (this.lines.length <= MOST) return
      this.unfollow()
      this.lines = this.lines.slice(0, MOST)
      this.hasNewer = true
    })
  }

  readNewer(): void {
    if (this.#isReading || !this.hasNewer) return
    void this.#read(async page => {
      const { lines, next } = await page({ after: this.lines.at(-1)?.id })
      this.hasNewer = next !== null
      this.#add(lines)
    })
  }

  /** The stream of new lines, if all others are here. */
  follow(): void {
    if (this.#stream !== null || this.opened === 0 || !this.#isWhole) return
    this.#connect(0)
  }

  unfollow(): void {
    clearTimeout(this.#retryTimer)
    this.#flush()
    this.#stream?.abort()
    this.#stream = null
  }

  #connect(tries: number): void {
    const stream = new AbortController()
    this.#stream = stream
    let isOver = false
    let isOpen = false
    const closed = () => {
      if (stream.signal.aborted) return
      this.#flush()
      this.#stream = null
      const delay = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(10, isOpen ? 0 : tries))
      if (!isOver) this.#retryTimer = setTimeout(() => this.#connect(tries + 1), delay)
    }
    readStream({
      address: buildUrl(`${jobPath(this.#jobId)}/logs`, {
        ...this.#query(),
        follow: "true",
        after: this.lines.at(-1)?.id,
      }),
      signal: stream.signal,
      onOpen: () => {
        isOpen = true
      },
      onEvent: (event, data) => {
        if (stream.signal.aborted) return
        if (event === "end") isOver = (data as { reason: string }).reason !== "server_stopping"
        else this.#arrive(data as LogLine)
      },
    }).then(closed, closed)
  }

  /** Lines that arrive together are shown together. */
  #arrive(line: LogLine): void {
    this.#arrived.push(withTime(line))
    this.#flushing ??= setTimeout(() => this.#flush(), 50)
  }

  #flush(): void {
    clearTimeout(this.#flushing)
    this.#flushing = undefined
    if (this.#arrived.length === 0) return
    this.#add(this.#arrived)
    this.#arrived = []
    this.#changed()
  }

  #add(lines: readonly LogLine[]): void {
    this.lines = [...this.lines, ...lines]
    if (this.lines.length <= MOST) return
    this.lines = this.lines.slice(-MOST)
    this.older = this.lines[0]!.id
  }

  async #read(step: (page: (query: Query) => Promise<LogPage>) => Promise<void>): Promise<void> {
    const { signal } = this.#reading
    this.#isReading = true
    this.error = null
    try {
      await step(query => this.#page(query, signal))
    } catch (error) {
      if (signal.aborted) return
      this.error = error
    }
    this.#isReading = false
    this.#changed()
  }

  /** A page of the server is bounded work: one without lines need not be the last. */
  async #page(query: Query, signal: AbortSignal): Promise<LogPage> {
    const until = this.#until === null ? null : new Date(this.#until).toISOString()
    for (let more = query; ; ) {
      const page = await readPage(this.#jobId, { ...this.#query(), until, limit: PAGE, ...more }, signal)
      signal.throwIfAborted()
      if (page.lines.length > 0 || page.next === null) return page
      more = "before" in query ? { before: page.next } : { after: page.next }
    }
  }

  #query(): Query {
    return { ...this.#filter, source: "handler" }
  }
}

/** What the engine did with the attempt: few lines, read again from the last one on. */
export class EngineLines {
  lines: readonly LogLine[] = []
  /** More are certain, whether or not there is another fact. */
  isPending = false
  readonly #jobId: string
  readonly #filter: LogFilter
  #after: string | undefined
  #isReading = false

  constructor(jobId: string, filter: LogFilter) {
    this.#jobId = jobId
    this.#filter = filter
  }

  /** Whether there are more. */
  async read(signal: AbortSignal): Promise<boolean> {
    if (this.#isReading) return false
    this.#isReading = true
    const known = this.lines.length
    try {
      for (;;) {
        const query = { ...this.#filter, source: "engine", limit: 1000, after: this.#after }
        const { lines, next, pending = false } = await readPage(this.#jobId, query, signal)
        this.isPending = pending
        this.#after = next ?? lines.at(-1)?.id ?? this.#after
        this.lines = [...this.lines, ...lines]
        if (next === null) return this.lines.length > known
      }
    } finally {
      this.#isReading = false
    }
  }
}
