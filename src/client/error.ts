/** Codes that no server sends: failures on the way to it. All other codes come from the server's problem documents. */
export const NOT_REACHABLE = "E650"
export const NOT_UMBRA = "E651"

export interface UmbraClientErrorOptions {
  readonly code: string
  /** Status of the response; null: there was none. */
  readonly status?: number | null
  /** Problems of a workflow, an input or a request, as the server lists them. */
  readonly problems?: readonly unknown[]
  /** The number of further problems. */
  readonly moreProblems?: number
  readonly retryAfterMs?: number | null
  readonly cause?: unknown
}

/** Every failure of the client: an error of the server (its RFC 9457 document), or why the server could not be reached. */
export class UmbraClientError extends Error {
  /** A code of docs/reference/errors.md. */
  readonly code: string
  readonly status: number | null
  readonly problems: readonly unknown[]
  /** The number of problems that the server does not list. */
  readonly moreProblems: number
  /** The time after which the server accepts another try; null: not given. */
  readonly retryAfterMs: number | null

  constructor(message: string, options: UmbraClientErrorOptions) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = "UmbraClientError"
    this.code = options.code
    this.status = options.status ?? null
    this.problems = options.problems ?? []
    this.moreProblems = options.moreProblems ?? 0
    this.retryAfterMs = options.retryAfterMs ?? null
  }
}

export interface ProblemDocument {
  readonly code: string
  readonly detail: string
  readonly errors?: readonly unknown[]
  readonly more_errors?: number
}

/** Reads the response body. Any response, also a page of a proxy, becomes one error with all that is known. */
export async function readError(response: Response): Promise<UmbraClientError> {
  const { status } = response
  const retryAfterMs = retryAfter(response.headers.get("retry-after"))
  const problem = parseProblem(await response.text().catch(() => ""))
  if (problem !== null) return problemError(problem, { status, retryAfterMs })
  const isAway = status === 502 || status === 503 || status === 504
  const code = isAway ? NOT_REACHABLE : status === 429 ? "E632" : NOT_UMBRA
  const what = isAway ? "The server is unavailable" : status === 429 ? "Too many requests" : notUmbra
  return new UmbraClientError(`${what}: ${formatSite(response)} answered ${status}.`, {
    code,
    status,
    retryAfterMs,
  })
}

/** `response`: of a problem that was the whole answer. */
export function problemError(
  problem: ProblemDocument,
  response: Pick<UmbraClientErrorOptions, "status" | "retryAfterMs"> = {},
): UmbraClientError {
  return new UmbraClientError(formatMessage(problem), {
    code: problem.code,
    ...response,
    problems: problem.errors ?? [],
    moreProblems: problem.more_errors ?? 0,
  })
}

/** Adds the problems to the message; `problems` has those that the server lists. */
const MOST_TOLD = 10

function formatMessage({ detail, errors = [], more_errors = 0 }: ProblemDocument): string {
  const lines = errors.slice(0, MOST_TOLD).flatMap(error => {
    const {
      code = "",
      path = "",
      message,
    } = (error ?? {}) as { code?: string; path?: string; message?: string }
    // A detail that contains its problems need not repeat them.
    if (message === undefined || detail.includes(message)) return []
    return `\n  ${[code, path].filter(Boolean).join(" ")}: ${message}`
  })
  const more = errors.length - MOST_TOLD + more_errors
  return `${detail}${lines.join("")}${more > 0 && lines.length > 0 ? `\n  … and ${more} more` : ""}`
}

const notUmbra = "This is not Umbra's API, or a proxy answers in front of it. Check the URL"

export function notUmbraError(response: Response, cause?: unknown): UmbraClientError {
  const type = response.headers.get("content-type") ?? "no content type"
  return new UmbraClientError(`${notUmbra}: ${formatSite(response)} answered with ${type}.`, {
    code: NOT_UMBRA,
    status: response.status,
    cause,
  })
}

/** Without the query: it may contain data that must not be logged. */
function formatSite({ url }: Response): string {
  return url === "" ? "it" : url.replace(/[?#].*/s, "")
}

function parseProblem(text: string): ProblemDocument | null {
  try {
    const found = JSON.parse(text) as Partial<ProblemDocument> | null
    return typeof found?.code === "string" && typeof found.detail === "string"
      ? (found as ProblemDocument)
      : null
  } catch {
    return null
  }
}

/** Seconds, or a date. */
function retryAfter(header: string | null): number | null {
  if (header === null) return null
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now()
  return Number.isFinite(ms) ? Math.max(0, ms) : null
}
