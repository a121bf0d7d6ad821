/**
 * The external services of a process: the providers, the handlers that submit to them, and what an engine
 * calls.
 */

import type { Artifacts } from "../artifacts/artifacts.ts"
import { toFault } from "../core/faults.ts"
import type { Json } from "../core/json.ts"
import { isoTime } from "../engine/clock.ts"
import { pollQueue } from "../engine/providers/polls.ts"
import type { ProviderTerms } from "../engine/providers/providers.ts"
import type { ProviderOverview, ProviderStore } from "../journal/port/providers.ts"
import type { Log } from "../log.ts"
import { providerSecretsFromEnvironment, secretsFromEnvironment } from "../worker/environment-secrets.ts"
import { finalError, HandlerError } from "../worker/fail.ts"
import { defineHandler, type Handler, type HandlerContext } from "../worker/handler.ts"
import type { SubmissionRules } from "../worker/handlers/call-external-service.ts"
import { builtinHandlers } from "../worker/handlers/index.ts"
import { externalSpec } from "../worker/handlers/specs.ts"
import { HttpClient } from "../worker/http/client.ts"
import { checkOutput } from "../worker/output.ts"
import { Redactor, type Secret } from "../worker/redact.ts"
import { type ProviderSecretSource, providerSecret, type SecretSource } from "../worker/secrets.ts"
import type { WorkerSettings } from "../worker/settings.ts"
import { externalIdProblem, isWait, submitted } from "../worker/waiting.ts"
import { declaredSecrets, ProviderCalls } from "./calls.ts"
import { UrlKeeper } from "./keep.ts"
import type { Provider, Submission, SubmitContext } from "./provider.ts"
import { ProviderRegistry } from "./registry.ts"
import { type ProviderSettings, providerSettings } from "./settings.ts"
import { Webhooks, type WebhooksParts } from "./webhooks.ts"

export interface ExternalServicesOptions {
  /** External services that finish work out of band (docs/reference/providers.md). */
  readonly providers?: readonly Provider[]
  readonly provider?: Partial<ProviderSettings>
  /**
   * The source of `{{ secrets.NAME }}` of workflows and pipelines; default: variables `UMBRA_SECRET_NAME`.
   */
  readonly secrets?: SecretSource
  /** The source of the secrets of provider definitions; default: variables `UMBRA_PROVIDER_SECRET_NAME`. */
  readonly providerSecrets?: ProviderSecretSource
}

export class ExternalServices {
  /** For workflows and pipelines. */
  readonly secrets: SecretSource
  readonly #providerSecrets: ProviderSecretSource
  readonly #registry: ProviderRegistry
  readonly #worker: WorkerSettings
  readonly #now: () => number

  constructor(options: ExternalServicesOptions, worker: WorkerSettings, now: () => number) {
    this.secrets = options.secrets ?? secretsFromEnvironment()
    this.#providerSecrets = options.providerSecrets ?? providerSecretsFromEnvironment()
    this.#registry = new ProviderRegistry(providerSettings(options.provider), options.providers)
    this.#worker = worker
    this.#now = now
  }

  /** The built-in handlers: some of them submit. */
  handlers(): Handler[] {
    return [
      ...builtinHandlers(this.#worker, name => submissionRules(this.#registry.get(name))),
      externalHandler(this.#registry, this.#providerSecrets, new UrlKeeper(new HttpClient(this.#worker))),
    ]
  }

  /** S1: with these handlers a worker polls operations for the engines, in a queue for each provider. */
  pollHandlers(log: Log): Handler[] {
    const calls = this.calls(log)
    const polled = this.#registry.names().filter(name => this.#registry.terms(name)?.poll != null)
    return polled.map(provider =>
      defineHandler({
        name: pollQueue(provider),
        run: (config: unknown, { jobId, nodeId, signal }) => {
          const { external_id: externalId } = config as { external_id: string }
          return calls.poll({ provider, externalId, jobId, nodeId }, { signal })
        },
      }),
    )
  }

  /** `artifacts`: where results are stored, for providers with `store`; absent: another process does that. */
  calls(log: Log, artifacts?: Pick<Artifacts, "put">): ProviderCalls {
    const http = new HttpClient(this.#worker)
    return new ProviderCalls({ ...this.#shared(), log, http, ...(artifacts && { artifacts }) })
  }

  webhooks(parts: Pick<WebhooksParts, "store" | "inboxChanged">): Webhooks {
    return new Webhooks({ ...this.#shared(), ...parts })
  }

  async views(store: ProviderStore): Promise<ProviderView[]> {
    const views = this.#registry.names().map(async name => {
      const overview = await store.overview({ provider: name, at: this.#now() })
      return providerView(name, this.#registry.terms(name)!, overview)
    })
    return Promise.all(views)
  }

  #shared() {
    const { maxOutputBytes, maxPreviewBytes } = this.#worker
    return {
      registry: this.#registry,
      secrets: this.#providerSecrets,
      now: this.#now,
      maxOutputBytes,
      maxPreviewBytes,
    }
  }
}

/**
 * A provider that does not declare its origins may be followed nowhere: its polls and cancels carry the
 * operator's credentials.
 */
function submissionRules(provider: Provider | undefined): SubmissionRules | null {
  const { externalIdOf, origins } = provider ?? {}
  if (externalIdOf === undefined) return null
  return {
    externalId: answer => externalIdOf(answer),
    origins: origins === null ? null : new Set((origins ?? []).map(origin => new URL(origin).origin)),
  }
}

/** `external`: the node's provider does the work (X1). */
function externalHandler(
  registry: ProviderRegistry,
  secrets: ProviderSecretSource,
  keeper: UrlKeeper,
): Handler {
  return defineHandler({
    ...externalSpec,
    async run(config, ctx) {
      const provider = requireProvider(registry, ctx)
      // An answer may contain what it was sent, and the keys that webhooks are signed with.
      const known = declaredSecrets(provider, secrets)
      const context = submitContext(ctx, name => {
        const value = providerSecret(name, secrets)
        known.push({ name, value })
        return value
      })
      try {
        const submission = await provider.submit!((config ?? {}) as Json, context)
        const concluded = await conclude(submission, provider, context)
        if (isWait(concluded)) return concluded
        const output = known.length === 0 ? concluded : withoutSecrets(concluded, known)
        return provider.store === true ? await keeper.output(output, ctx) : output
      } catch (thrown) {
        throw known.length === 0 ? thrown : cleaned(thrown, ctx.now(), known)
      }
    },
  })
}

function withoutSecrets(output: unknown, known: readonly Secret[]): Json {
  const { value } = checkOutput(output, { maxBytes: Number.POSITIVE_INFINITY, what: "output" })
  return new Redactor(known).value(value)
}

/** A provider's answer may echo what it was sent. */
function cleaned(thrown: unknown, now: number, known: readonly Secret[]): HandlerError {
  const fault = toFault(thrown, { now, clean: new Redactor(known).cleanError })
  const { code, message, retryable, details, retry_after_seconds: wait } = fault
  return new HandlerError(message, { code, retryable, details, retryAfterSeconds: wait })
}

function requireProvider(registry: ProviderRegistry, { provider: name }: HandlerContext): Provider {
  const provider = name === null ? undefined : registry.get(name)
  if (name === null)
    throw finalError("E421", "A node with handler external needs `provider:`, whose submit does the work.")
  if (provider?.submit !== undefined) return provider
  throw finalError("E421", `Provider "${name}" has no submit. Add one, or use a handler that submits itself.`)
}

function submitContext(ctx: HandlerContext, secret: SubmitContext["secret"]): SubmitContext {
  const { jobId, nodeId, signal, now, log, idempotencyKey, place } = ctx
  return { jobId, nodeId, signal, now, log, idempotencyKey, place, secret }
}

async function conclude(
  submission: Submission,
  provider: Provider,
  context: SubmitContext,
): Promise<unknown> {
  if (typeof submission === "object" && submission !== null && "externalId" in submission) {
    const { externalId } = submission
    const problem = externalIdProblem(externalId)
    if (problem !== undefined) throw unusable(provider.name, `an id that cannot be used: ${problem}`)
    // Nothing waits for the operation any more, and its id will not be stored: this is the last chance to
    // cancel it.
    if (context.signal.aborted) await provider.cancel?.({ externalId }, context)
    return submitted(externalId)
  }
  if (typeof submission === "object" && submission !== null && "output" in submission)
    return submission.output ?? null
  throw unusable(provider.name, "neither { externalId } nor { output }")
}

function unusable(provider: string, what: string): HandlerError {
  return finalError("E422", `submit of provider "${provider}" returned ${what}.`)
}

/** A provider as `GET /providers` shows it. */
export type ProviderView = ReturnType<typeof providerView>

function providerView(name: string, terms: ProviderTerms, overview: ProviderOverview) {
  const { held, waiting, oldestAskedAt, operations, pace, errors } = overview
  return {
    name,
    /** The owners whose jobs may use it; null: all owners. */
    owners: terms.owners,
    slots: {
      /** null: no limit. */
      limit: terms.concurrency,
      limit_per_owner: terms.concurrencyPerOwner,
      held: held.map(({ jobId, owner, grantedAt, heldUntil }) => ({
        job_id: jobId,
        owner,
        granted_at: isoTime(grantedAt),
        held_until: isoTime(heldUntil),
      })),
      waiting,
      oldest_asked_at: oldestAskedAt === null ? null : isoTime(oldestAskedAt),
    },
    rate: {
      /** Requests per second; null: no limit. */
      limit: terms.rate,
      limit_per_owner: terms.ratePerOwner,
      /** The share of the rate in use: less than 1 after the provider has reported overload. */
      // Without a limit there is no share of it: nothing would ever restore it to 1.
      pace: terms.rate === null ? 1 : pace,
    },
    /** The number of operations that have not ended. */
    operations,
    /**
     * For jobs that have ended: submissions without an answer, so that an operation may be running unnoticed. They
     * hold slots.
     */
    unseen_operations: overview.unseen.map(({ jobId, owner, since, slotUntil }) => ({
      job_id: jobId,
      owner,
      since: isoTime(since),
      held_until: isoTime(slotUntil),
    })),
    /** Newest first. */
    recent_errors: errors.map(error => ({ ...error, at: isoTime(error.at) })),
  }
}
