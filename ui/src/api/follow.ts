/**
 * Follows the facts of a job: pages first, then the stream, for as long as the page is open.
 *
 * 1. After a lost connection it resumes after the last fact that is known: none is missed, none is added twice
 *    (`Timeline.append` ignores what it has).
 * 2. A tab that has been hidden for a minute closes its stream, and resumes when it is shown again.
 * 3. A job that has ended is not followed. It is read again when the tab is shown, and after a command.
 */
import type { CompiledGraph, FactRecord, LiveGraph } from "../../../src/core/index.ts"
import type { JsonSource, JsonValue } from "../model/json/document.ts"
import type {
  ArtifactPage,
  ConfigOptions,
  Connection,
  JobSource,
  RenderedConfig,
  Routes,
  WhyAnswer,
  WhyOptions,
} from "../model/source.ts"
import { Timeline } from "../model/timeline.ts"
import { ApiError, ask, buildUrl, jobPath, ownHeaders } from "./http.ts"
import { readStream } from "./stream.ts"

interface FactPage {
  readonly facts: readonly FactRecord[]
  readonly next: string | null
}

const PAGE = 1000
const HIDDEN_MS = 60_000
const FIRST_RETRY_MS = 1000
const LONGEST_RETRY_MS = 30_000
const ended = new Set(["COMPLETED", "FAILED", "CANCELLED", "EXPIRED", "DELETED"])

export class Follower implements JobSource {
  readonly jobId: string
  timeline: Timeline | null = null
  connection: Connection = { kind: "loading" }
  error: unknown = null
  /** The clock of the server minus that of this machine, as far as it is known. */
  skewMs = 0
  /** Rises with each change. */
  version = 0
  readonly hasLogs = true
  readonly #listeners = new Set<() => void>()
  #stream: AbortController | null = null
  #pending: FactRecord[] = []
  #cancelFlush: (() => void) | null = null
  #retryTimer: ReturnType<typeof setTimeout> | undefined
  #hiddenTimer: ReturnType<typeof setTimeout> | undefined
  #lostSince: number | null = null
  #tries = 0
  #isClosed = false
  readonly #stop = new AbortController()

  constructor(jobId: string) {
    this.jobId = jobId
    document.addEventListener("visibilitychange", this.#visibility)
    void this.#load()
  }

  close(): void {
    this.#isClosed = true
    this.#stop.abort()
    this.#disconnect()
    clearTimeout(this.#hiddenTimer)
    document.removeEventListener("visibilitychange", this.#visibility)
    this.#listeners.clear()
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Reads what is new: after a command, and for a job that had ended. */
  async refresh(): Promise<void> {
    if (this.timeline === null) return this.#load()
    try {
      await this.#read(this.timeline)
      this.#connect()
    } catch (error) {
      this.#failed(error)
    }
  }

  /** Reconnects at once instead of after the wait. */
  retryNow = (): void => {
    clearTimeout(this.#retryTimer)
    if (this.timeline === null) void this.#load()
    else this.#connect()
  }

  payload(seq: number, field: string): JsonSource {
    return {
      address: buildUrl(this.#path(`payloads/${seq}/${encodeURIComponent(field)}`)),
      headers: ownHeaders(),
    }
  }

  config(node: string, { item, attempt }: ConfigOptions): Promise<RenderedConfig> {
    return ask<RenderedConfig>(this.#path(`nodes/${encodeURIComponent(node)}/config`), {
      query: { item, attempt },
    })
  }

  why({ node, seq, signal }: WhyOptions): Promise<WhyAnswer> {
    return ask<WhyAnswer>(this.#path("why"), { query: { node, at: seq }, signal })
  }

  async routes(seq: number | null, signal: AbortSignal): Promise<Routes> {
    const { routes, dead_letters } = await ask<Partial<Routes>>(this.#path("graph"), {
      query: { at: seq },
      signal,
    })
    return { routes: routes ?? null, dead_letters: dead_letters ?? null }
  }

  artifacts(after: string | null, signal: AbortSignal): Promise<ArtifactPage> {
    return ask<ArtifactPage>(this.#path("artifacts"), { query: { after, limit: PAGE }, signal })
  }

  async items(node: string, from: number, limit: number): Promise<readonly JsonValue[]> {
    const path = this.#path(`nodes/${encodeURIComponent(node)}/items`)
    const query = { limit, after: from === 0 ? undefined : from - 1 }
    const { items } = await ask<{ items: readonly { item: JsonValue }[] }>(path, {
      query,
      signal: this.#stop.signal,
    })
    return items.map(({ item }) => item)
  }

  #path(rest: string): string {
    return `${jobPath(this.jobId)}/${rest}`
  }

  get now(): number {
    return Date.now() + this.skewMs
  }

  #changed(): void {
    this.version++
    for (const listener of this.#listeners) listener()
  }

  async #load(): Promise<void> {
    this.error = null
    this.#set({ kind: "loading" })
    try {
      const [first, graph] = await Promise.all([
        this.#page(undefined),
        ask<CompiledGraph>(this.#path("compiled-graph"), { signal: this.#stop.signal }),
      ])
      if (first.facts.length === 0) throw new ApiError("The job has no facts.", {})
      const timeline = new Timeline(graph)
      timeline.append(first.facts)
      if (first.next !== null) await this.#read(timeline, first.next)
      if (this.#isClosed) return
      this.timeline = timeline
      this.#connect()
    } catch (error) {
      this.#failed(error)
    }
  }

  #failed(error: unknown): void {
    if (this.#isClosed) return
    this.error = error
    this.#changed()
  }

  async #read(timeline: Timeline, from?: string): Promise<void> {
    let after: string | undefined = from ?? (timeline.lastSeq < 0 ? undefined : String(timeline.lastSeq))
    for (;;) {
      const page = await this.#page(after)
      timeline.append(page.facts)
      if (page.next === null) return
      after = page.next
      // A frame between two pages: long journals must not block the tab.
      await new Promise(done => setTimeout(done, 0))
    }
  }

  #page(after: string | undefined): Promise<FactPage> {
    return ask<FactPage>(this.#path("facts"), {
      query: { limit: PAGE, after },
      signal: this.#stop.signal,
    })
  }

  #set(connection: Connection): void {
    this.connection = connection
    this.#changed()
  }

  #connect(): void {
    this.#disconnect()
    if (this.#isClosed || this.timeline === null) return
    const { status } = this.timeline.stateAt(this.timeline.length)
    if (ended.has(status)) {
      this.timeline.live = null
      this.#lostSince = null
      this.#tries = 0
      this.#set({ kind: "ended" })
      return
    }
    const stream = new AbortController()
    this.#stream = stream
    const lost = () => stream.signal.aborted || this.#lost()
    readStream({
      address: buildUrl(this.#path("facts"), { follow: "true", last_event_id: this.timeline.lastSeq }),
      signal: stream.signal,
      onOpen: () => {
        this.#lostSince = null
        this.#tries = 0
        this.#set({ kind: "live" })
      },
      onEvent: (event, data) => this.#told(event, data),
    }).then(lost, lost)
  }

  #told(event: string, data: unknown): void {
    if (event === "fact") {
      this.#pending.push(data as FactRecord)
      this.#schedule()
    } else if (event === "live") {
      const live = data as LiveGraph
      this.skewMs = live.at - Date.now()
      this.timeline!.live = live
      this.#schedule()
    } else if (event === "end") {
      this.#flush()
      if ((data as { reason: string }).reason === "server_stopping") this.#lost()
      else this.#connect()
    }
  }

  #lost(): void {
    this.#flush()
    this.#disconnect()
    if (this.#isClosed) return
    this.#tries++
    this.#lostSince ??= this.now
    if (this.timeline !== null) this.timeline.live = null
    const delay = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(10, this.#tries - 1))
    this.#retryTimer = setTimeout(() => this.#connect(), delay)
    this.#set({ kind: "lost", since: this.#lostSince, tries: this.#tries, nextAt: Date.now() + delay })
  }

  #disconnect(): void {
    clearTimeout(this.#retryTimer)
    this.#stream?.abort()
    this.#stream = null
  }

  /** Facts that arrive together are shown together. A hidden tab has no frames. */
  #schedule(): void {
    if (this.#cancelFlush !== null) return
    const flush = () => this.#flush()
    if (document.hidden) {
      const timer = setTimeout(flush, 250)
      this.#cancelFlush = () => clearTimeout(timer)
    } else {
      const frame = requestAnimationFrame(flush)
      this.#cancelFlush = () => cancelAnimationFrame(frame)
    }
  }

  #flush(): void {
    this.#cancelFlush?.()
    this.#cancelFlush = null
    if (this.timeline === null) return
    this.timeline.append(this.#pending)
    this.#pending = []
    this.#changed()
  }

  readonly #visibility = (): void => {
    clearTimeout(this.#hiddenTimer)
    if (document.hidden) {
      this.#hiddenTimer = setTimeout(() => {
        if (this.connection.kind === "ended" || this.connection.kind === "loading") return
        this.#disconnect()
        this.#set({ kind: "hidden" })
      }, HIDDEN_MS)
      return
    }
    if (this.connection.kind === "hidden") this.#connect()
    else if (this.connection.kind === "ended") void this.refresh()
  }
}
