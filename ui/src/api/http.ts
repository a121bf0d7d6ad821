/** Requests to the public API, on the dashboard's own origin. The session's cookie authenticates them. */
import { root } from "../shell/router.ts"

/** The header proves that a page of this origin sends the request: pages of others cannot set it. */
export function ownHeaders(): Record<string, string> {
  const owner = lookedAtOwner()
  return { "umbra-csrf": "1", ...(owner === null ? {} : { "umbra-owner": encodeURIComponent(owner) }) }
}

const OWNER_KEY = "umbra.owner"

/** The other owner whose jobs an admin looks at in this tab; null: their own. */
export function lookedAtOwner(): string | null {
  try {
    return sessionStorage.getItem(OWNER_KEY)
  } catch {
    return null
  }
}

export function lookAtOwner(owner: string | null): void {
  if (owner === null) sessionStorage.removeItem(OWNER_KEY)
  else sessionStorage.setItem(OWNER_KEY, owner)
}

export class ApiError extends Error {
  /** A code of docs/reference/errors.md; null: the answer was not one of Umbra. */
  readonly code: string | null
  /** null: there was no answer. */
  readonly status: number | null
  readonly retryAfterSeconds: number | null

  constructor(message: string, { code = null, status = null, retryAfterSeconds = null }: Partial<ApiError>) {
    super(message)
    this.name = "ApiError"
    this.code = code
    this.status = status
    this.retryAfterSeconds = retryAfterSeconds
  }
}

type Value = string | number | undefined | null

export interface Asked {
  readonly method?: "GET" | "POST" | "DELETE"
  readonly query?: Readonly<Record<string, Value | readonly Value[]>> | undefined
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
}

export function addressOf(path: string, query: Asked["query"] = {}): string {
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
  { method = "GET", query, body, headers, signal }: Asked = {},
): Promise<Response> {
  let response: Response
  try {
    response = await fetch(addressOf(path, query), {
      method,
      headers: {
        ...ownHeaders(),
        ...headers,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    })
  } catch (error) {
    if (signal?.aborted) throw signal.reason
    throw new ApiError(`The server does not answer: ${(error as Error).message}.`, {})
  }
  if (response.ok) return response
  const error = await errorOf(response)
  if (error.status === 401) window.dispatchEvent(new Event("umbra-login"))
  throw error
}

/** Reads a file, and gives it to the person. */
export async function download(address: string, name: string): Promise<void> {
  const response = await fetch(address, { headers: ownHeaders() })
  if (!response.ok) throw await errorOf(response)
  const link = document.createElement("a")
  link.href = URL.createObjectURL(await response.blob())
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

async function errorOf(response: Response): Promise<ApiError> {
  const { status } = response
  const text = await response.text().catch(() => "")
  const after = Number(response.headers.get("retry-after"))
  const retryAfterSeconds = response.headers.has("retry-after") && Number.isFinite(after) ? after : null
  try {
    const { code, detail } = JSON.parse(text) as { code?: string; detail?: string }
    if (code !== undefined && detail !== undefined)
      return new ApiError(detail, { code, status, retryAfterSeconds })
  } catch {
    // Not a problem document: a proxy may answer in front of the server.
  }
  return new ApiError(`The server answered ${status}.`, { status, retryAfterSeconds })
}
