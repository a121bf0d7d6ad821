/** Interprets an HTTP answer: success or a fault of the table, and its body as JSON or text. */
import { isRetryableStatus, retryAfterSeconds } from "../../core/faults.ts"
import type { Json } from "../../core/json.ts"
import { finalError, HandlerError } from "../fail.ts"
import type { HttpResponse } from "./client.ts"

const excerptLength = 500

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
  const text = textOf(response.body, /charset="?([\w-]+)/i.exec(type)?.[1])
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

function textOf(bytes: Buffer, charset = "utf-8"): string | undefined {
  try {
    return new TextDecoder(charset, { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}
