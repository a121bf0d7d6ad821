/**
 * Calls of a provider's own functions: bounded in time, total, and without secrets in the result.
 *
 * 1. Nothing is thrown: whatever the function does, the answer is a result or a fault.
 * 2. A function that ignores its signal is not waited for beyond its time.
 */

import type { Artifacts } from "../artifacts/artifacts.ts"
import type { OperationResult } from "../core/commands.ts"
import { cut, type Fault, toFault } from "../core/faults.ts"
import type { Json, JsonObject } from "../core/json.ts"
import type {
  Keep,
  Operation,
  ProviderCall,
  Providers,
  ProviderTerms,
} from "../engine/providers/providers.ts"
import { UmbraError } from "../errors.ts"
import type { Log } from "../log.ts"
import { finalError, HandlerError } from "../worker/fail.ts"
import type { HttpClient } from "../worker/http/client.ts"
import { checkOutput } from "../worker/output.ts"
import { Redactor, type Secret } from "../worker/redact.ts"
import { type ProviderSecretSource, providerSecret } from "../worker/secrets.ts"
import { UrlKeeper } from "./keep.ts"
import type { OperationNews, Provider, ProviderContext } from "./provider.ts"
import type { ProviderRegistry } from "./registry.ts"
import { signingSecrets } from "./signature.ts"

interface ProviderCallsParts {
  readonly registry: ProviderRegistry
  readonly secrets: ProviderSecretSource
  readonly now: () => number
  readonly log: Log
  readonly maxOutputBytes: number
  readonly maxPreviewBytes: number
  readonly http: HttpClient
  /** Absent: this process only polls, and another one stores results. */
  readonly artifacts?: Pick<Artifacts, "put">
}

/**
 * The secrets that the provider's requests read and its webhooks are signed with, as far as this process has
 * them.
 */
export function declaredSecrets(provider: Provider | undefined, source: ProviderSecretSource): Secret[] {
  const names = new Set([...(provider?.secrets ?? []), ...signingSecrets(provider?.verify)])
  return [...names].flatMap(name => {
    try {
      return { name, value: providerSecret(name, source) }
    } catch (error) {
      if (error instanceof UmbraError) return []
      throw error
    }
  })
}

export class ProviderCalls implements Providers {
  readonly #parts: ProviderCallsParts
  readonly #keeper: UrlKeeper

  constructor(parts: ProviderCallsParts) {
    this.#parts = parts
    this.#keeper = new UrlKeeper(parts.http)
  }

  names(): readonly string[] {
    return this.#parts.registry.names()
  }

  terms(provider: string): ProviderTerms | undefined {
    return this.#parts.registry.terms(provider)
  }

  async poll(operation: Operation, given: ProviderCall): Promise<OperationResult> {
    const provider = this.#parts.registry.get(operation.provider)
    const call = this.#call(operation, given)
    try {
      const news = await call.within(() =>
        provider!.poll!({ externalId: operation.externalId }, call.context),
      )
      return parseResult(news, { ...this.#parts, redactor: call.redactor() })
    } catch (thrown) {
      const fault = this.#toFault(thrown, call.redactor())
      // Nothing is known of the operation: it is polled once more, with a separate place in the rate.
      if (call.lacksPlace) return { type: "hint" }
      return fault.code === ANSWER_TOO_LARGE
        ? { type: "error", fault, isFinal: true }
        : { type: "error", fault }
    } finally {
      call.end()
    }
  }

  async keep(result: OperationResult, { provider, owner, signal, place }: Keep): Promise<OperationResult> {
    const { registry, artifacts, now } = this.#parts
    if (artifacts === undefined || registry.get(provider)?.store !== true) return result
    return this.#keeper.result(result, {
      put: (name, body, options) => artifacts.put(name, body, { ...options, owner, signal }),
      ...{ owner, signal, place, now },
    })
  }

  async cancel(operation: Operation, given: ProviderCall): Promise<Fault | null> {
    const provider = this.#parts.registry.get(operation.provider)
    if (provider?.cancel === undefined) return null
    const call = this.#call(operation, given)
    try {
      await call.within(() => provider.cancel!({ externalId: operation.externalId }, call.context))
      return null
    } catch (thrown) {
      return this.#toFault(thrown, call.redactor())
    } finally {
      call.end()
    }
  }

  #toFault(thrown: unknown, redactor: Redactor | null): Fault {
    return toFault(thrown, { now: this.#parts.now(), thrower: "provider", clean: redactor?.cleanError })
  }

  #call({ provider, jobId, nodeId }: Operation, given: ProviderCall): Call {
    const { registry, secrets, now, log } = this.#parts
    const definition = registry.get(provider)
    const seconds = definition?.timeoutSeconds ?? registry.settings.providerTimeoutSeconds
    return new Call({
      ...given,
      declared: () => declaredSecrets(definition, secrets),
      jobId,
      nodeId,
      seconds,
      secrets,
      now,
      log: log.child({ provider, job_id: jobId }),
    })
  }
}

/** The next answer will not be smaller: a result only grows. */
const ANSWER_TOO_LARGE = "E413"

interface CallParts extends ProviderCall, Pick<ProviderContext, "jobId" | "nodeId" | "now" | "log"> {
  readonly seconds: number
  readonly secrets: ProviderSecretSource
  /** Secrets that may be in an answer although the call did not read them. */
  readonly declared: () => readonly Secret[]
}

/** One call: its context, its time limit, and the secrets that it has read. */
class Call {
  readonly context: ProviderContext
  /** Did the function ask for another place where none is available? */
  lacksPlace = false
  readonly #seconds: number
  readonly #known = new Map<string, string>()
  readonly #declared: CallParts["declared"]
  readonly #abort = new AbortController()
  readonly #timer: NodeJS.Timeout
  readonly #outer: AbortSignal
  readonly #stop = () => this.#abort.abort(this.#outer.reason)

  constructor(parts: CallParts) {
    const { jobId, nodeId, now, log, secrets } = parts
    this.#seconds = parts.seconds
    this.#declared = parts.declared
    this.#outer = parts.signal
    this.#timer = setTimeout(() => this.#abort.abort(timedOut(this.#seconds)), parts.seconds * 1000)
    if (this.#outer.aborted) this.#stop()
    this.#outer.addEventListener("abort", this.#stop, { once: true })
    this.context = {
      ...{ jobId, nodeId, now, log, signal: this.#abort.signal },
      place: async () => {
        this.lacksPlace = parts.place === undefined
        if (parts.place === undefined) throw new Error("No place in the provider's rate is available here.")
        await parts.place()
      },
      secret: name => {
        const value = providerSecret(name, secrets)
        this.#known.set(name, value)
        return value
      },
    }
  }

  async within<T>(work: () => T | Promise<T>): Promise<T> {
    const { signal } = this.#abort
    const aborted = new Promise<never>((_, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
    )
    // The promise that loses the race may still reject, without a handler.
    aborted.catch(() => {})
    const asked = (async () => work())()
    asked.catch(() => {})
    signal.throwIfAborted()
    return Promise.race([asked, aborted])
  }

  redactor(): Redactor | null {
    const secrets = [...this.#known].map(([name, value]) => ({ name, value }))
    secrets.push(...this.#declared())
    return secrets.length === 0 ? null : new Redactor(secrets)
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#outer.removeEventListener("abort", this.#stop)
  }
}

function timedOut(seconds: number): HandlerError {
  return new HandlerError(`The provider did not answer within ${seconds} s.`, {
    code: "E408",
    retryable: true,
  })
}

/**
 * Converts a provider's report on an operation to what is stored of it: JSON only, bounded, without secrets.
 *
 * 1. A report that an operation has ended ends it, whatever else is wrong with the report: a result that
 *    cannot be stored fails the operation as it would fail a handler. Polling again would return the same.
 * 2. Values that are only displayed (a preview, the details of a failure) are left out if they cannot be
 *    stored.
 */
interface NewsLimits {
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
      throw finalError("E422", 'The status of an operation must be "completed", "failed" or "running".')
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
  return toFault(thrown, { now: 0, thrower: "provider", clean: redactor?.cleanError })
}

function faultOfNews(news: Extract<OperationNews, { status: "failed" }>, limits: NewsLimits): Fault {
  const { message, code = "E420", retryable = true, retryAfterSeconds, details } = news
  const clean = limits.redactor?.clean ?? ((text: string) => text)
  return {
    code: clean(String(code)).slice(0, 64),
    message: cut(clean(String(message)), 2000),
    retryable,
    retry_after_seconds: retryAfterSeconds,
    details: details === undefined ? undefined : checkDetails(details, limits),
  }
}

function checkDetails(details: JsonObject, limits: NewsLimits): JsonObject {
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
  const partial = preview === undefined || preview === null ? {} : checkPreview(preview, limits)
  const text = message == null ? (partial.leftOut ?? null) : clean(String(message))
  const said = text === null ? null : cut(text, messageLength)
  const shown = percent === null && said === null ? {} : { progress: { percent, message: said } }
  return { type: "running", ...shown, preview: partial.preview }
}

/** Without the preview the operation continues; the job shows why it is missing. */
function checkPreview(preview: unknown, limits: NewsLimits): { preview?: Json; leftOut?: string } {
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
