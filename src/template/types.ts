import type { Json } from "../core/json.ts"

/** A name that a template reads, with the constant part of the path after it. */
export interface Reference {
  /** Root name: a node id or `input`, `nodes`, `job`, `secrets`, `item`, `index`. Names set by the template itself are not references. */
  readonly name: string
  /** Constant attributes and subscripts that follow: `nodes["a-b"].x[0]` → `["a-b", "x", 0]`. Ends at the first computed one. */
  readonly path: readonly (string | number)[]
  /** Is the part after `path` computed (`nodes[input.which]`)? */
  readonly computed: boolean
  /** Character offset in the template's source. */
  readonly offset: number
}

/** The values that a template may read. Look-ups are lazy: nothing is copied or converted before it is used. */
export interface Scope {
  /** Values of the built-in root names (`input`, `job`, `item`, `index`, `secrets`); own properties only. */
  readonly names: { readonly [name: string]: Json }
  /** The output of a finished node, `undefined` if there is none. */
  node(id: string): Json | undefined
  /** Ids of the nodes whose output can be read, for error messages and for `nodes` as a whole. */
  nodeIds(): readonly string[]
}

export interface Limits {
  /** Evaluation steps (each node of the tree visited, each item of a loop or filter). */
  readonly steps: number
  /** Characters of text produced, including intermediate strings. */
  readonly characters: number
  /** Items of any list or mapping built. */
  readonly items: number
  /** Nesting of expressions and blocks. */
  readonly depth: number
  /** Bytes of JSON of all values that templates insert, counted each time. */
  readonly bytes: number
}

/** Encodes the value of an expression for the surrounding text. `filter`: the last filter of the expression, if it has one. */
export type Encode = (text: string, filter: string | null) => string

export interface Template {
  readonly source: string
  /** One whole expression: renders to its native value, not to text. */
  readonly isExpression: boolean
  /** It always yields text: it is more than one expression, or one that produces text. */
  readonly yieldsText: boolean
  readonly references: readonly Reference[]
  render(scope: Scope, limits?: Limits): Json
}

export type ValuePath = readonly (string | number)[]

/** `insert` counts the values that are sent along for the later rendering. */
export type Late = (template: Template, path: ValuePath, insert: (along: Json) => void) => Json

export interface RenderOptions {
  readonly limits?: Limits
  /**
   * Returns the value of a template that reads `secrets`: those are rendered where the handler runs. Without it they are
   * rendered like the others.
   */
  readonly late?: Late
  /** Applied to the value of every expression except constants and plain secrets (`{{ secrets.NAME }}`). */
  readonly encode?: Encode
}

/** A JSON value with the templates found in its strings, at any depth. */
export interface ValueTemplate {
  readonly source: Json
  /** The templates found, with their paths. Empty: `render` returns `source` itself. */
  readonly templates: readonly { readonly path: ValuePath; readonly template: Template }[]
  render(scope: Scope, options?: RenderOptions): Json
}
