/** The preview of a fork: what it would do. */
import type { Json, JsonObject } from "../../core/json.ts"
import { definitionId, type ForkReason, type NodeDecision } from "../../definition/fork.ts"
import type { HandlerCatalog } from "../../definition/handler.ts"
import type { Plan, PlanNode } from "../../definition/plan.ts"
import type { Work } from "../../turns.ts"
import type { Percentiles, UsageSummary } from "../statistics.ts"
import type { ForkConfirmation } from "./request.ts"

/**
 * safe: a repetition changes nothing outside of Umbra, or nothing more. unsafe: it does harm. unknown: the handler does
 * not declare it.
 */
export type Effects = "safe" | "unsafe" | "unknown"

export interface ForkedNode {
  readonly node: string
  readonly reason: ForkReason
  /** The reason in a few words. */
  readonly because: string
  /** Of a node with `for_each` whose list is known: how many of its items are taken over, and how many run. */
  readonly items?: { readonly reused: number; readonly run: number }
  /** Of a node that runs. */
  readonly effects?: Effects
  /** Of a node that runs: how long its runs usually take; null: no data. */
  readonly duration_ms?: Quantiles | null
  /** Of a node that runs: what a run usually uses; null: no data. */
  readonly usage?: UsageExpectation | null
}

export type Quantiles = Pick<Percentiles, "p50" | "p90">

/** By kind of usage. */
export interface UsageExpectation {
  readonly [key: string]: Pick<UsageSummary, "mean" | "p50" | "p90">
}

export interface ForkPreview {
  /** The origin. */
  readonly job_id: string
  readonly workflow: string
  /** null: a changed definition. */
  readonly workflow_version: number | null
  /** The hash of the changed definition; null: the fork runs a version. */
  readonly definition: string | null
  readonly reused: readonly ForkedNode[]
  readonly will_run: readonly ForkedNode[]
  readonly pinned: readonly ForkedNode[]
  /** Nodes that the origin does not have: they run too. */
  readonly new: readonly ForkedNode[]
  /** Nodes of the origin that the fork does not have. */
  readonly removed: readonly string[]
  readonly expected: ForkExpectation
  /** The nodes that run. */
  readonly effects: { readonly [kind in Effects]: readonly string[] }
  /** What `confirm` must still contain: these nodes one by one, and `unknown` if there are any. */
  readonly unconfirmed: { readonly unsafe: readonly string[]; readonly unknown: readonly string[] }
}

/** From the statistics of the workflow; null: no data. */
export interface ForkExpectation {
  /** Along the critical path. */
  readonly duration_ms: Quantiles | null
  /** The sums of all nodes that run and have data; a percentile is null if one of these nodes has none. */
  readonly usage: UsageExpectation | null
  /** Nodes that run one after another and take the longest; without data, the most of them. */
  readonly critical_path: readonly string[]
  /** Nodes that run and have no data. */
  readonly without_data: readonly string[]
}

/** What is known about the runs of a node. */
export interface NodeExpectation {
  readonly duration_ms: Quantiles | null
  readonly usage: UsageExpectation | null
}

export interface PreviewParts {
  readonly originId: string
  readonly origin: Plan
  readonly plan: Plan
  readonly version: number | null
  readonly decisions: readonly NodeDecision[]
  readonly items: (decision: NodeDecision) => ForkedNode["items"] | null
  readonly handlers: HandlerCatalog
  readonly confirm: ForkConfirmation
  /** false: nothing of the origin has run, so that no effect happens twice. */
  readonly repeats: boolean
  /** By node. */
  readonly statistics: ReadonlyMap<string, NodeExpectation>
}

export function* forkPreview(parts: PreviewParts): Work<ForkPreview> {
  const { plan, decisions, statistics } = parts
  const lists = { reused: [] as ForkedNode[], will_run: [] as ForkedNode[] }
  const more = { pinned: [] as ForkedNode[], new: [] as ForkedNode[] }
  const effects = { safe: [] as string[], unsafe: [] as string[], unknown: [] as string[] }
  for (const decision of decisions) {
    const { node, action, reason, position } = decision
    const items = parts.items(decision)
    const shown = { node, reason, because: reasonText(reason), ...(items == null ? {} : { items }) }
    if (action === "reuse") lists.reused.push(shown)
    else if (action === "pin") more.pinned.push(shown)
    else {
      const kind = nodeEffects(plan.nodes[position]!, parts.handlers)
      effects[kind].push(node)
      const target = reason.code === "new" ? more.new : lists.will_run
      const { duration_ms = null, usage = null } = statistics.get(node) ?? {}
      target.push({ ...shown, effects: kind, duration_ms, usage })
    }
    yield
  }
  const expected = expectation(plan, decisions, statistics)
  yield
  const removed = parts.origin.nodes.map(({ id }) => id).filter(id => !plan.positions.has(id))
  yield
  return {
    job_id: parts.originId,
    workflow: plan.name,
    workflow_version: parts.version,
    definition: parts.version === null ? definitionId(plan) : null,
    ...lists,
    ...more,
    removed,
    expected,
    effects,
    unconfirmed: parts.repeats ? unconfirmed(effects, parts.confirm) : { unsafe: [], unknown: [] },
  }
}

function unconfirmed(effects: ForkPreview["effects"], confirm: ForkConfirmation): ForkPreview["unconfirmed"] {
  const named = new Set(confirm.unsafe ?? [])
  return {
    unsafe: effects.unsafe.filter(node => !named.has(node)),
    unknown: confirm.unknown === true ? [] : effects.unknown,
  }
}

/** HTTP methods that change nothing. */
const reading: ReadonlySet<Json> = new Set(["GET", "HEAD", "OPTIONS"])

function nodeEffects(node: PlanNode, handlers: HandlerCatalog): Effects {
  if (node.handler === "call_external_service") return requestEffects(node)
  const declared = handlers.get(node.handler)?.effects
  if (declared === undefined) return "unknown"
  return declared === true ? "unsafe" : "safe"
}

/** The method of a request decides, if it is written in the definition. */
function requestEffects({ config }: PlanNode): Effects {
  const { method = "GET" } = config.source as JsonObject
  if (config.templates.some(({ path }) => path[0] === "method")) return "unknown"
  return reading.has(typeof method === "string" ? method.toUpperCase() : method) ? "safe" : "unsafe"
}

function reasonText(reason: ForkReason): string {
  switch (reason.code) {
    case "unchanged":
      return "nothing it depends on has changed"
    case "kept":
      return "the input has changed, but the request keeps its result"
    case "pinned":
      return "the request sets its output"
    case "requested":
      return "the request runs it again"
    case "not_completed":
      return "it did not complete"
    case "new":
      return "the origin has no such node"
    case "handler_reads_input":
      return "the input has changed, and its handler may read it"
    case "changed":
      return `its ${listed(reason.fields)} changed`
    case "dependency":
      return `${listed(reason.nodes)} ${reason.nodes.length === 1 ? "does" : "do"} not keep the result of the origin`
    case "input_changed":
      return `it reads ${listed(reason.paths)}, which changed`
    case "items_not_completed":
      return "some of its items did not complete"
    case "items_requested":
      return "the request runs some of its items again"
  }
}

/** At most three, and the number of the others. */
function listed(names: readonly string[]): string {
  const shown = names.slice(0, 3).join(", ")
  return names.length <= 3 ? shown : `${shown} and ${names.length - 3} more`
}

/** The longest path through the nodes that run, by the medians of their times, and what they usually take and use. */
function expectation(
  plan: Plan,
  decisions: readonly NodeDecision[],
  statistics: ReadonlyMap<string, NodeExpectation>,
): ForkExpectation {
  const runs = (node: number) => decisions[node]!.action === "run" || decisions[node]!.action === "items"
  const path = longestPath(plan, runs, node => statistics.get(plan.nodes[node]!.id)?.duration_ms?.p50 ?? 0)
  const ids = plan.nodes.filter((_, node) => runs(node)).map(({ id }) => id)
  const times = path.map(node => statistics.get(plan.nodes[node]!.id)?.duration_ms ?? null)
  const sum = (of: "p50" | "p90") => times.reduce((total, time) => total + (time?.[of] ?? 0), 0)
  const isKnown = times.length > 0 && times.every(time => time !== null)
  return {
    duration_ms: isKnown ? { p50: sum("p50"), p90: sum("p90") } : null,
    usage: sumUsage(ids.map(id => statistics.get(id)?.usage ?? null)),
    critical_path: path.map(node => plan.nodes[node]!.id),
    without_data: ids.filter(id => (statistics.get(id)?.duration_ms ?? null) === null),
  }
}

function sumUsage(usages: readonly (UsageExpectation | null)[]): UsageExpectation | null {
  const known = usages.filter(usage => usage !== null)
  if (known.length === 0) return null
  const sums = new Map<string, Amounts>()
  for (const usage of known)
    for (const [key, used] of Object.entries(usage)) {
      const sum = sums.get(key)
      sums.set(key, sum === undefined ? used : added(sum, used))
    }
  return Object.fromEntries(sums)
}

type Amounts = UsageExpectation[string]

function added(a: Amounts, b: Amounts): Amounts {
  const sum = (of: "p50" | "p90") => (a[of] === null || b[of] === null ? null : a[of] + b[of])
  return { mean: a.mean + b.mean, p50: sum("p50"), p90: sum("p90") }
}

/** By time, and among equals by the number of nodes. */
function longestPath(
  { order, dependencies: { starts, items } }: Plan,
  runs: (node: number) => boolean,
  nodeTime: (node: number) => number,
): readonly number[] {
  const best = new Map<number, { readonly time: number; readonly length: number; readonly before: number }>()
  let last = -1
  const isLonger = (a: number, b: number): boolean => {
    const [one, other] = [best.get(a)!, best.get(b)]
    if (other === undefined) return true
    return one.time > other.time || (one.time === other.time && one.length > other.length)
  }
  for (const node of order) {
    if (!runs(node)) continue
    let before = -1
    for (let i = starts[node]!; i < starts[node + 1]!; i++)
      if (best.has(items[i]!) && (before === -1 || isLonger(items[i]!, before))) before = items[i]!
    const { time = 0, length = 0 } = best.get(before) ?? {}
    best.set(node, { time: time + nodeTime(node), length: length + 1, before })
    if (last === -1 || isLonger(node, last)) last = node
  }
  const path: number[] = []
  for (let node = last; node !== -1; node = best.get(node)!.before) path.push(node)
  return path.reverse()
}
