/**
 * Secrets are filled in where the handler runs, immediately before it runs. Before that they are only names;
 * afterwards only the handler has them: everything that the attempt reports passes the redactor.
 */
import type { LateTemplate } from "../broker/port.ts"
import type { Json } from "../core/json.ts"
import { withValueAt } from "../definition/document/json-value.ts"
import { UmbraError } from "../errors.ts"
import { compileTemplate, defaultLimits } from "../template/index.ts"
import { Run } from "../template/run.ts"
import type { Scope, Template } from "../template/types.ts"
import { Redactor, type Secret, shortestSecret } from "./redact.ts"

/**
 * The source of `{{ secrets.NAME }}` of workflows and pipelines. `owner` is that of the job: a source answers
 * for that owner alone. A source that queries a vault returns a promise; the attempt waits for it within its
 * timeout.
 */
export type SecretSource = (
  name: string,
  of: { readonly owner: string },
) => string | undefined | Promise<string | undefined>

/**
 * The source of credentials and signing keys of provider definitions: never readable by a workflow.
 * Synchronous, as `ctx.secret(name)` is: the operator chooses these names, and can fetch them before the
 * process opens.
 */
export type ProviderSecretSource = (name: string) => string | undefined

/**
 * The secrets that these templates name, each known and long enough. Throws E407 with the name, never the
 * value.
 */
export function resolveSecrets(
  late: readonly LateTemplate[],
  source: SecretSource,
  owner: string,
): Secret[] | Promise<Secret[]> {
  return readSecrets(
    late.flatMap(({ source }) => secretNames(compileTemplate(source))),
    source,
    owner,
  )
}

/** Returns a promise only where the source does. */
export function readSecrets(
  names: readonly string[],
  source: SecretSource,
  owner: string,
): Secret[] | Promise<Secret[]> {
  const found: (Secret | Promise<Secret>)[] = []
  for (const name of new Set(names)) {
    const value = source(name, { owner })
    if (!(value instanceof Promise)) {
      found.push({ name, value: usable(name, value) })
      continue
    }
    const secret = value.then(late => ({ name, value: usable(name, late) }))
    // A later name may throw, and then nothing awaits this promise.
    secret.catch(() => {})
    found.push(secret)
  }
  return found.some(each => each instanceof Promise) ? Promise.all(found) : (found as Secret[])
}

export function secretNames(template: Template): string[] {
  return template.references
    .filter(reference => reference.name === "secrets")
    .map(({ path }) => {
      const [name] = path
      if (typeof name === "string") return name
      throw new UmbraError(
        "E407",
        "Secrets are read by name, {{ secrets.NAME }}: the name cannot be computed.",
      )
    })
}

export function providerSecret(name: string, source: ProviderSecretSource): string {
  return usable(name, source(name))
}

function usable(name: string, value: string | undefined): string {
  if (value === undefined || value === "")
    throw new UmbraError(
      "E407",
      `The secret ${name} is not set: the source of secrets of this process does not have it.`,
      {
        details: { secret: name },
      },
    )
  if (value.length >= shortestSecret) return value
  throw new UmbraError(
    "E407",
    `The secret ${name} is shorter than ${shortestSecret} characters: it could not be removed from outputs and logs. ` +
      "Use a longer one.",
    { details: { secret: name } },
  )
}

const noScope: Scope = { names: {}, node: () => undefined, nodeIds: () => [] }

/**
 * `config` with its late templates rendered. `redactor` knows the secrets, and the values that templates
 * derived from them.
 */
export function fillIn(
  config: Json,
  late: readonly LateTemplate[],
  redactor: Redactor,
  maxBytes: number,
): { readonly config: Json; readonly redactor: Redactor } {
  const secrets = Object.fromEntries(redactor.secrets.map(({ name, value }) => [name, value]))
  const derived: Secret[] = []
  let filled = config
  // One run, as for all templates of a config.
  const run = new Run(noScope, { ...defaultLimits, bytes: maxBytes })
  for (const { path, source, names, nodes } of late) {
    const template = compileTemplate(source)
    run.scope = {
      names: { ...names, secrets },
      node: id => (Object.hasOwn(nodes, id) ? nodes[id] : undefined),
      nodeIds: () => Object.keys(nodes),
    }
    const value = template.renderIn(run)
    derived.push(...derivedFrom(value, template, redactor))
    filled = withValueAt(filled, path, value)
  }
  return {
    config: filled,
    redactor: derived.length === 0 ? redactor : new Redactor([...redactor.secrets, ...derived]),
  }
}

/** A filter may have transformed a secret (`| upper`): then the whole rendered text is a secret too. */
function derivedFrom(value: Json, template: Template, redactor: Redactor): Secret[] {
  if (typeof value !== "string" || value.length < 8 || redactor.clean(value) !== value) return []
  return [{ name: secretNames(template).join(" "), value }]
}
