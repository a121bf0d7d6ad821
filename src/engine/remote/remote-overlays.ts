import { randomUUID } from "node:crypto"
import type { JournalFeed } from "../../journal/port/feed.ts"
import { SingleFlight } from "../single-flight.ts"
import type { DispatchedAnswer, DispatchedQuery } from "./dispatched-jobs.ts"
import type { LiveMessages, MessagesQuery } from "./live-messages.ts"
import type { Overlay, OverlayQuery } from "./live-overlay.ts"

/**
 * What only the owners of jobs know: live overlays, messages in flight, and which jobs were dispatched from rows. Query and answer travel as
 * notifications of the store's feed: nothing is stored. What is not answered within `ANSWER_MS`, or the given time, is
 * absent.
 *
 * 1. One query for the same thing is in flight at a time, however many callers there are.
 * 2. Only the owner of the job's partition answers; a query about many partitions is answered by each of their owners.
 */
export class RemoteOverlays {
  readonly #feed: JournalFeed
  readonly #owner: OverlayOwner
  readonly #queries = new SingleFlight<readonly unknown[]>()
  readonly #waiting = new Map<string, Waiting>()
  readonly #id = randomUUID().slice(0, 13)
  #queryCount = 0
  #listening: Promise<() => Promise<void>> | null = null

  constructor(feed: JournalFeed, owner: OverlayOwner) {
    this.#feed = feed
    this.#owner = owner
  }

  async start(): Promise<void> {
    if (this.#feed.listen === null) return
    this.#listening ??= this.#feed.listen(text => this.#receive(text))
    await this.#listening
  }

  async stop(): Promise<void> {
    const listening = this.#listening
    this.#listening = null
    for (const { resolve } of this.#waiting.values()) resolve()
    await (await listening)?.()
  }

  /** null: the owner did not answer. */
  async query(query: OverlayQuery, patienceMs = ANSWER_MS): Promise<Overlay | null> {
    const [overlay = null] = await this.#ask<Overlay>(query, answers => answers.length > 0, patienceMs)
    return overlay
  }

  /** null: the owner of the job did not answer. */
  async messages(query: MessagesQuery): Promise<LiveMessages | null> {
    const [messages = null] = await this.#ask<LiveMessages>(
      { messages: query },
      answers => answers.length > 0,
    )
    return messages
  }

  /** Asks the owners of these partitions. */
  dispatched(query: DispatchedQuery, partitions: ReadonlySet<number>): Promise<readonly DispatchedAnswer[]> {
    if (partitions.size === 0) return Promise.resolve([])
    return this.#ask<DispatchedAnswer>({ dispatched: query }, answers => {
      const answered = new Set(answers.flatMap(answer => answer.partitions))
      return [...partitions].every(partition => answered.has(partition))
    })
  }

  #ask<T>(
    query: Query,
    isComplete: (answers: readonly T[]) => boolean,
    patienceMs = ANSWER_MS,
  ): Promise<readonly T[]> {
    if (this.#feed.listen === null) return Promise.resolve([])
    const answers = this.#queries.run(`${patienceMs} ${JSON.stringify(query)}`, () =>
      this.#send(query, isComplete as IsComplete, patienceMs),
    )
    return withinTime(answers as Promise<readonly T[]>, patienceMs, () => [])
  }

  async #send(query: Query, isComplete: IsComplete, patienceMs: number): Promise<readonly unknown[]> {
    await this.start()
    const id = `${this.#id}-${++this.#queryCount}`
    const answers: unknown[] = []
    const complete = new Promise<void>(resolve =>
      this.#waiting.set(id, { parts: new Map(), answers, isComplete, resolve }),
    )
    this.#feed.notify(`${ASK} ${id} ${JSON.stringify(query)}`)
    await withinTime(complete, patienceMs, () => {})
    this.#waiting.delete(id)
    return answers
  }

  /** The channel is shared: text that cannot be parsed here is neither a query nor an answer and is ignored. */
  #receive(text: string): void {
    const [word, id = "", from = "", at, count] = text.split(" ", 5)
    try {
      if (word === ASK) this.#reply(id, text.slice(`${ASK} ${id} `.length))
      else if (word === ANSWER) {
        const part = text.slice(`${ANSWER} ${id} ${from} ${at} ${count} `.length)
        this.#addPart(id, from, { at: Number(at), count: Number(count), part })
      }
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error
    }
  }

  #reply(id: string, text: string): void {
    if (id.startsWith(this.#id)) return
    const query = JSON.parse(text) as Query
    const answer = this.#answer(query)
    if (answer === null) return
    const parts = slices(ascii(JSON.stringify(answer)))
    for (const [at, part] of parts.entries())
      this.#feed.notify(`${ANSWER} ${id} ${this.#id} ${at} ${parts.length} ${part}`)
  }

  #answer(query: Query): unknown {
    if ("dispatched" in query) return this.#owner.dispatched(query.dispatched)
    return "messages" in query ? this.#owner.messages(query.messages) : this.#owner.overlay(query)
  }

  #addPart(id: string, from: string, { at, count, part }: { at: number; count: number; part: string }): void {
    const waiting = this.#waiting.get(id)
    if (waiting === undefined) return
    const parts = waiting.parts.get(from) ?? new Map<number, string>()
    waiting.parts.set(from, parts)
    parts.set(at, part)
    if (parts.size < count) return
    const whole = Array.from({ length: count }, (_, place) => parts.get(place))
    waiting.answers.push(JSON.parse(whole.join("")))
    if (waiting.isComplete(waiting.answers)) waiting.resolve()
  }
}

/** The answers of this process; null: it does not own what the query is about. */
export interface OverlayOwner {
  overlay(query: OverlayQuery): Overlay | null
  dispatched(query: DispatchedQuery): DispatchedAnswer | null
  messages(query: MessagesQuery): LiveMessages | null
}

export const ownsNothing: OverlayOwner = {
  overlay: () => null,
  dispatched: () => null,
  messages: () => null,
}

type Query = OverlayQuery | { readonly dispatched: DispatchedQuery } | { readonly messages: MessagesQuery }

type IsComplete = (answers: readonly unknown[]) => boolean

interface Waiting {
  /** By process. */
  readonly parts: Map<string, Map<number, string>>
  readonly answers: unknown[]
  readonly isComplete: IsComplete
  readonly resolve: () => void
}

function withinTime<T>(answer: Promise<T>, patienceMs: number, otherwise: () => T): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(otherwise()), patienceMs)
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
