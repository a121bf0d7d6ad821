/**
 * A live stream that survives lost connections.
 *
 * 1. After a lost connection it resumes after the last event that the caller received: no state change is missed or
 *    repeated.
 * 2. It ends when the server ends it, when the caller stops, or with an error: at once if the server rejects it, and after
 *    the configured patience if the server is unavailable.
 * 3. A connection without a heartbeat counts as lost.
 */
import { NOT_REACHABLE, NOT_UMBRA, notUmbraError, UmbraClientError } from "./error.ts"
import { backoffMs, type Http, isAway, pause } from "./http.ts"
import { type SseMessage, SseParser } from "./sse.ts"
import type { Signalled } from "./types.ts"

export interface StreamOptions extends Signalled {
  /** `id` of the last event that was received: the stream resumes after it. */
  readonly lastEventId?: string
  /** Called when the connection was lost and will be opened again. */
  readonly onReconnect?: (why: { readonly error: unknown; readonly tries: number }) => void
}

interface Event {
  readonly type: string
  readonly id: string | null
  readonly data: unknown
}

/** The default of the server. */
const RETRY_MS = 1000
const LONGEST_RETRY_MS = 30_000
const known = new Set(["snapshot", "job", "node", "progress", "reset", "end", "fact", "live", "fire", "line"])

export async function* resumingStream<E extends Event>(
  http: Http,
  path: string,
  options: StreamOptions = {},
): AsyncGenerator<E, void, undefined> {
  const { signal } = options
  const position = { id: options.lastEventId ?? null, retryMs: RETRY_MS }
  let failedSince: number | null = null
  let tries = 0
  let wasConnected = false
  for (;;) {
    let lost: unknown
    try {
      for await (const event of connection(http, path, position, signal)) {
        wasConnected = true
        failedSince = null
        tries = 0
        if (event.type !== "end") yield event as E
        else if ((event.data as { reason?: string }).reason !== "server_stopping") {
          yield event as E
          return
        }
      }
    } catch (error) {
      lost = error
    }
    if (signal?.aborted) return
    tries++
    failedSince ??= Date.now()
    const isOver = wasConnected
      ? Date.now() - failedSince > http.settings.patienceMs
      : tries > http.settings.retries
    if (lost !== undefined && !isTransient(lost)) throw lost
    if (isOver) throw lost ?? endless(http.url)
    options.onReconnect?.({ error: lost, tries })
    const wanted = (lost instanceof UmbraClientError ? lost.retryAfterMs : null) ?? 0
    // Before the first answer a person waits: a wrong address must be reported soon.
    const initialMs = wasConnected ? position.retryMs : http.settings.retryMs
    const delay = Math.max(wanted, backoffMs({ initialMs, maxMs: LONGEST_RETRY_MS }, tries))
    await pause(delay, signal).catch(() => {})
    if (signal?.aborted) return
  }
}

function endless(url: string): UmbraClientError {
  return new UmbraClientError(`${url} closes every stream before it sends an event.`, {
    code: NOT_REACHABLE,
  })
}

function isTransient(error: unknown): boolean {
  return error instanceof UmbraClientError && isAway(error)
}

/** One connection, until it ends or is lost. `position` advances with every event that the caller has received. */
async function* connection(
  http: Http,
  path: string,
  position: { id: string | null; retryMs: number },
  signal: AbortSignal | undefined,
): AsyncGenerator<Event, void, undefined> {
  const cut = new AbortController()
  const abort = () => cut.abort(signal?.reason)
  if (signal?.aborted) abort()
  signal?.addEventListener("abort", abort, { once: true })
  const { silenceMs, timeoutMs } = http.settings
  const watch = new Silence(silenceMs, () => cut.abort())
  const answer = new Silence(Math.min(silenceMs, timeoutMs), () => cut.abort())
  try {
    const { id } = position
    const headers = {
      accept: "text/event-stream",
      ...(id === null || id === "" ? {} : { "last-event-id": id }),
    }
    const response = await answer.over(http.send(path, { headers }, cut.signal))
    if (!/^text\/event-stream/i.test(response.headers.get("content-type") ?? "") || response.body === null)
      throw notUmbraError(response)
    yield* events(response.body.getReader(), position, watch)
  } catch (error) {
    if (signal?.aborted || error instanceof UmbraClientError) throw error
    throw new UmbraClientError(`The connection to ${http.url} was lost: ${(error as Error).message}.`, {
      code: NOT_REACHABLE,
      cause: error,
    })
  } finally {
    signal?.removeEventListener("abort", abort)
    // Also when the caller stops early: the server must not send to a client that does not read.
    cut.abort()
  }
}

async function* events(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  position: { id: string | null; retryMs: number },
  watch: Silence,
): AsyncGenerator<Event, void, undefined> {
  const parser = new SseParser()
  for (;;) {
    const { done, value } = await watch.over(reader.read())
    if (done) return
    const messages = parser.push(value)
    if (parser.retryMs !== null) position.retryMs = Math.max(1, parser.retryMs)
    let before = position.id
    for (const message of messages) {
      const event = parseEvent(message, before)
      before = message.lastEventId === "" ? before : message.lastEventId
      // Set before the event is yielded: a caller that stops after it has received it.
      position.id = before
      if (event !== null) yield event
    }
  }
}

/** null: an unknown kind, which a later release may send. */
function parseEvent({ event, data, lastEventId }: SseMessage, before: string | null): Event | null {
  if (!known.has(event)) return null
  const hasOwnId = lastEventId !== "" && lastEventId !== before
  return { type: event, id: hasOwnId ? lastEventId : null, data: parseJson(data) }
}

function parseJson(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch (cause) {
    throw new UmbraClientError("The server sent an event that is not JSON.", { code: NOT_UMBRA, cause })
  }
}

/** Limits the wait for the next bytes. Time that the caller takes does not count. */
class Silence {
  readonly #ms: number
  readonly #onSilence: () => void

  constructor(ms: number, onSilence: () => void) {
    this.#ms = ms
    this.#onSilence = onSilence
  }

  async over<T>(waiting: Promise<T>): Promise<T> {
    const timer = setTimeout(this.#onSilence, this.#ms)
    try {
      return await waiting
    } finally {
      clearTimeout(timer)
    }
  }
}
