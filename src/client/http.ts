/**
 * HTTP requests with retries.
 *
 * 1. Requests that are safe to repeat (reads, submissions with a key, pushes) are sent again if the connection failed or
 *    a proxy reported that the server is unavailable.
 * 2. Other requests are sent again only if Umbra itself answered that it did not act: overload, shutdown, rate limit.
 * 3. `Retry-After` overrides our own backoff; a value longer than `maxDelayMs` is an error at once.
 */
import { NOT_REACHABLE, NOT_UMBRA, notUmbraError, readError, UmbraClientError } from "./error.ts"

export interface ConnectOptions {
  /** The address of the server: `http://127.0.0.1:7070`, also with a path in front of the API. */
  readonly url: string
  /** An API token: `umbra_…`. Or a function that returns one for each request, for tokens that expire. */
  readonly token?: string | (() => string | Promise<string>) | undefined
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof fetch
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Called when a request has failed and will be sent again. */
  readonly onRetry?: (why: { readonly error: UmbraClientError; readonly tries: number }) => void
  /** How often a request is sent again. Default 5. */
  readonly retries?: number
  /** The wait before the first retry; each further wait is twice as long. Default 200. */
  readonly retryMs?: number
  /** The longest wait before a retry. Default 10,000. */
  readonly maxDelayMs?: number
  /** A request without an answer fails after this time; for `wait`, its waiting time is added. Default 30,000. */
  readonly timeoutMs?: number
  /** How long `wait` and streams retry while the server is unavailable. Default 300,000; Infinity: for ever. */
  readonly patienceMs?: number
  /** A stream without data or heartbeat reconnects after this time. Default 75,000: three heartbeats. */
  readonly silenceMs?: number
}

export interface Asked {
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE"
  /** Sent as JSON, or unchanged if `contentType` is set. */
  readonly body?: unknown
  readonly contentType?: string
  /** Sent unchanged, as it is read. Instead of `body`. */
  readonly stream?: Blob | ArrayBuffer | Uint8Array | string | ReadableStream<Uint8Array>
  readonly headers?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>
  /** Sending it twice has the same effect as sending it once. Always true for reads. */
  readonly safe?: boolean
  readonly signal?: AbortSignal | undefined
  /** For this request, instead of the client's. */
  readonly timeoutMs?: number
}

const standard = {
  retries: 5,
  retryMs: 200,
  maxDelayMs: 10_000,
  timeoutMs: 30_000,
  patienceMs: 300_000,
  silenceMs: 75_000,
}

/** Codes of Umbra: the request was rejected before any effect. */
const untouched = new Set(["E611", "E612", "E614", "E632"])
const away = new Set([429, 502, 503, 504])

export class Http {
  readonly settings: typeof standard
  readonly url: string
  readonly #options: ConnectOptions
  readonly #fetch: typeof fetch

  constructor(options: ConnectOptions) {
    this.url = parseAddress(options.url)
    this.#options = options
    // Called as a plain function: the `fetch` of a browser throws if it is called as a method.
    const given = options.fetch
    this.#fetch = given === undefined ? (...asked) => fetch(...asked) : (...asked) => given(...asked)
    this.settings = { ...standard, ...defined(options) }
  }

  /** The JSON of the response; null for one without content. */
  async ask<T>(path: string, asked: Asked = {}): Promise<T> {
    const { value } = await this.answer<T>(path, asked)
    return value
  }

  async answer<T>(path: string, asked: Asked = {}): Promise<{ readonly status: number; readonly value: T }> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#once<T>(path, asked)
      } catch (error) {
        const delay = this.#delay(error, asked, tries)
        if (delay === null) throw error
        this.#options.onRetry?.({ error: error as UmbraClientError, tries })
        await pause(delay, asked.signal)
      }
    }
  }

  /** The entries of a list; pages are requested as needed. `cursor`: the parameter that takes `next` of the page before. */
  async *list<Entry>(
    path: string,
    key: string,
    { query, signal }: Pick<Asked, "query" | "signal">,
    cursor = "after",
  ): AsyncGenerator<Entry, void, undefined> {
    type Page = { readonly next: string | number | null; readonly [key: string]: unknown }
    const ask = (next?: string | number) =>
      this.ask<Page>(path, { query: { [cursor]: next, ...query }, signal })
    for await (const page of pages<string | number, Page>(ask)) yield* page[key] as readonly Entry[]
  }

  /** One try, returning the raw response; a status that is not a success is thrown as an error. */
  async send(path: string, asked: Asked, signal: AbortSignal | undefined): Promise<Response> {
    const { method = "GET", body, contentType, stream, headers, query } = asked
    const { token } = this.#options
    const bearer = typeof token === "function" ? await token() : token
    const type = body === undefined && stream === undefined ? undefined : (contentType ?? "application/json")
    let response: Response
    try {
      response = await this.#fetch(`${this.url}${path}${queryText(query)}`, {
        method,
        headers: {
          ...this.#options.headers,
          ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
          ...(type === undefined ? {} : { "content-type": type }),
          ...headers,
        },
        body: body === undefined ? null : contentType === undefined ? JSON.stringify(body) : `${body}`,
        // `duplex` is required for streams, and not in the types.
        ...(stream === undefined ? {} : ({ body: stream, duplex: "half" } as RequestInit)),
        signal: signal ?? null,
      })
    } catch (error) {
      if (signal?.aborted) throw signal.reason
      throw notReachable(this.url, error)
    }
    if (response.ok) return response
    throw await readError(response)
  }

  async #once<T>(path: string, asked: Asked): Promise<{ status: number; value: T }> {
    const limit = new Limit(asked.timeoutMs ?? this.settings.timeoutMs, asked.signal)
    try {
      const response = await this.send(path, asked, limit.signal)
      if (response.status === 204) return { status: 204, value: null as T }
      const text = await response.text()
      return { status: response.status, value: parse<T>(text, response) }
    } catch (error) {
      if (limit.isOver)
        throw notReachable(
          this.url,
          new Error(`no answer in ${(asked.timeoutMs ?? this.settings.timeoutMs) / 1000} s`),
        )
      if (asked.signal?.aborted || error instanceof UmbraClientError) throw error
      throw notReachable(this.url, error)
    } finally {
      limit.clear()
    }
  }

  /** null: it is not sent again. */
  #delay(error: unknown, asked: Asked, tries: number): number | null {
    const { retries, retryMs, maxDelayMs } = this.settings
    if (!(error instanceof UmbraClientError) || tries > retries) return null
    const isSafe = asked.safe ?? (asked.method ?? "GET") === "GET"
    if (!(isSafe ? isAway(error) : untouched.has(error.code))) return null
    const wanted = error.retryAfterMs ?? 0
    if (wanted > maxDelayMs) return null
    return Math.max(wanted, backoffMs({ initialMs: retryMs, maxMs: maxDelayMs }, tries))
  }
}

/** Might the same request succeed a moment later? */
export function isAway({ status, code }: UmbraClientError): boolean {
  return status === null ? code === NOT_REACHABLE : away.has(status)
}

/** Combines the caller's signal and a time limit; AbortSignal.any is newer than the browsers we support. */
class Limit {
  readonly #controller = new AbortController()
  readonly #timer: ReturnType<typeof setTimeout>
  readonly #signal: AbortSignal | undefined
  readonly #abort = () => this.#controller.abort(this.#signal?.reason)
  isOver = false

  constructor(ms: number, signal: AbortSignal | undefined) {
    this.#signal = signal
    if (signal?.aborted) this.#abort()
    signal?.addEventListener("abort", this.#abort, { once: true })
    this.#timer = setTimeout(() => {
      this.isOver = true
      this.#controller.abort()
    }, ms)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  clear(): void {
    clearTimeout(this.#timer)
    this.#signal?.removeEventListener("abort", this.#abort)
  }
}

function parse<T>(text: string, response: Response): T {
  try {
    if (!/json/.test(response.headers.get("content-type") ?? "")) throw new Error("not JSON")
    return JSON.parse(text) as T
  } catch (error) {
    throw notUmbraError(response, error)
  }
}

function notReachable(url: string, cause: unknown): UmbraClientError {
  return new UmbraClientError(
    `${url} cannot be reached: ${findReason(cause)}. Is the server running, and is the URL right?`,
    { code: NOT_REACHABLE, cause },
  )
}

/** `fetch failed` has no information: the reason is in its cause, or in the causes of that. */
function findReason(error: unknown): string {
  let reason = error as { message?: string; code?: string; cause?: unknown; errors?: unknown[] }
  while (reason.cause !== undefined || reason.errors?.[0] !== undefined)
    reason = (reason.cause ?? reason.errors?.[0]) as typeof reason
  if (reason.code === "ERR_SSL_WRONG_VERSION_NUMBER" || /wrong version number/.test(reason.message ?? ""))
    return "the server there does not use TLS; its URL may begin with http:// instead"
  return (reason.message || reason.code || "the connection failed").replace(/\s+/g, " ").trim()
}

function parseAddress(url: string): string {
  // Without query and credentials: messages show the address.
  const parsed = /^https?:\/\/[^\s?#@/]+(\/[^\s?#]*)?$/i.test(url) ? url.replace(/\/+$/, "") : null
  if (parsed === null)
    throw new UmbraClientError(
      `"${url.replace(/[?#].*|[^/]*@/gs, "…")}" is not a valid server URL. Use a URL such as ${meant(url)}.`,
      { code: NOT_UMBRA },
    )
  return parsed
}

/** `localhost:7070` is what a browser would accept as an address. */
function meant(url: string): string {
  return /^[\w.-]+:\d{1,5}(\/[^\s?#]*)?$/.test(url)
    ? `http://${url}`
    : "http://127.0.0.1:7070 or https://umbra.example.com"
}

function queryText(query: Asked["query"] = {}): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue
    for (const one of Array.isArray(value) ? value : [value]) parameters.append(name, String(one))
  }
  const text = parameters.toString()
  return text === "" ? "" : `?${text}`
}

/** Options with the value undefined must not hide a default. */
function defined(options: ConnectOptions): Partial<typeof standard> {
  const given = Object.entries(options).filter(([name, value]) => value !== undefined && name in standard)
  return Object.fromEntries(given)
}

/** Reads a list page by page. `ask` gets `next` of the page before. */
export async function* pages<Cursor, Page extends { readonly next: Cursor | null }>(
  ask: (after?: Cursor) => Promise<Page>,
  first?: Cursor,
): AsyncGenerator<Page, void, undefined> {
  for (let after = first; ; ) {
    const page = await ask(after)
    yield page
    if (page.next == null) return
    after = page.next
  }
}

/** The entries of all pages. `key`: the name of the list in a page. */
export async function* entries<
  Key extends string,
  Cursor,
  Page extends { readonly next: Cursor | null } & { readonly [K in Key]: readonly unknown[] },
>(
  ask: (after?: Cursor) => Promise<Page>,
  key: Key,
  first?: Cursor,
): AsyncGenerator<Awaited<Page[Key][number]>, void, undefined> {
  for await (const page of pages<Cursor, Page>(ask, first)) yield* page[key] as readonly Page[Key][number][]
}

/** Waits between retries: exponential, with jitter, so that many clients do not return to a restarted server at once. */
interface Backoff {
  readonly initialMs: number
  readonly maxMs: number
}

/** Between half and all of the doubled time. `tries` counts the failed ones, from 1. */
export function backoffMs({ initialMs, maxMs }: Backoff, tries: number): number {
  const full = Math.min(maxMs, initialMs * 2 ** Math.min(tries - 1, 30))
  return full * (0.5 + Math.random() / 2)
}

/** Rejects with the signal's reason when it is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const abort = () => {
      clearTimeout(timer)
      reject(signal!.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort)
      resolve()
    }, ms)
    signal?.addEventListener("abort", abort, { once: true })
  })
}

/** A unique key. Pages that are not served securely have no randomUUID. */
export function newKey(): string {
  const source: Partial<typeof globalThis.crypto> | undefined = globalThis.crypto
  if (source?.randomUUID !== undefined) return source.randomUUID()
  const bytes = new Uint8Array(16)
  if (source?.getRandomValues !== undefined) source.getRandomValues(bytes)
  else for (let i = 0; i < bytes.length; i++) bytes[i] = Math.floor(Math.random() * 256)
  return `${Date.now().toString(16)}-${Array.from(bytes, byte => byte.toString(16).padStart(2, "0")).join("")}`
}

/** Headers are Latin-1, and the error of fetch would name neither the header nor the character. */
export function headerText(key: string): string {
  if (/^[\x20-\x7e\xa0-\xff]+$/.test(key) && key.trim() === key) return key
  throw new UmbraClientError(
    "An idempotency key over HTTP may contain only printable Latin-1 characters, and no space at its ends.",
    { code: "E309" },
  )
}
