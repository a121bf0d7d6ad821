import type { Json, JsonObject } from "../core/json.ts"
import type { Graph, RuleNode } from "../core/plan.ts"
import type { ValueTemplate } from "../template/types.ts"
import type { PipelinePlan } from "./pipeline/plan.ts"

/** One compiled node. Everything that a definition left out has its default here. */
export interface PlanNode extends RuleNode {
  readonly config: ValueTemplate
  readonly when: ValueTemplate | null
  readonly forEach: ValueTemplate | null
  readonly maxParallel: number | null
  readonly provider: string | null
  /** Positions of the nodes whose outputs the node's templates read: only these are loaded. */
  readonly reads: Int32Array
}

/** A workflow version, compiled once and immutable. */
export interface Plan extends Graph {
  readonly name: string
  /** sha256 of the canonical content: the same for any key order or source format. */
  readonly hash: string
  readonly nodes: readonly PlanNode[]
  readonly positions: ReadonlyMap<string, number>
  /** JSON Schema of the job's input. */
  readonly input: JsonObject | null
  readonly output: ValueTemplate | null
  readonly exits: Int32Array
  /** Providers that its nodes use, each once. */
  readonly providers: readonly string[]
  readonly ttlSeconds: number | null
  /** The definition in canonical form; `hash` is computed from it. */
  readonly canonical: Json
  /** The stored form: the canonical form, plus values of `retry` that were written although they are the default. */
  readonly document: Json
  /** The rules of definitions (analysis.ts) under which it was compiled. */
  readonly rules: number
  /** A document with routes: its one node runs them. null: a document with nodes. */
  readonly pipeline: PipelinePlan | null
}
