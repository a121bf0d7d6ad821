/**
 * JSON values with templates in their strings. Only the way down to a template is rebuilt when rendering:
 * all else is shared with the source, and a value without templates is returned as it is.
 */
import type { Json, JsonObject } from "../core/json.ts"
import { UmbraError } from "../errors.ts"
import { type CompiledTemplate, compileTemplate, isTemplate } from "./compile.ts"
import { withPath } from "./failure.ts"
import { defaultLimits, Run } from "./run.ts"
import { TemplateSyntaxError } from "./syntax-error.ts"
import type { Limits, Scope, Template, ValuePath, ValueTemplate } from "./types.ts"
import { isList, put } from "./values.ts"

interface ValueProblem {
  readonly path: ValuePath
  readonly error: TemplateSyntaxError
}

type Found = { readonly path: ValuePath; readonly template: CompiledTemplate }
/** The part of a value that holds templates. */
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

type Late = (template: Template, path: ValuePath) => Json

class CompiledValue implements ValueTemplate {
  readonly source: Json
  readonly templates: readonly Found[]
  readonly #shape: Shape | null

  constructor(source: Json, templates: readonly Found[], shape: Shape | null) {
    this.source = source
    this.templates = templates
    this.#shape = shape
  }

  render(scope: Scope, options: { readonly limits?: Limits; readonly late?: Late } = {}): Json {
    if (this.#shape === null) return this.source
    return build(this.#shape, new Run(scope, options.limits ?? defaultLimits), options.late)
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
  if (late !== undefined && template.readsSecrets) return late(template, path)
  try {
    return template.renderIn(run)
  } catch (error) {
    throw error instanceof UmbraError ? withPath(error, path) : error
  }
}

/** Deeper values are refused rather than searched: recursion must stay far from the end of the stack. */
const MAX_DEPTH = 500

/** Finds and compiles every template. Object keys are not templates. */
export function compileValue(value: Json): { value: ValueTemplate; problems: ValueProblem[] } {
  const templates: Found[] = []
  const problems: ValueProblem[] = []
  const path: (string | number)[] = []

  const compileText = (text: string): Shape | null => {
    if (!isTemplate(text)) return null
    const at = path.slice()
    try {
      const found = { path: at, template: compileTemplate(text) }
      templates.push(found)
      return { kind: "template", found }
    } catch (error) {
      if (!(error instanceof TemplateSyntaxError)) throw error
      problems.push({ path: at, error })
      return null
    }
  }

  const inside = <K extends string | number>(key: K, child: Json): readonly [K, Shape] | null => {
    path.push(key)
    const shape = search(child)
    path.pop()
    return shape === null ? null : [key, shape]
  }

  const search = (each: Json): Shape | null => {
    if (typeof each === "string") return compileText(each)
    if (typeof each !== "object" || each === null) return null
    if (path.length >= MAX_DEPTH) {
      const problem = `a value nested deeper than ${MAX_DEPTH} levels cannot be searched for templates`
      problems.push({ path: path.slice(), error: new TemplateSyntaxError(problem, "", 0) })
      return null
    }
    if (isList(each)) {
      const children = each.map((child, i) => inside(i, child)).filter(child => child !== null)
      return children.length === 0 ? null : { kind: "list", source: each, children }
    }
    const children = Object.keys(each)
      .map(key => inside(key, each[key] as Json))
      .filter(child => child !== null)
    return children.length === 0 ? null : { kind: "mapping", source: each, children }
  }

  const shape = search(value)
  return { value: new CompiledValue(value, templates, shape), problems }
}
