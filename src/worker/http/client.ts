/**
 * One HTTP request with its redirects: bounded in time and size, to allowed addresses only.
 *
 * 1. Every hop is checked like the first.
 * 2. Confidential data is not sent to another origin: of the headers only those in `harmless`, and no body.
 * 3. Bytes are counted after decompression, while they arrive.
 */

import type { lookup } from "node:dns"
import { Agent as HttpAgent, validateHeaderName, validateHeaderValue } from "node:http"
import { Agent as HttpsAgent } from "node:https"
import { HandlerError } from "../fail.ts"
import { AddressPolicy } from "./addresses.ts"
import { checkHost, guardedLookup } from "./connect.ts"
import { type Agents, exchange } from "./exchange.ts"

export interface HttpRequest {
  readonly method: string
  readonly url: URL
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  readonly timeoutSeconds: number
  readonly maxRedirects: number
  readonly maxResponseBytes: number
  readonly signal: AbortSignal
  /**
   * Called before everything that is sent beyond the first request: a repetition on a new connection, a
   * redirect. Rejects: not now.
   */
  readonly again?: (() => Promise<void>) | undefined
  /** The allowed origins, redirects included; absent: every allowed address. */
  readonly origins?: ReadonlySet<string> | undefined
}

export interface HttpResponse {
  readonly url: URL
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

export interface HttpClientOptions {
  readonly allowPrivateAddresses: boolean | readonly string[]
  readonly resolve?: typeof lookup
}

const redirects = new Set([301, 302, 303, 307, 308])
const harmless = new Set(["accept", "accept-language", "user-agent"])

export class HttpClient {
  readonly #policy: AddressPolicy
  readonly #agents: { readonly "http:": Agents; readonly "https:": Agents }

  constructor(options: HttpClientOptions) {
    this.#policy = new AddressPolicy(options.allowPrivateAddresses)
    const lookup = guardedLookup(this.#policy, options.resolve)
    const [kept, fresh] = [true, false].map(keepAlive => ({ keepAlive, timeout: 30_000, lookup }))
    this.#agents = {
      "http:": { kept: new HttpAgent(kept), fresh: new HttpAgent(fresh) },
      "https:": { kept: new HttpsAgent(kept), fresh: new HttpsAgent(fresh) },
    }
  }

  async send(request: HttpRequest): Promise<HttpResponse> {
    checkHeaders(request.headers)
    const deadline = AbortSignal.timeout(Math.min(2 ** 31 - 1, Math.ceil(request.timeoutSeconds * 1000)))
    const signal = AbortSignal.any([request.signal, deadline])
    try {
      return await this.#follow({ ...request, signal })
    } catch (error) {
      throw deadline.aborted && !request.signal.aborted ? timedOut(request) : error
    }
  }

  async #follow(request: HttpRequest): Promise<HttpResponse> {
    for (let current = request, hops = 0; ; hops++) {
      checkOrigin(current)
      checkHost(current.url, this.#policy)
      const protocol = current.url.protocol as "http:" | "https:"
      const response = await exchange(current, this.#agents[protocol])
      const location = response.headers.location
      if (!redirects.has(response.status) || location === undefined || request.maxRedirects === 0)
        return response
      if (hops >= request.maxRedirects)
        throw refused(request, `redirected more than ${request.maxRedirects} times`)
      current = redirected(current, response.status, location)
      await request.again?.()
    }
  }
}

/**
 * Headers that delimit a message, or control the connection, are set by the client only: connections are
 * kept, and the next request on one may belong to another owner.
 */
const ofConnection = new Set([
  ...["connection", "content-length", "expect", "keep-alive", "proxy-connection", "te"],
  ...["trailer", "transfer-encoding", "upgrade"],
])

function checkHeaders(headers: HttpRequest["headers"]): void {
  for (const [name, value] of Object.entries(headers)) {
    const wrong = headerProblem(name, value)
    if (wrong === undefined) continue
    const message = `The header ${JSON.stringify(name)} cannot be sent: ${wrong}.`
    throw new HandlerError(message, { code: "E419", retryable: false, details: { header: name } })
  }
}

/** The message does not contain the value: it may be a secret. */
function headerProblem(name: string, value: string): string | undefined {
  if (ofConnection.has(name.toLowerCase())) return "it is set by the connection itself. Leave it out"
  try {
    validateHeaderName(name)
  } catch {
    return "its name has a character that HTTP does not allow"
  }
  try {
    validateHeaderValue(name, value)
    return undefined
  } catch {
    return "its value has a line break or another character that HTTP does not allow. Encode it"
  }
}

function checkOrigin({ url, origins }: HttpRequest): void {
  if (origins === undefined || origins.has(url.origin)) return
  const own = origins.size === 0 ? "none is known" : [...origins].join(", ")
  throw new HandlerError(
    `${url.origin} is not an origin of the node's provider (${own}), so nothing was sent there. ` +
      "Use the provider's own URL; an operator can add others to `origins` of the provider.",
    { code: "E424", retryable: false },
  )
}

function redirected(request: HttpRequest, status: number, location: string): HttpRequest {
  const url = URL.canParse(location, request.url.href) ? new URL(location, request.url) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw refused(request, "redirected to something that is not an http or https URL")
  }
  const keepsMethod =
    status === 307 || status === 308 || request.method === "GET" || request.method === "HEAD"
  const next = keepsMethod ? { ...request, url } : { ...request, url, method: "GET", body: undefined }
  const headers = Object.entries(next.headers).filter(
    ([name]) => next.body !== undefined || !name.startsWith("content-"),
  )
  if (url.origin === request.url.origin) return { ...next, headers: Object.fromEntries(headers) }
  if (next.body !== undefined) {
    throw refused(
      request,
      `redirected a request with a body to another origin (${url.origin}); use that URL directly`,
    )
  }
  return { ...next, headers: Object.fromEntries(headers.filter(([name]) => harmless.has(name))) }
}

function refused(request: HttpRequest, what: string): HandlerError {
  return new HandlerError(`${request.url.origin} ${what}.`, { code: "E411", retryable: false })
}

function timedOut(request: HttpRequest): HandlerError {
  const message = `${request.url.origin} did not answer within ${request.timeoutSeconds} s (timeout_seconds).`
  return new HandlerError(message, { code: "E408", retryable: true })
}
