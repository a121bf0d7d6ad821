/**
 * Calls of a provider's own functions: bounded in time, total, and without secrets in the result.
 *
 * 1. Nothing is thrown: whatever the function does, the answer is a result or a fault.
 * 2. A function that ignores its signal is not waited for beyond its time.
 */
import type { OperationResult } from "../core/commands.ts"
import { type Fault, toFault } from "../core/faults.ts"
import type { Operation, ProviderCall, Providers, ProviderTerms } from "../engine/providers/providers.ts"
import { UmbraError } from "../errors.ts"
import type { Log } from "../log.ts"
import { HandlerError } from "../worker/fail.ts"
import { Redactor, type Secret } from "../worker/redact.ts"
import { type ProviderSecretSource, providerSecret } from "../worker/secrets.ts"
import { parseResult } from "./news.ts"
import type { Provider, ProviderContext } from "./provider.ts"
import type { ProviderRegistry } from "./registry.ts"
import { signingSecrets } from "./signature.ts"

export interface ProviderCallsParts {
  readonly registry: ProviderRegistry
  readonly secrets: ProviderSecretSource
  readonly now: () => number
  readonly log: Log
  readonly maxOutputBytes: number
  readonly maxPreviewBytes: number
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

  constructor(parts: ProviderCallsParts) {
    this.#parts = parts
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
      const fault = this.#faultOf(thrown, call.redactor())
      // Nothing is known of the operation: it is polled once more, with a separate place in the rate.
      if (call.lacksPlace) return { type: "hint" }
      return fault.code === ANSWER_TOO_LARGE
        ? { type: "error", fault, isFinal: true }
        : { type: "error", fault }
    } finally {
      call.end()
    }
  }

  async cancel(operation: Operation, given: ProviderCall): Promise<Fault | null> {
    const provider = this.#parts.registry.get(operation.provider)
    if (provider?.cancel === undefined) return null
    const call = this.#call(operation, given)
    try {
      await call.within(() => provider.cancel!({ externalId: operation.externalId }, call.context))
      return null
    } catch (thrown) {
      return this.#faultOf(thrown, call.redactor())
    } finally {
      call.end()
    }
  }

  #faultOf(thrown: unknown, redactor: Redactor | null): Fault {
    return toFault(thrown, { now: this.#parts.now(), thrower: "provider", clean: redactor?.clean })
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
