/** The providers of a process, by name, completed with the settings. */
import type { PollPolicy } from "../core/plan.ts"
import type { ProviderTerms } from "../engine/providers/providers.ts"
import { UmbraError } from "../errors.ts"
import { isProvider, type Provider } from "./provider.ts"
import type { ProviderSettings } from "./settings.ts"

export class ProviderRegistry {
  readonly settings: ProviderSettings
  readonly #providers = new Map<string, Provider>()
  readonly #terms = new Map<string, ProviderTerms>()

  constructor(settings: ProviderSettings, providers: Iterable<Provider> = []) {
    this.settings = settings
    for (const provider of providers) this.#add(provider)
    checkAccounts([...this.#providers.values()])
    for (const [name, terms] of this.#terms) this.#terms.set(name, { ...terms, ...this.#sharedAccount(name) })
  }

  #sharedAccount(name: string): Pick<ProviderTerms, "sameAccount"> {
    const own = this.#providers.get(name)!
    const others = [...this.#providers.values()].filter(other => other !== own && sharesAccount(own, other))
    return others.length === 0 ? {} : { sameAccount: others.map(other => other.name) }
  }

  #add(provider: Provider): void {
    if (!isProvider(provider))
      throw new UmbraError(
        "E605",
        "A provider is the result of defineProvider({ name, … }) or httpProvider({ … }).",
      )
    const { name } = provider
    if (this.#providers.has(name))
      throw new UmbraError("E605", `There are two providers named "${name}". Give one of them another name.`)
    this.#providers.set(name, provider)
    this.#terms.set(name, providerTerms(provider, this.settings))
  }

  get(name: string): Provider | undefined {
    return this.#providers.get(name)
  }

  terms(name: string): ProviderTerms | undefined {
    return this.#terms.get(name)
  }

  names(): readonly string[] {
    return [...this.#providers.keys()]
  }
}

function providerTerms(provider: Provider, settings: ProviderSettings): ProviderTerms {
  const { concurrency, rate, ttlSeconds } = provider
  return {
    concurrency: concurrency === undefined ? settings.providerConcurrency : concurrency,
    rate: rate === undefined ? settings.providerRate : rate,
    owners: provider.owners ?? null,
    concurrencyPerOwner: provider.concurrencyPerOwner ?? null,
    ratePerOwner: provider.ratePerOwner ?? null,
    poll: pollPolicy(provider, settings),
    ttlSeconds: ttlSeconds ?? null,
    timeoutSeconds: provider.timeoutSeconds ?? settings.providerTimeoutSeconds,
    honoursKeys: provider.honoursKeys ?? false,
  }
}

function pollPolicy(provider: Provider, settings: ProviderSettings): PollPolicy | null {
  if (provider.poll === undefined) return null
  return {
    seconds: provider.pollSeconds ?? settings.pollSeconds,
    jitter: provider.pollJitter ?? settings.pollJitter,
    maxErrors: provider.maxPollErrors ?? null,
  }
}

/** Do the ids of both name the same operations? Where no account is given, a common origin decides. */
function sharesAccount(a: Provider, b: Provider): boolean {
  if (a.account !== undefined && b.account !== undefined) return a.account === b.account
  const origins = new Set(parseOrigins(a))
  return parseOrigins(b).some(origin => origins.has(origin))
}

/**
 * Two definitions of one account that do not share their operations would let one owner reach the operations of
 * another. Where a host is in a secret, and may differ between processes, only the operator knows. Throws E605.
 */
function checkAccounts(providers: readonly Provider[]): void {
  const counted = providers.filter(each => each.hasSecretOrigin || parseOrigins(each).length > 0)
  for (const secret of counted.filter(({ hasSecretOrigin }) => hasSecretOrigin)) {
    const other = counted.find(
      each => each !== secret && (each.account === undefined || secret.account === undefined),
    )
    if (other === undefined) continue
    const without = [secret, other]
      .filter(({ account }) => account === undefined)
      .map(({ name }) => `"${name}"`)
    throw new UmbraError(
      "E605",
      `The host of provider "${secret.name}" is in a secret, so it is not known whether provider "${other.name}" uses ` +
        `the same account. Add \`account: NAME\` to ${without.join(" and ")}: the same name in both if their ` +
        "operations are the same, otherwise different names.",
    )
  }
}

function parseOrigins({ origins }: Provider): string[] {
  return (origins ?? []).map(origin => new URL(origin).origin)
}
