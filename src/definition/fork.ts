/**
 * Which results of a job a fork of it takes over, and why. Pure: a function of two plans, two inputs and what is done.
 *
 * 1. A node is taken over only if a run of the fork would give the same: the same handler, config, condition, list and
 *    provider, the same dependencies, all of them taken over, and the same parts of the input. Two things are not
 *    compared: what a handler reads beside them (the time, other services, secrets), and the fields of `job`.
 * 2. What is uncertain runs: a user's handler may read all of the input, unless it declares that it does not.
 */
import { createHash } from "node:crypto"
import type { ForkedChild, ForkRecord } from "../core/facts.ts"
import { forkRecord, type JobResults, type Taken } from "../core/fork.ts"
import { valueAt } from "../core/item-list.ts"
import type { Json } from "../core/json.ts"
import { isDone, type JobState } from "../core/state.ts"
import type { ValueTemplate } from "../template/types.ts"
import type { Work } from "../turns.ts"
import { isObject } from "./document/json-value.ts"
import type { Plan, PlanNode } from "./plan.ts"

export interface ForkOrigin {
  readonly plan: Plan
  readonly input: Json
  /** What is done of the node at this position. `items`: some of its items, or none, but its list is known. */
  readonly done: (node: number) => "all" | "items" | "nothing"
}

export interface ForkTarget {
  readonly plan: Plan
  readonly input: Json
  /** Nodes that run in any case. */
  readonly from: ReadonlySet<string>
  /** Nodes whose output is given. */
  readonly pinned: ReadonlySet<string>
  /** Nodes that are taken over although the input has changed. */
  readonly reuse: ReadonlySet<string>
  /** Items that run, by node; the node's other items do not. */
  readonly items: ReadonlyMap<string, ReadonlySet<number>>
  /** May a handler of this name read more of the input than its config contains? */
  readonly readsInput: (handler: string) => boolean
}

/** Why a node runs, or does not. */
export type ForkReason =
  | {
      readonly code:
        | "unchanged"
        | "pinned"
        | "kept"
        | "requested"
        | "not_completed"
        | "new"
        | "handler_reads_input"
    }
  | { readonly code: "changed"; readonly fields: readonly string[] }
  | { readonly code: "dependency"; readonly nodes: readonly string[] }
  | { readonly code: "input_changed"; readonly paths: readonly string[] }
  | { readonly code: "items_not_completed" | "items_requested" }

export interface NodeDecision {
  readonly node: string
  /** Position in the fork's plan, and in the origin's; null: the origin has no such node. */
  readonly position: number
  readonly origin: number | null
  /** `items`: some of its items run. */
  readonly action: "reuse" | "pin" | "run" | "items"
  readonly reason: ForkReason
}

/** In the order of the fork's document. Yields: definitions and inputs may be large, and every node may read all of the input. */
export function* decideFork(origin: ForkOrigin, target: ForkTarget): Work<readonly NodeDecision[]> {
  const { plan } = target
  const decisions = new Array<NodeDecision>(plan.nodes.length)
  const isInputChanged = !(yield* isEqual(origin.input, target.input))
  const comparison = { origin, target, decisions, isInputChanged, sameInputs: new Map() }
  for (const position of plan.order) {
    const { id } = plan.nodes[position]!
    const found = origin.plan.positions.get(id) ?? null
    const place = { node: id, position, origin: found }
    decisions[position] = { ...place, ...(yield* decideNode(comparison, position, found)) }
    yield
  }
  return decisions
}

interface Decided {
  readonly action: NodeDecision["action"]
  readonly reason: ForkReason
}

interface Comparison {
  readonly origin: ForkOrigin
  readonly target: ForkTarget
  readonly decisions: readonly (NodeDecision | undefined)[]
  readonly isInputChanged: boolean
  /** By path, as JSON: whether both inputs have the same there. */
  readonly sameInputs: Map<string, boolean>
}

function* decideNode(comparison: Comparison, position: number, found: number | null): Work<Decided> {
  const { origin, target } = comparison
  const node = target.plan.nodes[position]!
  if (target.pinned.has(node.id)) return { action: "pin", reason: { code: "pinned" } }
  if (found === null) return run({ code: "new" })
  if (target.from.has(node.id)) return run({ code: "requested" })
  const done = origin.done(found)
  if (done === "nothing") return run({ code: "not_completed" })
  const fields = yield* changedFields(origin.plan, found, target.plan, position)
  if (fields.length > 0) return run({ code: "changed", fields })
  const nodes = dependenciesThatRun(comparison, position)
  if (nodes.length > 0) return run({ code: "dependency", nodes })
  const input = comparison.isInputChanged ? yield* changedInput(comparison, node) : null
  if (input !== null && !target.reuse.has(node.id)) return run(input)
  if (target.items.has(node.id)) return { action: "items", reason: { code: "items_requested" } }
  if (done === "items") return { action: "items", reason: { code: "items_not_completed" } }
  return { action: "reuse", reason: { code: input === null ? "unchanged" : "kept" } }
}

function run(reason: ForkReason): Decided {
  return { action: "run", reason }
}

/** The fields of the definition that a result depends on, as far as they differ. */
function* changedFields(
  before: Plan,
  origin: number,
  after: Plan,
  position: number,
): Work<readonly string[]> {
  const [a, b] = [before.nodes[origin]!, after.nodes[position]!]
  // Text from a condition has another meaning under other rules.
  const isSameWhen =
    (yield* isSameTemplate(a.when, b.when)) && (a.when === null || before.rules === after.rules)
  const same: readonly (readonly [field: string, isSame: boolean])[] = [
    ["handler", a.handler === b.handler],
    ["config", yield* isSameTemplate(a.config, b.config)],
    ["when", isSameWhen],
    ["for_each", yield* isSameTemplate(a.forEach, b.forEach)],
    ["provider", a.provider === b.provider],
    ["dependencies", yield* isEqual(dependencyIds(before, origin), dependencyIds(after, position))],
  ]
  return same.filter(([, isSame]) => !isSame).map(([field]) => field)
}

function* isSameTemplate(a: ValueTemplate | null, b: ValueTemplate | null): Work<boolean> {
  return a === null || b === null ? a === b : yield* isEqual(a.source, b.source)
}

function dependencyIds({ nodes, dependencies: { starts, items } }: Plan, node: number): string[] {
  return Array.from(items.subarray(starts[node], starts[node + 1]), other => nodes[other]!.id).sort()
}

function dependenciesThatRun({ target, decisions }: Comparison, position: number): readonly string[] {
  const { starts, items } = target.plan.dependencies
  const found: string[] = []
  for (let i = starts[position]!; i < starts[position + 1]!; i++) {
    const decision = decisions[items[i]!]!
    if (decision.action !== "reuse") found.push(decision.node)
  }
  return found
}

/** null: nothing that the node can read of the input has changed. */
function* changedInput(comparison: Comparison, node: PlanNode): Work<ForkReason | null> {
  const paths = new Set<string>()
  for (const template of [node.config, node.when, node.forEach])
    for (const { template: part } of template?.templates ?? [])
      for (const { name, path } of part.references)
        if (name === "input" && !(yield* isSameAt(comparison, path))) paths.add(["input", ...path].join("."))
  if (paths.size > 0) return { code: "input_changed", paths: [...paths].sort() }
  return comparison.target.readsInput(node.handler) ? { code: "handler_reads_input" } : null
}

/** A value that is missing is not null: a template that reads it fails. Nodes that read the same path compare it once. */
function* isSameAt(
  { origin, target, sameInputs }: Comparison,
  path: readonly (string | number)[],
): Work<boolean> {
  const key = JSON.stringify(path)
  const known = sameInputs.get(key)
  if (known !== undefined) return known
  const [before, after] = [valueAt(origin.input, path), valueAt(target.input, path)]
  const isSame =
    before === undefined || after === undefined ? before === after : yield* isEqual(before, after)
  sameInputs.set(key, isSame)
  return isSame
}

/** Pairs of values that are compared without yielding. */
const PIECE = 500

/** The order of keys does not count. A stack of its own: values may be nested deeply. */
function* isEqual(first: Json, second: Json): Work<boolean> {
  const stack: [Json, Json][] = [[first, second]]
  let compared = 0
  for (let pair = stack.pop(); pair !== undefined; pair = stack.pop()) {
    const [a, b] = pair
    if (++compared % PIECE === 0) yield
    if (a === b) continue
    if (Array.isArray(a)) {
      if (!Array.isArray(b) || a.length !== b.length) return false
      for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) stack.push([a[i], b[i]])
    } else {
      if (!isObject(a) || !isObject(b)) return false
      const keys = Object.keys(a)
      if (keys.length !== Object.keys(b).length) return false
      for (const key of keys) {
        if (!Object.hasOwn(b, key)) return false
        if (a[key] !== b[key]) stack.push([a[key] as Json, b[key] as Json])
      }
    }
  }
  return true
}

/**
 * What a definition that is no version is stored under. All owners share these rows, so two definitions that differ in anything,
 * also in defaults that were written, must not have the same.
 */
export function definitionId({ hash, canonical, document }: Plan): string {
  return document === canonical ? hash : createHash("sha256").update(JSON.stringify(document)).digest("hex")
}

/** The origin of a fork, folded. */
export interface FoldedOrigin {
  readonly jobId: string
  readonly plan: Plan
  readonly state: JobState
  readonly results: JobResults
}

interface DecidedFork {
  readonly plan: Plan
  readonly decisions: readonly NodeDecision[]
  /** By node whose output is given. */
  readonly outputs: ReadonlyMap<string, Json>
  /** As in `ForkTarget`. */
  readonly items: ForkTarget["items"]
}

/** The record of a fork that was decided. */
export function recordFork(
  origin: FoldedOrigin,
  target: DecidedFork,
): { readonly fork: ForkRecord; readonly pinned: readonly Json[]; readonly taken: readonly Taken[] } {
  const { jobId: originId, results, state } = origin
  const taken = target.decisions.flatMap(decision => takenOver(origin, target, decision))
  const children = childrenToFork(target.decisions, state)
  const toForkPosition = (node: number) => target.plan.positions.get(origin.plan.nodes[node]!.id)!
  return { ...forkRecord({ originId, results, taken, children, toForkPosition }), taken }
}

/** What the record names: everything but nodes that run as a whole. */
function takenOver(
  { results }: FoldedOrigin,
  { outputs, items }: DecidedFork,
  { node: id, position: node, origin, action }: NodeDecision,
): readonly Taken[] {
  if (action === "pin") return [{ node, pinned: outputs.get(id)! }]
  if (action === "run" || origin === null) return []
  if (action === "reuse") return [{ node, origin }]
  const kept = [...results.lists.get(origin)!.items.keys()].filter(item => !items.get(id)?.has(item))
  return [{ node, origin, items: new Set(kept) }]
}

/** Child jobs that did not complete are forked in turn, unless their node runs for another reason. */
function childrenToFork(decisions: readonly NodeDecision[], state: JobState): readonly ForkedChild[] {
  const found: ForkedChild[] = []
  for (const { position: node, origin, action, reason } of decisions) {
    if (origin === null) continue
    if (action === "run" && reason.code === "not_completed") {
      const child = findChild(state, origin)
      if (child !== undefined) found.push({ node, job_id: child })
    } else if (action === "items" && reason.code === "items_not_completed") {
      const list = state.lists.get(origin)!.state
      for (let item = 0; item < list.nodeStatus.length; item++) {
        const child = isDone(list, item) ? undefined : findChild(list, item)
        if (child !== undefined) found.push({ node, item, job_id: child })
      }
    }
  }
  return found
}

/** Its child; or, if it has none yet and the origin is a fork itself, the one that its child would be forked from. */
function findChild({ children, forkedChildren }: JobState, position: number): string | undefined {
  return children.get(position) ?? forkedChildren.get(position)
}
