/**
 * One HTTP request with its redirects: bounded in time and size, to allowed addresses only.
 *
 * 1. Every hop is checked like the first.
 * 2. Confidential data is not sent to another origin: of the headers only those in `harmless`, and no body.
 * 3. Bytes are counted after decompression, while they arrive. Time and size are limited also where a body is passed on as it arrives.
 */
import type { lookup } from "node:dns"
import {
  type Agent,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
  validateHeaderName,
  validateHeaderValue,
} from "node:http"
import { Agent as HttpsAgent, request as httpsRequest } from "node:https"
import type { Duplex, Readable } from "node:stream"
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib"
import { isRetryableStatus, retryAfterSeconds, toFault } from "../../core/faults.ts"
import type { Json } from "../../core/json.ts"
import { finalError, HandlerError } from "../fail.ts"
import { AddressPolicy, checkHost, guardedLookup } from "./addresses.ts"

export interface HttpRequest {
  readonly method: string
  readonly url: URL
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  readonly timeoutSeconds: number
  readonly maxRedirects: number
  readonly maxResponseBytes: number
  /** What a caller may raise if that is too little; default: max_response_bytes. */
  readonly limitName?: string
  readonly signal: AbortSignal
  /**
   * Called before everything that is sent beyond the first request: a repetition on a new connection, a
   * redirect. Rejects: not now.
   */
  readonly again?: (() => Promise<void>) | undefined
  /** The allowed origins, redirects included; absent: every allowed address. */
  readonly origins?: ReadonlySet<string> | undefined
}

interface Answer<Body> {
  readonly url: URL
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Body
}

export type HttpResponse = Answer<Buffer>

/** The body arrives as it is read. */
export type HttpStream = Answer<AsyncGenerator<Buffer, void, undefined>>

interface HttpClientOptions {
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
    return whole(await this.open(request))
  }

  /** The answer when its headers have arrived. A body that is not read is closed when the time of the request is over. */
  async open(request: HttpRequest): Promise<HttpStream> {
    checkHeaders(request.headers)
    const deadline = AbortSignal.timeout(Math.min(2 ** 31 - 1, Math.ceil(request.timeoutSeconds * 1000)))
    const signal = AbortSignal.any([request.signal, deadline])
    const explain = (error: unknown) =>
      deadline.aborted && !request.signal.aborted ? timedOut(request) : error
    try {
      const stream = await this.#follow({ ...request, signal })
      return { ...stream, body: explained(stream.body, explain) }
    } catch (error) {
      throw explain(error)
    }
  }

  async #follow(request: HttpRequest): Promise<HttpStream> {
    checkOrigin(request)
    for (let current = request, hops = 0; ; hops++) {
      checkHost(current.url, this.#policy)
      const protocol = current.url.protocol as "http:" | "https:"
      const response = await exchange(current, this.#agents[protocol])
      const location = response.headers.location
      if (!redirects.has(response.status) || location === undefined || request.maxRedirects === 0)
        return response
      await whole(response)
      if (hops >= request.maxRedirects)
        throw refused(request, `redirected more than ${request.maxRedirects} times`)
      current = redirected(current, response.status, location)
      await request.again?.()
    }
  }
}

export async function whole(stream: HttpStream): Promise<HttpResponse> {
  const chunks: Buffer[] = []
  for await (const chunk of stream.body) chunks.push(chunk)
  return { ...stream, body: Buffer.concat(chunks) }
}

async function* explained(
  body: HttpStream["body"],
  explain: (error: unknown) => unknown,
): HttpStream["body"] {
  try {
    yield* body
  } catch (error) {
    throw explain(error)
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
    throw finalError("E419", message, { header: name })
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
  throw outside(
    `${url.origin} is not an origin of the node's provider (${listed(origins)}), so nothing was sent there. ` +
      "Use the provider's own URL;",
  )
}

function checkRedirect({ url, origins }: HttpRequest, to: URL): void {
  if (origins === undefined || origins.has(to.origin)) return
  throw outside(
    `${url.origin} redirected to ${to.origin}, which is not an origin of the node's provider ` +
      `(${listed(origins)}), so the redirect was not followed;`,
  )
}

function listed(origins: ReadonlySet<string>): string {
  return origins.size === 0 ? "none is known" : [...origins].join(", ")
}

function outside(what: string): HandlerError {
  return finalError("E424", `${what} an operator can add others to \`origins\` of the provider.`)
}

function redirected(request: HttpRequest, status: number, location: string): HttpRequest {
  const url = URL.canParse(location, request.url.href) ? new URL(location, request.url) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw refused(request, "redirected to something that is not an http or https URL")
  }
  checkRedirect(request, url)
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
  return finalError("E411", `${request.url.origin} ${what}.`)
}

function timedOut(request: HttpRequest): HandlerError {
  const message = `${request.url.origin} did not answer within ${request.timeoutSeconds} s (timeout_seconds).`
  return new HandlerError(message, { code: "E408", retryable: true })
}

/** The agent for connections that are kept and reused, and the one for single requests. */
interface Agents {
  readonly kept: Agent
  readonly fresh: Agent
}

/** One request and its answer on one connection. */
async function exchange(request: HttpRequest, agents: Agents): Promise<HttpStream> {
  const answer = await answerTo(request, agents).catch(error => {
    throw toRequestFault(request, error)
  })
  const body = readBody(answer, request)
  return { url: request.url, status: answer.statusCode ?? 0, headers: joinHeaders(answer), body }
}

function toRequestFault(request: HttpRequest, error: unknown): unknown {
  return error instanceof HandlerError || request.signal.aborted ? error : connectionFault(request, error)
}

/**
 * The other side may close a kept connection just as it is reused. That says nothing about the service, so
 * the request is sent once more, on a new connection.
 */
async function answerTo(request: HttpRequest, { kept, fresh }: Agents): Promise<IncomingMessage> {
  const first = begin(request, kept)
  try {
    return await first.answer
  } catch (error) {
    const wasStale = first.sent.reusedSocket && (error as { code?: unknown }).code === "ECONNRESET"
    if (!wasStale || request.signal.aborted) throw error
    const mayGo = request.again === undefined || (await request.again().then(yes, no))
    if (!mayGo) throw error
    return begin(request, fresh).answer
  }
}

const yes = () => true
const no = () => false

function begin({ url, method, headers, body, signal }: HttpRequest, agent: Agent) {
  const send = url.protocol === "https:" ? httpsRequest : httpRequest
  const length = body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) }
  const all = { "user-agent": "umbra", "accept-encoding": "gzip, deflate, br", ...headers, ...length }
  const sent = send(url, { method, headers: all, agent, signal })
  const answer = new Promise<IncomingMessage>((resolve, reject) => {
    const refuse = refuseSwitch(reject)
    // Without the header Upgrade, 101 is an ordinary response to Node.js.
    sent.on("response", answer =>
      answer.statusCode === 101 ? refuse(answer, answer.socket) : resolve(answer),
    )
    sent.on("error", reject)
    sent.on("upgrade", refuse).on("connect", refuse)
    // Some ends of a connection are neither a response nor an error.
    sent.on("close", () => reject(signal.aborted ? signal.reason : closedEarly()))
  })
  sent.end(body)
  return { sent, answer }
}

/** No request asks for another protocol: the rest of the connection is not HTTP. */
function refuseSwitch(reject: (error: Error) => void) {
  return ({ statusCode }: IncomingMessage, socket: Duplex) => {
    socket.on("error", () => {}).destroy()
    reject(protocolError("HPE_UNEXPECTED_UPGRADE", `Unrequested switch to another protocol (${statusCode})`))
  }
}

function closedEarly(): Error {
  return protocolError("HPE_CLOSED_CONNECTION", "The connection was closed before a response arrived")
}

function protocolError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}

async function* readBody(answer: IncomingMessage, request: HttpRequest): HttpStream["body"] {
  let size = 0
  try {
    for await (const chunk of decoded(answer, request.method)) {
      size += chunk.length
      if (size > request.maxResponseBytes) throw tooLarge(request)
      yield chunk
    }
  } catch (error) {
    throw toRequestFault(request, error)
  } finally {
    if (!answer.complete) answer.destroy()
  }
}

function decoded(answer: IncomingMessage, method: string): Readable {
  const encoding = answer.headers["content-encoding"]?.toLowerCase()
  const empty = method === "HEAD" || answer.statusCode === 204 || answer.statusCode === 304
  const decoder = empty ? undefined : createDecoder(encoding)
  if (decoder === undefined) return answer
  answer.on("error", error => decoder.destroy(error))
  return answer.pipe(decoder)
}

function createDecoder(encoding: string | undefined) {
  if (encoding === "gzip" || encoding === "x-gzip") return createGunzip()
  if (encoding === "br") return createBrotliDecompress()
  return encoding === "deflate" ? createInflate() : undefined
}

function joinHeaders(answer: IncomingMessage): Record<string, string> {
  const entries = Object.entries(answer.headers).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.join(", ") : value,
  ])
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined))
}

function tooLarge(request: HttpRequest): HandlerError {
  const message = `${request.url.origin} answered with more than ${request.maxResponseBytes} bytes. Ask for less, or raise ${request.limitName ?? "max_response_bytes"}.`
  return finalError("E413", message)
}

/**
 * The connection failed, or broke. The cause tells whether a retry may help: an invalid certificate stays
 * invalid.
 */
function connectionFault({ url }: HttpRequest, error: unknown): HandlerError {
  const { code, retryable, message } = toFault(error, { now: 0 })
  const why = message.includes(code) || code === "E401" ? message : `${code} ${message}`
  return new HandlerError(`${url.origin} cannot be reached: ${why}`, {
    code: "E408",
    retryable,
    details: { cause: code },
    cause: error,
  })
}

/** Interprets an HTTP answer: success or a fault of the table, and its body as JSON or text. */
const excerptLength = 500

/** The same for an answer whose body is not read to its end. */
export async function streamFault(stream: HttpStream, now: number): Promise<HandlerError> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stream.body) {
    chunks.push(chunk)
    size += chunk.length
    if (size >= excerptLength * 4) break
  }
  return statusFault({ ...stream, body: Buffer.concat(chunks) }, now)
}

/** The fault for an answer with an unexpected status. */
export function statusFault(response: HttpResponse, now: number): HandlerError {
  const { status, url, headers } = response
  const excerpt = response.body
    .subarray(0, excerptLength * 4)
    .toString()
    .slice(0, excerptLength)
  return new HandlerError(`${url.origin} answered with status ${status}${meaning(status)}.`, {
    code: status === 429 ? "E409" : isRetryableStatus(status) ? "E410" : "E411",
    retryable: isRetryableStatus(status),
    details: excerpt === "" ? { status } : { status, body: excerpt },
    retryAfterSeconds: retryAfterSeconds(headers["retry-after"], now),
  })
}

function meaning(status: number): string {
  if (status === 401 || status === 403) return ": check the credentials"
  if (status === 404) return ": check the URL"
  return status === 429 ? " (rate limited)" : ""
}

export type Body = { readonly encoding: "json" | "text" | "base64"; readonly body: Json }

/** Parsed if the answer declares JSON; otherwise text, or base64 if its bytes are not text. */
export function parseBody(response: HttpResponse): Body {
  if (response.body.length === 0) return { encoding: "text", body: null }
  const type = response.headers["content-type"] ?? ""
  if (/^application\/(json|[\w.+-]+\+json)\b/i.test(type)) return { encoding: "json", body: parsed(response) }
  const text = decodeText(response.body, /charset="?([\w-]+)/i.exec(type)?.[1])
  return text === undefined
    ? { encoding: "base64", body: response.body.toString("base64") }
    : { encoding: "text", body: text }
}

export function parsed(response: HttpResponse): Json {
  const text = response.body.toString()
  try {
    return JSON.parse(text.replace(/^\uFEFF/, "")) as Json
  } catch {
    throw finalError(
      "E414",
      `${response.url.origin} answered with something that is not JSON. Check the URL.`,
      { status: response.status, body: text.slice(0, excerptLength) },
    )
  }
}

function decodeText(bytes: Buffer, charset = "utf-8"): string | undefined {
  try {
    return new TextDecoder(charset, { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}
