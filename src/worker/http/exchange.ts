/** One request and its answer on one connection. */
import { type Agent, request as httpRequest, type IncomingMessage } from "node:http"
import { request as httpsRequest } from "node:https"
import type { Readable } from "node:stream"
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib"
import { toFault } from "../../core/faults.ts"
import { HandlerError } from "../fail.ts"
import type { HttpRequest, HttpResponse } from "./client.ts"

/** The agent for connections that are kept and reused, and the one for single requests. */
export interface Agents {
  readonly kept: Agent
  readonly fresh: Agent
}

export async function exchange(request: HttpRequest, agents: Agents): Promise<HttpResponse> {
  try {
    const answer = await answerTo(request, agents)
    const body = await readBody(answer, request)
    return { url: request.url, status: answer.statusCode ?? 0, headers: headersOf(answer), body }
  } catch (error) {
    throw error instanceof HandlerError || request.signal.aborted ? error : connectionFault(request, error)
  }
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
    sent.on("response", resolve)
    sent.on("error", reject)
  })
  sent.end(body)
  return { sent, answer }
}

async function readBody(answer: IncomingMessage, request: HttpRequest): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of decoded(answer, request.method)) {
      size += chunk.length
      if (size > request.maxResponseBytes) throw tooLarge(request)
      chunks.push(chunk)
    }
  } catch (error) {
    answer.destroy()
    throw error
  }
  return Buffer.concat(chunks)
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

function headersOf(answer: IncomingMessage): Record<string, string> {
  const entries = Object.entries(answer.headers).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.join(", ") : value,
  ])
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined))
}

function tooLarge(request: HttpRequest): HandlerError {
  const message = `${request.url.origin} answered with more than ${request.maxResponseBytes} bytes. Ask for less, or raise max_response_bytes.`
  return new HandlerError(message, { code: "E413", retryable: false })
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
