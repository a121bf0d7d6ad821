import { randomUUID } from "node:crypto"
import type { JournalFeed } from "../../journal/port/feed.ts"
import { SingleFlight } from "../single-flight.ts"
import type { Overlay, OverlayQuery } from "./live-overlay.ts"

/**
 * Live overlays of jobs that other processes own. Query and answer travel as notifications of the store's feed:
 * nothing is stored. Without an answer within `ANSWER_MS`, or the given time, the result is null.
 *
 * 1. One query for the same overlay is in flight at a time, however many callers there are.
 * 2. Only the owner of the job's partition answers.
 */
export class RemoteOverlays {
  readonly #feed: JournalFeed
  readonly #answer: (query: OverlayQuery) => Overlay | null
  readonly #queries = new SingleFlight<Overlay | null>()
  readonly #waiting = new Map<string, Waiting>()
  readonly #id = randomUUID().slice(0, 13)
  #queryCount = 0
  #listening: Promise<() => Promise<void>> | null = null

  /** `answer`: null, if this process does not own the job. */
  constructor(feed: JournalFeed, answer: (query: OverlayQuery) => Overlay | null) {
    this.#feed = feed
    this.#answer = answer
  }

  async start(): Promise<void> {
    if (this.#feed.listen === null) return
    this.#listening ??= this.#feed.listen(text => this.#receive(text))
    await this.#listening
  }

  async stop(): Promise<void> {
    const listening = this.#listening
    this.#listening = null
    for (const { resolve } of this.#waiting.values()) resolve(null)
    await (await listening)?.()
  }

  query(query: OverlayQuery, patienceMs = ANSWER_MS): Promise<Overlay | null> {
    if (this.#feed.listen === null) return Promise.resolve(null)
    const key = `${patienceMs} ${JSON.stringify(query)}`
    const answer = this.#queries.run(key, () => this.#send(query, patienceMs))
    return withinTime(answer, patienceMs)
  }

  async #send(query: OverlayQuery, patienceMs: number): Promise<Overlay | null> {
    await this.start()
    const id = `${this.#id}-${++this.#queryCount}`
    const answer = new Promise<Overlay | null>(resolve =>
      this.#waiting.set(id, { parts: new Map(), resolve }),
    )
    this.#feed.notify(`${ASK} ${id} ${JSON.stringify(query)}`)
    return withinTime(answer, patienceMs).finally(() => this.#waiting.delete(id))
  }

  /** The channel is shared: text that cannot be parsed here is neither a query nor an answer and is ignored. */
  #receive(text: string): void {
    const [word, id = "", at, count] = text.split(" ", 4)
    try {
      if (word === ASK) this.#reply(id, text.slice(`${ASK} ${id} `.length))
      else if (word === ANSWER)
        this.#addPart(id, Number(at), Number(count), text.slice(`${ANSWER} ${id} ${at} ${count} `.length))
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error
    }
  }

  #reply(id: string, query: string): void {
    if (id.startsWith(this.#id)) return
    const overlay = this.#answer(JSON.parse(query) as OverlayQuery)
    if (overlay === null) return
    const parts = slices(ascii(JSON.stringify(overlay)))
    for (const [at, part] of parts.entries())
      this.#feed.notify(`${ANSWER} ${id} ${at} ${parts.length} ${part}`)
  }

  #addPart(id: string, at: number, count: number, part: string): void {
    const waiting = this.#waiting.get(id)
    if (waiting === undefined) return
    waiting.parts.set(at, part)
    if (waiting.parts.size < count) return
    const parts = Array.from({ length: count }, (_, place) => waiting.parts.get(place))
    waiting.resolve(JSON.parse(parts.join("")) as Overlay)
  }
}

interface Waiting {
  readonly parts: Map<number, string>
  readonly resolve: (overlay: Overlay | null) => void
}

function withinTime(answer: Promise<Overlay | null>, patienceMs: number): Promise<Overlay | null> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(null), patienceMs)
    answer.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

/** Escapes non-ASCII: the limit of a notification is in bytes, and a slice must not cut a character. */
function ascii(text: string): string {
  return text.replace(/[\u0080-\uffff]/g, c => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)
}

function slices(text: string): string[] {
  const found: string[] = []
  for (let from = 0; from < text.length; from += MAX_BYTES) found.push(text.slice(from, from + MAX_BYTES))
  return found
}

const ASK = "live?"
const ANSWER = "live!"
const ANSWER_MS = 500
/** PostgreSQL accepts 7,999 bytes; the rest is for the prefix. */
const MAX_BYTES = 7800
