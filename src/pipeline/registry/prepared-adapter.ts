/** An adapter with the config that a route gives it, ready to be called. */
import type { Json } from "../../core/json.ts"
import { Breaker } from "../../core/pipeline/breaker.ts"
import { isObject } from "../../definition/document/json-value.ts"
import type { AdapterPlan, RoutePlan } from "../../definition/pipeline/plan.ts"
import { UmbraError } from "../../errors.ts"
import { isTruthy } from "../../template/run/values.ts"
import type { Scope } from "../../template/types.ts"
import { checkSchema } from "../../worker/output.ts"
import { Redactor, type Secret } from "../../worker/redact.ts"
import { readSecrets, type SecretSource, secretNames } from "../../worker/secrets.ts"
import type { Adapter } from "../adapter.ts"
import { filter } from "../adapters/plain.ts"

export interface Adapters {
  get(type: string): Adapter | undefined
}

/** What templates of a config can read besides the message. */
export interface ScopeNames {
  readonly input: Json
  readonly job: Json
}

/** The part of a route that concerns its adapters. Its limits apply where the execution runs. */
export type ChainPlan = Pick<RoutePlan, "name" | "adapters" | "outbound" | "rules" | "breaker">

export interface PreparedRoute {
  readonly adapters: readonly PreparedAdapter[]
  /** null: no config of the route reads a secret. */
  readonly redactor: Redactor | null
}

/** The secrets that adapters of these routes read. Throws E407. */
export async function routeSecrets(
  routes: readonly ChainPlan[],
  source: SecretSource,
  owner: string,
): Promise<readonly Secret[]> {
  return readSecrets(routes.flatMap(routeSecretNames), source, owner)
}

function routeSecretNames({ adapters }: ChainPlan): string[] {
  return adapters.flatMap(({ config }) => config.templates.flatMap(({ template }) => secretNames(template)))
}

export function prepareRoute(
  plan: ChainPlan,
  given: { readonly adapters: Adapters; readonly names: ScopeNames; readonly secrets: readonly Secret[] },
): PreparedRoute {
  const read = new Set(routeSecretNames(plan))
  const secrets = given.secrets.filter(({ name }) => read.has(name))
  const values = Object.fromEntries(secrets.map(({ name, value }) => [name, value]))
  const names = { ...given.names, ...(secrets.length === 0 ? {} : { secrets: values }) }
  const adapters = plan.adapters.map(each => {
    const adapter = given.adapters.get(each.type)
    if (adapter === undefined) throw notHere(each.type, plan.name)
    return new PreparedAdapter(adapter, each, plan, names)
  })
  return { adapters, redactor: secrets.length === 0 ? null : new Redactor(secrets) }
}

export class PreparedAdapter {
  readonly adapter: Adapter
  /** null: the route has none. */
  readonly breaker: Breaker | null
  readonly #plan: AdapterPlan
  readonly #names: { readonly [name: string]: Json }
  readonly #rules: number
  readonly #constant: { readonly config: unknown } | null

  constructor(
    adapter: Adapter,
    plan: AdapterPlan,
    route: ChainPlan,
    names: { readonly [name: string]: Json },
  ) {
    this.adapter = adapter
    this.#plan = plan
    this.#names = names
    this.#rules = route.rules
    this.breaker = route.breaker === null ? null : new Breaker(route.breaker)
    const reads = plan.config.templates.flatMap(({ template }) => template.references)
    // A config that does not read the message is the same for all messages.
    const isConstant = reads.every(({ name }) => name !== "message")
    this.#constant = isConstant ? { config: this.#checked(plan.config.render(this.#scope(null))) } : null
    // Each message reports the error; without messages the rejection must not end the process.
    if (this.#constant?.config instanceof Promise) this.#constant.config.catch(() => {})
  }

  get type(): string {
    return this.#plan.type
  }

  /** Returns a promise only if the schema is asynchronous. */
  configFor(body: Json): unknown {
    if (this.#constant !== null) return this.#constant.config
    return this.#checked(this.#plan.config.render(this.#scope(body)))
  }

  #checked(config: Json): unknown {
    const { config: schema } = this.adapter
    if (schema === undefined) return config
    const value = this.#rules < 2 && this.adapter === filter ? withTextCondition(config) : config
    return checkSchema({ schema, value, what: `config of adapter "${this.type}"`, code: "E403" })
  }

  #scope(message: Json): Scope {
    return { names: { ...this.#names, message }, node: () => undefined, nodeIds: () => [] }
  }
}

/** In a pipeline stored under rules 1, text is also a condition of `filter`. */
function withTextCondition(config: Json): Json {
  return isObject(config) ? { ...config, when: isTruthy((config.when ?? null) as Json) } : config
}

function notHere(type: string, route: string): UmbraError {
  return new UmbraError(
    "E103",
    `Route "${route}" needs the adapter "${type}", which is not registered in the process that runs the pipeline. ` +
      "Start that process with the module or the package that defines it.",
  )
}
