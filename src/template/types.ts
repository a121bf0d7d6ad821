import type { Json } from "../core/json.ts"

/** A name a template reads, with the constant part of the path behind it. */
export interface Reference {
  /** Root name: a node id or `input`, `nodes`, `job`, `secrets`, `item`, `index`. Names set by the template itself are not references. */
  readonly name: string
  /** Constant attributes and subscripts that follow: `nodes["a-b"].x[0]` → `["a-b", "x", 0]`. Ends at the first that is computed. */
  readonly path: readonly (string | number)[]
  /** Is what follows `path` computed (`nodes[input.which]`)? */
  readonly computed: boolean
  /** Character offset in the template's source. */
  readonly offset: number
}

/** What a template may read. Lookups are lazy: nothing is copied or converted before it is used. */
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
  /** Characters of text produced, intermediate strings included. */
  readonly characters: number
  /** Items of any list or mapping built. */
  readonly items: number
  /** Nesting of expressions and blocks. */
  readonly depth: number
  /** JSON of all values that templates insert, each time that they do. */
  readonly bytes: number
}

/** Encodes what an expression yields for the text around it. `filter`: the last filter of the expression, if it has one. */
export type Encode = (text: string, filter: string | null) => string

export interface Template {
  readonly source: string
  /** One whole expression: renders to its native value, not to text. */
  readonly isExpression: boolean
  /** It yields text whatever it reads: it is more than one expression, or one that makes text. */
  readonly yieldsText: boolean
  readonly references: readonly Reference[]
  render(scope: Scope, limits?: Limits): Json
}

export type ValuePath = readonly (string | number)[]

/** `insert` counts what goes along for the later rendering. */
export type Late = (template: Template, path: ValuePath, insert: (along: Json) => void) => Json

/** A JSON value with the templates found in its strings, at any depth. */
export interface ValueTemplate {
  readonly source: Json
  /** The templates found, with where they stand. Empty: `render` returns `source` itself. */
  readonly templates: readonly { readonly path: ValuePath; readonly template: Template }[]
  /**
   * `late` is asked for the value of a template that reads `secrets`: those are rendered where the handler runs.
   * Without it they are rendered like the others.
   */
  render(
    scope: Scope,
    options?: {
      readonly limits?: Limits
      readonly late?: Late
      /** Applied to the value of every expression except constants and plain secrets (`{{ secrets.NAME }}`). */
      readonly encode?: Encode
    },
  ): Json
}
