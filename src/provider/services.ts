/**
 * The external services of a process: the providers, the handlers that submit to them, and what an engine
 * calls.
 */
import { pollQueue } from "../engine/providers/polls.ts"
import type { ProviderStore } from "../journal/port/providers.ts"
import type { Log } from "../log.ts"
import { providerSecretsFromEnvironment, secretsFromEnvironment } from "../worker/environment-secrets.ts"
import { defineHandler, type Handler } from "../worker/handler.ts"
import type { SubmissionRules } from "../worker/handlers/call-external-service.ts"
import { builtinHandlers } from "../worker/handlers/index.ts"
import type { ProviderSecretSource, SecretSource } from "../worker/secrets.ts"
import type { WorkerSettings } from "../worker/settings.ts"
import { ProviderCalls } from "./calls.ts"
import { externalHandler } from "./external-handler.ts"
import type { Provider } from "./provider.ts"
import { ProviderRegistry } from "./registry.ts"
import { type ProviderSettings, providerSettings } from "./settings.ts"
import { type ProviderView, providerView } from "./view.ts"
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
      externalHandler(this.#registry, this.#providerSecrets),
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

  calls(log: Log): ProviderCalls {
    return new ProviderCalls({ ...this.#shared(), log })
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
