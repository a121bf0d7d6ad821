/** Requests to the public API, on the dashboard's own origin. The session's cookie authenticates them. */
import { root } from "../shell/router.ts"

/** The header proves that a page of this origin sends the request: pages of others cannot set it. */
export function ownHeaders(): Record<string, string> {
  const owner = viewedOwner()
  return { "umbra-csrf": "1", ...(owner === null ? {} : { "umbra-owner": encodeURIComponent(owner) }) }
}

const OWNER_KEY = "umbra.owner"

/** The other owner whose jobs an admin views in this tab; null: their own. */
export function viewedOwner(): string | null {
  try {
    return sessionStorage.getItem(OWNER_KEY)
  } catch {
    return null
  }
}

export function viewOwner(owner: string | null): void {
  if (owner === null) sessionStorage.removeItem(OWNER_KEY)
  else sessionStorage.setItem(OWNER_KEY, owner)
}

export class ApiError extends Error {
  /** A code of docs/reference/errors.md; null: the answer was not one of Umbra. */
  readonly code: string | null
  /** null: there was no answer. */
  readonly status: number | null
  readonly retryAfterSeconds: number | null
  /** Single problems of a value or document that was sent, with their places. */
  readonly problems: readonly SentProblem[]

  constructor(
    message: string,
    { code = null, status = null, retryAfterSeconds = null, problems = [] }: Partial<ApiError>,
  ) {
    super(message)
    this.name = "ApiError"
    this.code = code
    this.status = status
    this.retryAfterSeconds = retryAfterSeconds
    this.problems = problems
  }
}

export interface SentProblem {
  /** `input.items[2].price` */
  readonly path: string
  readonly message: string
  readonly code?: string
  /** In a document that was sent as text; counted from 1. */
  readonly line?: number
  readonly column?: number
}

type Value = string | number | undefined | null

export interface Asked {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE"
  readonly query?: Readonly<Record<string, Value | readonly Value[]>> | undefined
  readonly body?: unknown
  /** A document in place of a body, as it was written. */
  readonly document?:
    | { readonly text: string; readonly type: "application/yaml" | "application/json" }
    | undefined
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
  /** A response with status 503 has a body too. */
  readonly alsoFailed?: boolean
}

export function jobPath(jobId: string): string {
  return `/jobs/${encodeURIComponent(jobId)}`
}

export function buildUrl(path: string, query: Asked["query"] = {}): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    for (const one of [value].flat()) if (one != null) parameters.append(name, String(one))
  const text = parameters.toString()
  return `${root}${path.slice(1)}${text === "" ? "" : `?${text}`}`
}

/** The JSON of the answer. Throws an `ApiError`, or the reason of the signal. */
export async function ask<T>(path: string, asked: Asked = {}): Promise<T> {
  const response = await send(path, asked)
  if (response.status === 204) return null as T
  return (await response.json()) as T
}

async function send(
  path: string,
  { method = "GET", query, body, document: sent, headers, signal, alsoFailed = false }: Asked = {},
): Promise<Response> {
  let response: Response
  const content =
    sent ?? (body === undefined ? null : { text: JSON.stringify(body), type: "application/json" })
  try {
    response = await fetch(buildUrl(path, query), {
      method,
      headers: {
        ...ownHeaders(),
        ...headers,
        ...(content === null ? {} : { "content-type": content.type }),
      },
      ...(content === null ? {} : { body: content.text }),
      ...(signal === undefined ? {} : { signal }),
    })
  } catch (error) {
    if (signal?.aborted) throw signal.reason
    throw new ApiError(`The server does not answer: ${(error as Error).message}.`, {})
  }
  if (response.ok || (alsoFailed && response.status === 503)) return response
  const error = await readError(response)
  if (error.status === 401) window.dispatchEvent(new Event("umbra-login"))
  throw error
}

/** Reads a file, and offers it as a download. */
export async function download(address: string, name: string): Promise<void> {
  const response = await fetch(address, { headers: ownHeaders() })
  if (!response.ok) throw await readError(response)
  const link = document.createElement("a")
  link.href = URL.createObjectURL(await response.blob())
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

async function readError(response: Response): Promise<ApiError> {
  const { status } = response
  const text = await response.text().catch(() => "")
  const after = Number(response.headers.get("retry-after"))
  const retryAfterSeconds = response.headers.has("retry-after") && Number.isFinite(after) ? after : null
  try {
    const { code, detail, errors } = JSON.parse(text) as {
      code?: string
      detail?: string
      errors?: readonly SentProblem[]
    }
    if (code !== undefined && detail !== undefined)
      return new ApiError(detail, { code, status, retryAfterSeconds, problems: errors ?? [] })
  } catch {
    // Not a problem document: a proxy may answer in front of the server.
  }
  return new ApiError(`The server answered ${status}.`, { status, retryAfterSeconds })
}
