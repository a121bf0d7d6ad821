/**
 * Checks a config against the schema of its handler or adapter (E102). Templates may be anywhere in it, and their values
 * are known only when the node runs; then the rendered config is checked again. So an issue counts here only if no
 * possible value of a template would remove it.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { Json } from "../../core/json.ts"
import { compileTemplate, compileValue, insteadOfText, isTemplate } from "../../template/index.ts"
import type { ValueTemplate } from "../../template/types.ts"
import { firstIssues, valueCount } from "../document/first-issues.ts"
import { kinds, UNKNOWN_KEYS } from "../document/issues.ts"
import { isObject, valueAt, withValueAt } from "../document/json-value.ts"
import { richPatterns } from "../input/input-schema.ts"
import type { DocumentPath, ProblemList } from "../problem.ts"
import type { Suggester } from "../suggest.ts"

/** Whose config it is: that of a handler or an adapter. */
interface Configured {
  readonly config?: StandardSchemaV1
  readonly schemas?: readonly string[]
}

export interface ConfigCheck {
  readonly owner: Configured
  /** Its name in messages: `handler "x"`. */
  readonly title: string
  readonly config: Json
  /** The path of the config; computed only if there is a problem. */
  readonly path: () => DocumentPath
}

export function checkConfig(
  { owner, title, config, path }: ConfigCheck,
  { problems, suggest }: { readonly problems: ProblemList; readonly suggest: Suggester },
): void {
  for (const key of owner.schemas ?? []) {
    const schema = valueAt(config, [key])
    if (isObject(schema))
      for (const rich of richPatterns(schema))
        problems.add("E102", [...path(), key, ...rich.path], rich.message)
  }
  if (owner.config === undefined) return
  for (const issue of configIssues(owner, config, suggest)) {
    const text = /[.?]$/.test(issue.message) ? issue.message : `${issue.message}.`
    const message = `The config does not fit ${title}: ${text}`
    problems.add("E102", [...path(), ...issue.path], message, { key: issue.key })
  }
}

/**
 * The config without the white space around an expression, wherever the schema does not accept text: with it the template
 * would yield text instead of the intended number or boolean.
 */
export function trimExpressions(owner: Configured, config: ValueTemplate): ValueTemplate {
  let trimmed = config.source
  const probe = new TextProbe()
  for (const { path, template } of config.templates) {
    const source = template.source.trim()
    if (source === template.source || !compileTemplate(source).isExpression) continue
    if (probe.refuses(owner, config.source, path)) trimmed = withValueAt(trimmed, path, source)
  }
  return trimmed === config.source ? config : compileValue(trimmed).value
}

interface ConfigIssue {
  readonly path: readonly (string | number)[]
  readonly message: string
  /** The key itself is the problem, not its value. */
  readonly key: boolean
}

/** What zod adds to a standard issue; other libraries do not have these. */
interface RichIssue {
  readonly message: string
  readonly path?: StandardSchemaV1.Issue["path"]
  readonly code?: string
  /** For `invalid_type`. */
  readonly expected?: string
  readonly keys?: readonly string[]
  /** Issues of each branch of a union; their paths start at the union's value. */
  readonly errors?: readonly (readonly RichIssue[])[]
}

function configIssues(owner: Configured, config: Json, suggest: Suggester): ConfigIssue[] {
  const result = runSchema(owner, config)
  if (result?.issues === undefined) return []
  const probe = new TextProbe()
  const known = keysOfShape(owner.config)
  const issues: ConfigIssue[] = []
  const misspelt = new Set<string | number>()
  for (const issue of result.issues as readonly RichIssue[]) {
    const text = textAt(issue, owner, config, probe)
    if (text !== undefined) {
      issues.push({ path: text, message: textMessage(issue, text, config), key: false })
      continue
    }
    if (!isCertain(issue, config)) continue
    const path = issuePath(issue)
    if (issue.code !== "unrecognized_keys" || issue.keys === undefined) {
      issues.push({ path, message: wording(issue, path, config), key: false })
      continue
    }
    for (const key of issue.keys.slice(0, UNKNOWN_KEYS)) {
      const nearest = path.length === 0 ? suggest.nearest(key, known) : undefined
      if (nearest !== undefined) misspelt.add(nearest)
      const hint = nearest === undefined ? "" : ` Did you mean "${nearest}"?`
      issues.push({ path: [...path, key], message: `Unknown key "${key}".${hint}`, key: true })
    }
    const more = issue.keys.length - UNKNOWN_KEYS
    if (more > 0) issues.push({ path, message: `${more} more unknown keys.`, key: false })
  }
  // That a key is missing is a consequence of its misspelling.
  const isConsequence = ({ path }: ConfigIssue): boolean =>
    path.length === 1 && misspelt.has(path[0]!) && valueAt(config, path) === undefined
  return issues.filter(issue => !isConsequence(issue))
}

/** The keys that a zod object schema declares; other libraries do not expose theirs. */
function keysOfShape(schema: unknown): string[] {
  const shape = (schema as { readonly shape?: unknown } | undefined)?.shape
  return typeof shape === "object" && shape !== null ? Object.keys(shape) : []
}

function textMessage(issue: RichIssue, path: ConfigPath, config: Json): string {
  const template = compileTemplate(valueAt(config, path) as string)
  const wanted = yielded[expectedAt(issue, path) ?? ""] ?? "it"
  const last = path.findLastIndex(key => typeof key === "string")
  const name = path.slice(last).reduce((text, key) => (typeof key === "number" ? `${text}[${key}]` : key), "")
  return `"${name}" yields text here. ${insteadOfText(template, wanted)}`
}

/** The expected type; undefined for a union with several. */
function expectedAt(issue: RichIssue, path: ConfigPath): string | undefined {
  const rest = path.slice(issuePath(issue).length)
  if (issue.code !== "invalid_union") return issue.expected
  const found = (issue.errors ?? []).flatMap(branch =>
    branch.filter(inner => refusesType(inner, rest)).map(inner => expectedAt(inner, rest)),
  )
  return found.length === 1 ? found[0] : undefined
}

function wording(issue: RichIssue, path: readonly (string | number)[], config: Json): string {
  const isMissing = path.length > 0 && valueAt(config, path) === undefined
  if (!isMissing) return issue.message
  // A value of any type that is required: zod has no better text.
  const message = issue.message.replace(/, received undefined$/, "").replace(/^.*nonoptional$/, "Add it")
  return `"${path.at(-1)}" is missing. ${message}`
}

/** Where text is not accepted. */
const yielded: Readonly<Record<string, string>> = { ...kinds, string: "it", array: "a list" }

type ConfigPath = readonly (string | number)[]

/**
 * Where the issue has a template that can only yield text although text is not accepted: that can never fit. In a union the
 * template may be deeper than the issue. undefined: nowhere.
 */
function textAt(issue: RichIssue, owner: Configured, config: Json, probe: TextProbe): ConfigPath | undefined {
  const path = issuePath(issue)
  const value = valueAt(config, path) as Json | undefined
  if (value === undefined || !holdsTemplate(value)) return undefined
  return compileValue(value)
    .value.templates.filter(({ template }) => template.yieldsText)
    .map(template => [...path, ...template.path])
    .find(each => refusesType(issue, each) && probe.refuses(owner, config, each))
}

/** Each probe checks the whole config twice, so in a large config only the first templates are probed. */
const PROBED_VALUES = 50_000

class TextProbe {
  #left = PROBED_VALUES

  refuses(owner: Configured, config: Json, path: ConfigPath): boolean {
    if (this.#left <= 0) return false
    this.#left -= valueCount(config, PROBED_VALUES)
    return refusesText(owner, config, path)
  }
}

/** Some schemas convert text: they must also reject text that reads as a number or a boolean. */
const likelyTexts = ["1", "true"]

function refusesText(owner: Configured, config: Json, path: ConfigPath): boolean {
  return likelyTexts.every(text => {
    const issues = runSchema(owner, withValueAt(config, path, text))?.issues ?? []
    return (issues as readonly RichIssue[]).some(issue => refusesType(issue, path))
  })
}

/** Is every value of this type wrong there? For a union: in each of its branches. */
function refusesType(issue: RichIssue, path: ConfigPath): boolean {
  const keys = issuePath(issue)
  if (keys.length > path.length || !keys.every((key, i) => key === path[i])) return false
  const rest = path.slice(keys.length)
  const { code, errors = [] } = issue
  if (code !== "invalid_union") return code === "invalid_type" && rest.length === 0
  // A branch may reject a value that contains it.
  return errors.length > 0 && errors.every(branch => branch.some(inner => refusesPart(inner, rest)))
}

function refusesPart(issue: RichIssue, path: ConfigPath): boolean {
  return refusesType(issue, path) || refusesType(issue, [])
}

/** A schema that is asynchronous, or throws on text where it expects something else, is checked at run time only. */
function runSchema(owner: Configured, config: Json): StandardSchemaV1.Result<unknown> | undefined {
  try {
    const found = firstIssues(owner.config, config)
    if (found.length > 0) return { issues: found as StandardSchemaV1.FailureResult["issues"] }
    const result = owner.config?.["~standard"].validate(config)
    if (!(result instanceof Promise)) return result
    result.catch(() => undefined)
  } catch {
    return undefined
  }
  return undefined
}

/** The config with defaults filled in, if it is valid as written; otherwise as written. */
export function parsedConfig(owner: Configured, config: Json): unknown {
  const result = runSchema(owner, config)
  return result === undefined || result.issues !== undefined ? config : result.value
}

function issuePath(issue: RichIssue): (string | number)[] {
  return (issue.path ?? []).map(part => {
    const key = typeof part === "object" ? part.key : part
    return typeof key === "number" ? key : String(key)
  })
}

function isCertain(issue: RichIssue, root: Json): boolean {
  let value: Json | undefined = root
  for (const key of issuePath(issue)) {
    if (typeof value === "string") return !isTemplate(value)
    if (typeof value !== "object" || value === null) return true
    value = Object.hasOwn(value, key) ? (value as Record<string | number, Json>)[key] : undefined
  }
  if (typeof value === "string") return !isTemplate(value)
  if (typeof value !== "object" || value === null) return true
  return isCertainOfContainer(issue, value)
}

/** Issues that a list or mapping has whatever its templates yield. */
const certainCodes = new Set(["invalid_type", "unrecognized_keys", "too_small", "too_big"])

function isCertainOfContainer(issue: RichIssue, value: Json): boolean {
  if (!holdsTemplate(value)) return true
  if (issue.code === "invalid_union" && issue.errors !== undefined && issue.errors.length > 0) {
    // Some branch may fit when the templates are rendered: nothing is certain.
    return issue.errors.every(branch => branch.some(inner => isCertain(inner, value)))
  }
  return issue.code !== undefined && certainCodes.has(issue.code)
}

export function holdsTemplate(value: Json): boolean {
  if (typeof value === "string") return isTemplate(value)
  if (typeof value !== "object" || value === null) return false
  return Object.values(value).some(member => holdsTemplate(member))
}
