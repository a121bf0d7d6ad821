/**
 * Secrets are filled in where the handler runs, as the last thing before it runs. Before that they are only names;
 * afterwards only the handler has them: whatever the attempt reports goes through the redactor.
 */
import type { LateTemplate } from "../broker/port.ts"
import type { Json } from "../core/json.ts"
import { UmbraError } from "../errors.ts"
import { compileTemplate } from "../template/index.ts"
import type { Template } from "../template/types.ts"
import { Redactor, type Secret, shortestSecret } from "./redact.ts"

/** Where secrets come from, by name. */
export type SecretSource = (name: string) => string | undefined

/** The environment's variables, except what belongs to Umbra itself. */
export function secretsFromEnvironment(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): SecretSource {
  return name => {
    if (name.startsWith("UMBRA_") || name === "DATABASE_URL") {
      throw new UmbraError(
        "E407",
        `${name} belongs to Umbra itself and is no secret for workflows. Use another name.`,
      )
    }
    return Object.hasOwn(environment, name) ? environment[name] : undefined
  }
}

/** The secrets that these templates name, each known and long enough. Throws E407 with the name, never the value. */
export function secretsOf(late: readonly LateTemplate[], source: SecretSource): Secret[] {
  const names = new Set(late.flatMap(({ source }) => namesIn(compileTemplate(source))))
  return [...names].map(name => ({ name, value: secretNamed(name, source) }))
}

function namesIn(template: Template): string[] {
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

export function secretNamed(name: string, source: SecretSource): string {
  const value = source(name)
  if (value === undefined || value === "") {
    throw new UmbraError(
      "E407",
      `The secret ${name} is not set. Set the variable ${name} where the worker runs.`,
      {
        details: { secret: name },
      },
    )
  }
  if (value.length >= shortestSecret) return value
  throw new UmbraError(
    "E407",
    `The secret ${name} is shorter than ${shortestSecret} characters: it could not be kept out of outputs and logs. ` +
      "Use a longer one.",
    { details: { secret: name } },
  )
}

/** `config` with its late templates rendered. `redactor` knows the secrets, and what templates made of them. */
export function fillIn(
  config: Json,
  late: readonly LateTemplate[],
  redactor: Redactor,
): { readonly config: Json; readonly redactor: Redactor } {
  const secrets = Object.fromEntries(redactor.secrets.map(({ name, value }) => [name, value]))
  const derived: Secret[] = []
  let filled = config
  for (const { path, source, names, nodes } of late) {
    const template = compileTemplate(source)
    const value = template.render({
      names: { ...names, secrets },
      node: id => (Object.hasOwn(nodes, id) ? nodes[id] : undefined),
      nodeIds: () => Object.keys(nodes),
    })
    derived.push(...derivedFrom(value, template, redactor))
    filled = withValue(filled, path, value)
  }
  return {
    config: filled,
    redactor: derived.length === 0 ? redactor : new Redactor([...redactor.secrets, ...derived]),
  }
}

/** A filter may have changed a secret beyond recognition (`| upper`): then the whole rendered text is one too. */
function derivedFrom(value: Json, template: Template, redactor: Redactor): Secret[] {
  if (typeof value !== "string" || value.length < 8 || redactor.clean(value) !== value) return []
  return [{ name: namesIn(template).join(" "), value }]
}

function withValue(target: Json, path: LateTemplate["path"], value: Json): Json {
  const [key, ...rest] = path
  if (key === undefined) return value
  if (Array.isArray(target)) return target.map((item, i) => (i === key ? withValue(item, rest, value) : item))
  const fields = target as { readonly [key: string]: Json }
  return { ...fields, [key]: withValue(fields[key] ?? null, rest, value) }
}
