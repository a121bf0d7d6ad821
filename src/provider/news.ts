/**
 * Converts a provider's report on an operation to what is stored of it: JSON only, bounded, without secrets.
 *
 * 1. A report that an operation has ended ends it, whatever else is wrong with the report: a result that
 *    cannot be stored fails the operation as it would fail a handler. Polling again would return the same.
 * 2. Values that are only displayed (a preview, the details of a failure) are left out if they cannot be
 *    stored.
 */
import type { OperationResult } from "../core/commands.ts"
import { cut, type Fault, toFault } from "../core/faults.ts"
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

/** Throws if the provider does not report the state of the operation. */
export function parseResult(news: OperationNews, limits: NewsLimits): OperationResult {
  switch (news?.status) {
    case "completed":
      return completed(news, limits)
    case "failed":
      return failed(news, limits)
    case "running":
      return running(news, limits)
    default:
      throw new HandlerError('The status of an operation must be "completed", "failed" or "running".', {
        code: "E422",
        retryable: false,
      })
  }
}

function completed(
  news: Extract<OperationNews, { status: "completed" }>,
  limits: NewsLimits,
): OperationResult {
  try {
    const output = checked(news.output, limits.maxOutputBytes, "output", limits)
    if (news.usage === undefined) return { type: "completed", output }
    const usage = checked(news.usage, limits.maxPreviewBytes, "usage", limits) as JsonObject
    return { type: "completed", output, usage }
  } catch (thrown) {
    return { type: "failed", fault: unusable(thrown, limits) }
  }
}

function failed(news: Extract<OperationNews, { status: "failed" }>, limits: NewsLimits): OperationResult {
  const fault = faultOfNews(news, limits)
  if (news.usage === undefined) return { type: "failed", fault }
  try {
    const usage = checked(news.usage, limits.maxPreviewBytes, "usage", limits) as JsonObject
    return { type: "failed", fault, usage }
  } catch {
    return { type: "failed", fault }
  }
}

/** The fault of a check that threw: its message may contain a key of the checked value. */
function unusable(thrown: unknown, { redactor }: NewsLimits): Fault {
  return toFault(thrown, { now: 0, thrower: "provider", clean: redactor?.clean })
}

function faultOfNews(news: Extract<OperationNews, { status: "failed" }>, limits: NewsLimits): Fault {
  const { message, code = "E420", retryable = true, retryAfterSeconds, details } = news
  const clean = limits.redactor?.clean ?? ((text: string) => text)
  return {
    code: clean(String(code)).slice(0, 64),
    message: cut(clean(String(message)), 2000),
    retryable,
    ...(retryAfterSeconds === undefined ? {} : { retry_after_seconds: retryAfterSeconds }),
    ...(details === undefined ? {} : { details: detailsOf(details, limits) }),
  }
}

function detailsOf(details: JsonObject, limits: NewsLimits): JsonObject {
  try {
    return checked(details, limits.maxPreviewBytes, "details", limits) as JsonObject
  } catch (thrown) {
    return { left_out: unusable(thrown, limits).message }
  }
}

function running(news: Extract<OperationNews, { status: "running" }>, limits: NewsLimits): OperationResult {
  const { progress, message, preview } = news
  const isKnown = typeof progress === "number" && !Number.isNaN(progress)
  const percent = isKnown ? Math.min(100, Math.max(0, progress)) : null
  const clean = limits.redactor?.clean ?? ((text: string) => text)
  const partial = preview === undefined || preview === null ? {} : previewOf(preview, limits)
  const text = message == null ? (partial.leftOut ?? null) : clean(String(message))
  const said = text === null ? null : cut(text, messageLength)
  const shown = percent === null && said === null ? {} : { progress: { percent, message: said } }
  return { type: "running", ...shown, ...(partial.preview === undefined ? {} : { preview: partial.preview }) }
}

/** Without the preview the operation continues; the job shows why it is missing. */
function previewOf(preview: unknown, limits: NewsLimits): { preview?: Json; leftOut?: string } {
  try {
    return { preview: checked(preview, limits.maxPreviewBytes, "preview", limits) }
  } catch (thrown) {
    return { leftOut: unusable(thrown, limits).message }
  }
}

function checked(value: unknown, maxBytes: number, what: string, { redactor }: NewsLimits): Json {
  const { value: json } = checkOutput(value, { maxBytes, what })
  return redactor === null ? json : redactor.value(json)
}
