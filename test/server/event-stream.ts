/** A client of a live stream over a socket of its own, which a test may cut where it likes. */
import { type ClientRequest, type IncomingMessage, request } from "node:http"

export interface StreamEvent {
  readonly event: string
  readonly id: string | null
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects.
  readonly data: any
}

export interface StreamOptions {
  readonly token?: string
  readonly lastEventId?: string | null
  /** Reads nothing until it is told to. */
  readonly isPaused?: boolean
}

export class EventStream {
  readonly events: StreamEvent[] = []
  readonly comments: string[] = []
  status = 0
  headers: IncomingMessage["headers"] = {}
  lastEventId: string | null
  /** Bytes after which the connection is cut, wherever that is. */
  cutAfterBytes = Number.POSITIVE_INFINITY
  isClosed = false
  #request: ClientRequest
  #text = ""
  #bytes = 0
  readonly #waiting = new Set<() => void>()

  constructor(url: string, path: string, options: StreamOptions = {}) {
    this.lastEventId = options.lastEventId ?? null
    this.#request = request(`${url}${path}`, {
      agent: false,
      headers: {
        ...(options.token === undefined ? {} : { authorization: `Bearer ${options.token}` }),
        ...(this.lastEventId === null ? {} : { "last-event-id": this.lastEventId }),
      },
    })
    const closed = () => {
      this.isClosed = true
      this.#news()
    }
    this.#request.on("response", response => {
      this.status = response.statusCode ?? 0
      this.headers = response.headers
      response.on("close", closed).on("error", closed)
      if (!options.isPaused) response.setEncoding("utf8").on("data", (text: string) => this.#read(text))
      this.#news()
    })
    this.#request.on("error", closed)
    this.#request.end()
  }

  cut(): void {
    this.#request.destroy()
    this.isClosed = true
    this.#news()
  }

  /** Resolves when it is so; rejects when the connection has ended without it. */
  async until(isSo: () => boolean, what = "it"): Promise<void> {
    while (!isSo()) {
      if (this.isClosed) throw new Error(`the stream ended without ${what}: ${JSON.stringify(this.events)}`)
      await new Promise<void>(resolve => this.#waiting.add(resolve))
    }
  }

  async ended(): Promise<void> {
    while (!this.isClosed) await new Promise<void>(resolve => this.#waiting.add(resolve))
  }

  of(event: string): StreamEvent[] {
    return this.events.filter(found => found.event === event)
  }

  #news(): void {
    for (const wake of this.#waiting) wake()
    this.#waiting.clear()
  }

  #read(text: string): void {
    if (this.isClosed) return
    const left = this.cutAfterBytes - this.#bytes
    this.#bytes += text.length
    this.#text += text.slice(0, Math.max(0, left))
    for (let end = this.#text.indexOf("\n\n"); end !== -1; end = this.#text.indexOf("\n\n")) {
      this.#take(this.#text.slice(0, end))
      this.#text = this.#text.slice(end + 2)
    }
    if (text.length > left) this.cut()
    this.#news()
  }

  #take(block: string): void {
    const fields = new Map(block.split("\n").map(line => line.split(/: (.*)/s, 2) as [string, string]))
    const comment = fields.get("")
    if (comment !== undefined) this.comments.push(comment)
    const id = fields.get("id") ?? null
    if (id !== null) this.lastEventId = id
    const event = fields.get("event")
    if (event !== undefined) this.events.push({ event, id, data: JSON.parse(fields.get("data") ?? "null") })
  }
}
