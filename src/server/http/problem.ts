/** Errors as RFC 9457 problem documents with a code of the error table. Internal details go to the log only. */
import { STATUS_CODES } from "node:http"
import type { Socket } from "node:net"
import type { FastifyError, FastifyReply, FastifyRequest } from "fastify"
import { errorTable, UmbraError } from "../../errors.ts"
import type { Log } from "../../log.ts"
import { isUploading } from "./uploads.ts"

export interface ProblemDocument {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly code: string
  /** For 503 and 429: the seconds after which the request, or the entry of a bulk, may be sent again. */
  readonly retry_after?: number | undefined
  readonly [more: string]: unknown
}

export function toProblem(error: UmbraError): ProblemDocument {
  const { title, status } = errorTable[error.code]
  return {
    type: `urn:umbra:error:${error.code}`,
    title,
    status,
    detail: formatDetail(error, status),
    code: error.code,
    ...listProblems(error),
    retry_after: status === 503 || status === 429 ? Number(error.details.retry_after ?? 1) : undefined,
  }
}

/** E501 and similar errors name hosts and folders, which do not help the caller. */
function formatDetail({ code, message }: UmbraError, status: number): string {
  if (code === "E801")
    return "The server cannot reach its artifact store. Try again shortly; the server's log has the details."
  if (status < 500 || !code.startsWith("E5")) return message
  return status === 503
    ? "The server cannot reach its database. Try again shortly; the server's log has the details."
    : "The server's database rejected this request; the server's log has the reason."
}

/** Only lists of problems are sent: other details go to the log. */
function listProblems({ details }: UmbraError): { errors?: unknown; more_errors?: number | undefined } {
  const errors = details.problems ?? details.errors
  const more = Number(details.more ?? 0)
  return { errors, more_errors: more === 0 ? undefined : more }
}

const errorsAnswered = 100

/** As `toProblem`, for an HTTP answer: only the first of many errors, and the number of the others. */
function boundedProblem(error: UmbraError, most = errorsAnswered): ProblemDocument {
  const problem = toProblem(error)
  const { errors, more_errors: more = 0 } = problem as { errors?: unknown; more_errors?: number }
  if (!Array.isArray(errors) || errors.length <= most) return problem
  const rest = errors.length - most + more
  return { ...problem, errors: errors.slice(0, most), more_errors: rest }
}

/** A long detail repeats the list of errors beside it. */
const detailAnswered = 300

/** The problems of a bulk request, in order: the first ones with all errors, the later ones with one error each. */
export class BulkProblems {
  #left = 10 * errorsAnswered
  #retryAfter: number | null = null

  /** Seconds until the last of the rejected entries may be sent again; null: none was rejected for the moment only. */
  get retryAfter(): number | null {
    return this.#retryAfter
  }

  problem(error: UmbraError): ProblemDocument {
    const most = Math.max(1, Math.min(errorsAnswered, this.#left))
    const problem = boundedProblem(error, most)
    if (Array.isArray(problem.errors)) this.#left -= problem.errors.length
    const { detail, retry_after: wait } = problem
    if (wait !== undefined) this.#retryAfter = Math.max(this.#retryAfter ?? 0, wait)
    return detail.length <= detailAnswered || problem.more_errors === undefined
      ? problem
      : { ...problem, detail: `${detail.slice(0, detailAnswered)}…` }
  }
}

export function answerProblem(reply: FastifyReply, error: UmbraError): FastifyReply {
  const problem = boundedProblem(error)
  if (problem.retry_after !== undefined) reply.header("retry-after", String(problem.retry_after))
  if (problem.status === 401) reply.header("www-authenticate", 'Bearer realm="umbra"')
  return reply
    .code(problem.status)
    .header("content-type", "application/problem+json")
    .serializer(JSON.stringify)
    .send(problem)
}

export function problemHandler(log: Log) {
  return (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => {
    const known = knownError(error, request.routeOptions.url)
    if (known.status >= 500 && known.status !== 503)
      log.error(
        { error: error.stack ?? String(error), method: request.method, route: request.routeOptions.url },
        "request failed",
      )
    return answerProblem(reply, known)
  }
}

function knownError(error: FastifyError, route: string | undefined): UmbraError {
  if (error instanceof UmbraError) return error
  if (error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE")
    return new UmbraError(
      "E636",
      route === "/artifacts"
        ? "Content-Type must be one media type, for example image/png. Without it the type is application/octet-stream."
        : "Send JSON with `Content-Type: application/json`; a workflow may also be sent as application/yaml.",
    )
  if (error.code === "FST_ERR_CTP_INVALID_JSON_BODY")
    return new UmbraError("E633", "Request body is not valid JSON, or has a forbidden key (`__proto__`).")
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500)
    return new UmbraError("E633", `${error.message}.`)
  return new UmbraError("E639", "Internal server error; the server's log has the details.", { cause: error })
}

/** Time for the client to read the answer. */
const LINGER_MS = 500

const byCode: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, "Request headers exceed 16 KB."],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "The request did not arrive in time."],
}

/** Bytes that are not HTTP never become a request: this answers them on the raw connection and closes it. */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ERR_HTTP_REQUEST_TIMEOUT" && isUploading(socket)) return
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy()
    return
  }
  const [status, detail] = byCode[error.code ?? ""] ?? [400, "Malformed HTTP request."]
  const body = JSON.stringify({ ...toProblem(new UmbraError("E633", detail)), status })
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Content-Type: application/problem+json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
  ]
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`)
  // The client must close the connection now, or the server does: an open connection costs memory.
  setTimeout(() => socket.destroy(), LINGER_MS).unref()
}
