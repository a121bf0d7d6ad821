/** Compiles a source to a template. Compiled templates have no state, so equal sources share one. */
import type { Json } from "../core/json.ts"
import { toError } from "./parse/syntax-error.ts"
import { type Program, parseTemplate } from "./parse/template.ts"
import { alwaysText, collectReferences } from "./references.ts"
import { evaluateData } from "./run/evaluate.ts"
import { execute, type Output } from "./run/execute.ts"
import { Frame } from "./run/lookup.ts"
import { defaultLimits, Fault, Run } from "./run.ts"
import type { Late, Limits, Reference, Scope, Template, ValuePath } from "./types.ts"

export class CompiledTemplate implements Template {
  readonly source: string
  readonly isExpression: boolean
  readonly yieldsText: boolean
  readonly references: readonly Reference[]
  readonly readsSecrets: boolean
  readonly #program: Program

  constructor(source: string) {
    this.#program = parseTemplate(source)
    this.source = source
    const { expression } = this.#program
    this.isExpression = expression !== null
    this.yieldsText = expression === null || alwaysText(expression)
    this.references = collectReferences(this.#program)
    this.readsSecrets = this.references.some(({ name }) => name === "secrets")
  }

  render(scope: Scope, limits: Limits = defaultLimits): Json {
    return this.renderIn(new Run(scope, limits))
  }

  /** Renders within the remaining limits of a run, so that all templates of one value share them. */
  renderIn(run: Run): Json {
    run.discreet = this.readsSecrets
    const { expression, body, depth } = this.#program
    try {
      run.nested(depth)
      const value =
        expression !== null && run.encode === null ? evaluateData(run, expression, null) : text(run, body)
      run.insert(value)
      return value
    } catch (error) {
      throw error instanceof Fault ? toError(error, this.source, run.at) : error
    }
  }

  /** For a template that is rendered in another place, later. */
  renderLate(run: Run, path: ValuePath, late: Late): Json {
    try {
      return late(this, path, along => run.insert(along))
    } catch (error) {
      throw error instanceof Fault ? toError(error, this.source, run.at) : error
    }
  }
}

function text(run: Run, body: Program["body"]): string {
  const output: Output = { text: "" }
  execute(run, body, new Frame(null), output)
  return output.text
}

/** Cheap check: does the text contain the start of a tag? */
export function isTemplate(text: string): boolean {
  for (let at = text.indexOf("{"); at !== -1; at = text.indexOf("{", at + 1)) {
    const next = text.charCodeAt(at + 1)
    if (next === 0x7b || next === 0x25 || next === 0x23) return true
  }
  return false
}

/** Documents of 100,000 nodes repeat a few templates. At most about 50 MB of trees. */
const CACHED = 5_000
const CACHED_LENGTH = 1_000
const cache = new Map<string, CompiledTemplate>()

export function compileTemplate(source: string): CompiledTemplate {
  const known = cache.get(source)
  if (known !== undefined) return known
  const template = new CompiledTemplate(source)
  if (source.length <= CACHED_LENGTH) {
    // All at once: finding the oldest key skips the holes of earlier deletions (5 µs per template).
    if (cache.size >= CACHED) cache.clear()
    cache.set(source, template)
  }
  return template
}
