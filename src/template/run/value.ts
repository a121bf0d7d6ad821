/**
 * JSON values with templates in their strings. Rendering rebuilds only the path to each template: all other parts are
 * shared with the source, and a value without templates is returned unchanged.
 */
import type { Json, JsonObject } from "../../core/json.ts"
import { UmbraError } from "../../errors.ts"
import { type CompiledTemplate, compileTemplate, isTemplate } from "../compile.ts"
import { TemplateSyntaxError, withPath } from "../parse/syntax-error.ts"
import { defaultLimits, Run } from "../run.ts"
import type { Late, RenderOptions, Scope, ValuePath, ValueTemplate } from "../types.ts"
import { isList, put } from "./values.ts"

interface ValueProblem {
  readonly path: ValuePath
  readonly error: TemplateSyntaxError
}

type Found = { readonly path: ValuePath; readonly template: CompiledTemplate }
/** The part of a value that contains templates. */
type Shape =
  | { readonly kind: "template"; readonly found: Found }
  | {
      readonly kind: "list"
      readonly source: readonly Json[]
      readonly children: readonly (readonly [number, Shape])[]
    }
  | {
      readonly kind: "mapping"
      readonly source: JsonObject
      readonly children: readonly (readonly [string, Shape])[]
    }

class CompiledValue implements ValueTemplate {
  readonly source: Json
  readonly templates: readonly Found[]
  readonly #shape: Shape | null

  constructor(source: Json, templates: readonly Found[], shape: Shape | null) {
    this.source = source
    this.templates = templates
    this.#shape = shape
  }

  render(scope: Scope, options: RenderOptions = {}): Json {
    if (this.#shape === null) return this.source
    return build(this.#shape, new Run(scope, options.limits ?? defaultLimits, options.encode), options.late)
  }
}

function build(shape: Shape, run: Run, late: Late | undefined): Json {
  if (shape.kind === "template") return renderFound(shape.found, run, late)
  if (shape.kind === "list") {
    const copy = shape.source.slice()
    for (const [index, child] of shape.children) copy[index] = build(child, run, late)
    return copy
  }
  const copy: Record<string, Json> = { ...shape.source }
  for (const [key, child] of shape.children) put(copy, key, build(child, run, late))
  return copy
}

function renderFound({ path, template }: Found, run: Run, late: Late | undefined): Json {
  try {
    if (late === undefined || !template.readsSecrets) return template.renderIn(run)
    return template.renderLate(run, path, late)
  } catch (error) {
    throw error instanceof UmbraError ? withPath(error, path) : error
  }
}

/** Deeper values are rejected instead of searched: recursion must not come near the end of the stack. */
const MAX_DEPTH = 500
/** Templates of one value: it is compiled without yielding. */
const MOST_PROBLEMS = 1000

/** Finds and compiles every template. Object keys are not templates. */
export function compileValue(value: Json): { value: ValueTemplate; problems: readonly ValueProblem[] } {
  const search = new Search()
  const shape = search.parseShape(value)
  return { value: new CompiledValue(value, search.templates, shape), problems: search.problems }
}

class Search {
  readonly templates: Found[] = []
  readonly problems: ValueProblem[] = []
  readonly #path: (string | number)[] = []

  /** `null` where there is no template. No object is created for such a part: most values of a large workflow are such. */
  parseShape(value: Json): Shape | null {
    if (typeof value === "string") return isTemplate(value) ? this.#text(value) : null
    if (typeof value !== "object" || value === null) return null
    if (this.#path.length >= MAX_DEPTH) {
      const problem = `a value nested deeper than ${MAX_DEPTH} levels cannot be searched for templates`
      this.problems.push({ path: this.#path.slice(), error: new TemplateSyntaxError(problem, "", 0) })
      return null
    }
    return isList(value) ? this.#list(value) : this.#mapping(value as JsonObject)
  }

  #text(text: string): Shape | null {
    if (this.problems.length === MOST_PROBLEMS) return null
    const path = this.#path.slice()
    try {
      const found = { path, template: compileTemplate(text) }
      this.templates.push(found)
      return { kind: "template", found }
    } catch (error) {
      if (!(error instanceof TemplateSyntaxError)) throw error
      this.problems.push({ path, error })
      return null
    }
  }

  #list(source: readonly Json[]): Shape | null {
    let children: (readonly [number, Shape])[] | undefined
    for (let i = 0; i < source.length; i++) {
      const shape = this.#inside(i, source[i] as Json)
      if (shape === null) continue
      children ??= []
      children.push([i, shape])
    }
    return children === undefined ? null : { kind: "list", source, children }
  }

  #mapping(source: JsonObject): Shape | null {
    let children: (readonly [string, Shape])[] | undefined
    for (const key of Object.keys(source)) {
      const shape = this.#inside(key, source[key] as Json)
      if (shape === null) continue
      children ??= []
      children.push([key, shape])
    }
    return children === undefined ? null : { kind: "mapping", source, children }
  }

  #inside(key: string | number, child: Json): Shape | null {
    this.#path.push(key)
    const shape = this.parseShape(child)
    this.#path.pop()
    return shape
  }
}
