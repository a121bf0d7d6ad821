/** From what a provider says of an operation to what is stored of it: JSON only, bounded, without secrets. */
import type { OperationResult } from "../core/commands.ts"
import { cut, type Fault } from "../core/faults.ts"
import type { Json, JsonObject } from "../core/json.ts"
import { HandlerError } from "../worker/fail.ts"
import { checkOutput } from "../worker/output.ts"
import type { Redactor } from "../worker/redact.ts"
import type { OperationNews } from "./provider.ts"

export interface NewsLimits {
  readonly maxOutputBytes: number
  readonly maxPreviewBytes: number
  /** null: no secret was read. */
  readonly redactor: Redactor | null
}

const messageLength = 500

/** Throws what is not JSON, or too large, as a fault of the table. */
export function resultOf(news: OperationNews, limits: NewsLimits): OperationResult {
  switch (news?.status) {
    case "completed":
      return completed(news, limits)
    case "failed":
      return { type: "failed", fault: faultOfNews(news, limits) }
    case "running":
      return running(news, limits)
    default:
      throw new HandlerError('A provider says that an operation is "completed", "failed" or "running".', {
        code: "E422",
        retryable: false,
      })
  }
}

function completed(
  news: Extract<OperationNews, { status: "completed" }>,
  limits: NewsLimits,
): OperationResult {
  const output = checked(news.output, limits.maxOutputBytes, "output", limits)
  if (news.usage === undefined) return { type: "completed", output }
  const usage = checked(news.usage, limits.maxPreviewBytes, "usage", limits) as JsonObject
  return { type: "completed", output, usage }
}

function faultOfNews(news: Extract<OperationNews, { status: "failed" }>, limits: NewsLimits): Fault {
  const { message, code = "E420", retryable = true, retryAfterSeconds, details } = news
  const clean = limits.redactor?.clean ?? ((text: string) => text)
  return {
    code: clean(String(code)).slice(0, 64),
    message: cut(clean(String(message)), 2000),
    retryable,
    ...(retryAfterSeconds === undefined ? {} : { retry_after_seconds: retryAfterSeconds }),
    ...(details === undefined
      ? {}
      : { details: checked(details, limits.maxPreviewBytes, "details", limits) as JsonObject }),
  }
}

function running(news: Extract<OperationNews, { status: "running" }>, limits: NewsLimits): OperationResult {
  const { progress, message, preview } = news
  const isKnown = typeof progress === "number" && !Number.isNaN(progress)
  const percent = isKnown ? Math.min(100, Math.max(0, progress)) : null
  const clean = limits.redactor?.clean ?? ((text: string) => text)
  const text = message == null ? null : cut(clean(String(message)), messageLength)
  const shown = percent === null && text === null ? {} : { progress: { percent, message: text } }
  if (preview === undefined || preview === null) return { type: "running", ...shown }
  return { type: "running", ...shown, preview: checked(preview, limits.maxPreviewBytes, "preview", limits) }
}

function checked(value: unknown, maxBytes: number, what: string, { redactor }: NewsLimits): Json {
  const { value: json } = checkOutput(value, { maxBytes, what })
  return redactor === null ? json : redactor.value(json)
}
