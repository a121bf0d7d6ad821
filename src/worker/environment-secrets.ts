/**
 * Secrets from environment variables, in two name spaces: workflows and pipelines read `UMBRA_SECRET_NAME` as
 * `{{ secrets.NAME }}`, definitions of providers read `UMBRA_PROVIDER_SECRET_NAME`. No other variable is
 * readable.
 *
 * 1. Only the rules (setting `secrets`) decide which owners may read a secret, never which owners exist: a
 *    worker of a fleet has no database, and a new owner must not change what others may read.
 * 2. Without a rule only the local owner reads a secret, as long as the rules name no other owner. With
 *    several owners a secret needs a list of them or `shared: true`; without either no owner reads it, not
 *    even the local one.
 * 3. A variable that a rule names (`variable`) is readable through that rule only: under its own name it is a
 *    secret only if that name has a rule too.
 * 4. An owner without access to a secret gets the same message whether the variable is set or not.
 */
import { localOwner } from "../core/facts.ts"
import { UmbraError } from "../errors.ts"
import { type Environment, readSettings, type Setting, type SettingTable, settingNames } from "../settings.ts"
import type { ProviderSecretSource, SecretSource } from "./secrets.ts"

/** The owners that may read a secret: a list, or all. */
export interface SecretRule {
  readonly owners?: readonly string[]
  readonly shared?: boolean
  /** Default: `UMBRA_SECRET_` and the secret's name. Another variable gives an owner a separate value. */
  readonly variable?: string
}

/** By the secret's name; `*` applies to names without a rule. */
export type SecretRules = { readonly [name: string]: SecretRule | readonly SecretRule[] }

const WORKFLOW_PREFIX = "UMBRA_SECRET_"
const PROVIDER_PREFIX = "UMBRA_PROVIDER_SECRET_"
const OTHERS = "*"

const rules: Setting<SecretRules> = {
  ...settingNames("UMBRA_SECRETS"),
  default: {},
  read: text => {
    try {
      return JSON.parse(text) as SecretRules
    } catch {
      return text as never
    }
  },
  wrong: value => (isRules(value) ? undefined : expected),
}

export const secretTable: SettingTable<{ readonly secrets: SecretRules }> = { secrets: rules }

const expected =
  'a mapping from names of secrets to { owners: [NAME, …] } or { shared: true }, or a list of these, each with a variable "UMBRA_SECRET_…" of its own'

function isRules(value: unknown): value is SecretRules {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false
  return Object.entries(value).every(([name, rule]) =>
    [rule].flat().every(each => isRule(each) && !(name === OTHERS && each.variable !== undefined)),
  )
}

function isRule(value: unknown): value is SecretRule {
  if (typeof value !== "object" || value === null) return false
  const { owners, shared, variable, ...unknown } = value as Record<string, unknown>
  const isList = Array.isArray(owners) && owners.every(owner => typeof owner === "string" && owner !== "")
  const isForAll = shared === true && owners === undefined
  const isVariable =
    variable === undefined || (typeof variable === "string" && variable.startsWith(WORKFLOW_PREFIX))
  return (isForAll || (isList && !shared)) && isVariable && Object.keys(unknown).length === 0
}

/** For workflows and pipelines: `{{ secrets.NAME }}`. */
export function secretsFromEnvironment(environment: Environment = process.env): SecretSource {
  const { secrets } = readSettings(secretTable, {}, environment)
  const hasOwners = namesOwners(secrets)
  const assigned = assignedVariables(secrets)
  return (name, { owner }) => {
    mustBeName(name)
    const own = Object.hasOwn(secrets, name) ? secrets[name] : undefined
    if (own === undefined && assigned.has(WORKFLOW_PREFIX + name)) throw notGiven(name, owner)
    const entry = own ?? secrets[OTHERS]
    if (entry === undefined && owner === localOwner && hasOwners) throw withoutRule(name)
    const rule = entry === undefined ? ruleOfNone(owner) : ruleFor(entry, owner)
    if (rule === undefined) throw notGiven(name, owner)
    const variable = rule.variable ?? WORKFLOW_PREFIX + name
    const value = readVariable(environment, variable)
    if (value !== undefined) return value
    // With the rule "*" other owners could ask for any name: the existence of a variable is revealed only for
    // names that a rule gives to them.
    const mayKnow = owner === localOwner || own !== undefined
    throw notSet(name, variable, mayKnow && readVariable(environment, name) !== undefined)
  }
}

/** For definitions of providers: `{{ secrets.NAME }}` of their requests, `ctx.secret(NAME)`, keys of webhooks. */
export function providerSecretsFromEnvironment(environment: Environment = process.env): ProviderSecretSource {
  return name => {
    mustBeName(name)
    const variable = PROVIDER_PREFIX + name
    const value = readVariable(environment, variable)
    if (value === undefined) throw notSet(name, variable, readVariable(environment, name) !== undefined)
    return value
  }
}

/** Do the rules name an owner besides the local one? */
function namesOwners(secrets: SecretRules): boolean {
  const rules = Object.values(secrets).flat() as readonly SecretRule[]
  return rules.some(({ owners = [] }) => owners.some(owner => owner !== localOwner))
}

/** The variables that rules name. */
function assignedVariables(secrets: SecretRules): ReadonlySet<string> {
  const rules = Object.values(secrets).flat() as readonly SecretRule[]
  return new Set(rules.flatMap(({ variable }) => variable ?? []))
}

const ruleOfNone = (owner: string): SecretRule | undefined => (owner === localOwner ? {} : undefined)

function ruleFor(entry: SecretRules[string], owner: string): SecretRule | undefined {
  return [entry].flat().find(({ owners, shared }) => shared === true || owners?.includes(owner))
}

/** Valid names of variables, safe in the command that a message tells the operator to run. */
function mustBeName(name: string): void {
  if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return
  throw new UmbraError(
    "E407",
    `A secret's name has letters, digits and "_" only, not ${JSON.stringify(name)}.`,
  )
}

/** An empty variable counts as not set. */
function readVariable(environment: Environment, variable: string): string | undefined {
  return (Object.hasOwn(environment, variable) ? environment[variable] : undefined) || undefined
}

function notSet(name: string, variable: string, isBare: boolean): UmbraError {
  const message = isBare
    ? `The secret ${name} is not set: the variable ${name} is set, but only ${variable} is read. ` +
      `Where the worker runs: export ${variable}="$${name}"`
    : `The secret ${name} is not set. Where the worker runs: export ${variable}="…"`
  return new UmbraError("E407", message, { details: { secret: name, variable } })
}

function withoutRule(name: string): UmbraError {
  const [own, all] = [{ owners: [localOwner] }, { shared: true }].map(rule =>
    JSON.stringify({ [name]: rule }),
  )
  return new UmbraError(
    "E407",
    `The secret ${name} has no rule, and the configuration gives secrets to several owners, so it is given to none. ` +
      `Say who may read it: secrets: ${own}, or for every owner: secrets: ${all}`,
    { details: { secret: name, owner: localOwner } },
  )
}

function notGiven(name: string, owner: string): UmbraError {
  const rule = JSON.stringify({ [name]: { owners: [owner] } })
  return new UmbraError(
    "E407",
    `The secret ${name} is not given to owner "${owner}". The operator sets it where workers run, ` +
      `export ${WORKFLOW_PREFIX}${name}="$${name}", and names the owner in the configuration file: secrets: ${rule}`,
    { details: { secret: name, owner } },
  )
}
