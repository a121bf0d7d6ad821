import type { Fact, ForkedChild, ForkRecord, ReusedItem, ReusedList, ReusedNode } from "./facts.ts"
import type { Json } from "./json.ts"
import { isDone, type JobState, SKIPPED } from "./state.ts"

/**
 * The results of a job that a fork can take over, and the record of those that it does. definition/fork.ts decides
 * which.
 */

/** A fact with a result, and the job that has the fact. */
export interface HeldResult {
  readonly jobId: string
  readonly seq: number
}

export interface HeldList {
  /** `held`: the fact that recorded the list. Otherwise it is at another place of the same job. */
  readonly source: ReusedList | { readonly count: number; readonly held: HeldResult }
  /** By item that has completed. */
  readonly items: ReadonlyMap<number, HeldResult>
}

/** What is done in a job, by position. */
export interface JobResults {
  /** A value: it was set by the request of the fork that the job is. */
  readonly nodes: ReadonlyMap<number, HeldResult | "skipped" | { readonly value: Json }>
  /** Lists of nodes that are done, or wait for their items. */
  readonly lists: ReadonlyMap<number, HeldList>
}

/** `state`: after these facts. A node completes once, so the last fact about its result counts. */
export function jobResults(
  jobId: string,
  state: JobState,
  facts: Iterable<{ readonly seq: number; readonly fact: Fact }>,
): JobResults {
  const nodes = new Map<number, HeldResult | "skipped" | { readonly value: Json }>()
  const lists = new Map<number, { source: HeldList["source"]; items: Map<number, HeldResult> }>()
  for (const { seq, fact } of facts) {
    const held = { jobId, seq }
    switch (fact.type) {
      case "job_submitted":
        if (fact.fork !== undefined) addTakenOver(fact.fork, fact.pinned ?? [], { nodes, lists })
        break
      case "node_completed":
        nodes.set(fact.node, held)
        break
      case "item_completed":
        lists.get(fact.node)?.items.set(fact.item, held)
        break
      case "signal_received":
        if (fact.node === undefined) break
        if (fact.item === undefined) nodes.set(fact.node, held)
        else lists.get(fact.node)?.items.set(fact.item, held)
        break
      case "node_expanded": {
        const count = state.lists.get(fact.node)?.items.length ?? 0
        lists.set(fact.node, { source: fact.items_of ?? { count, held }, items: new Map() })
        break
      }
    }
  }
  for (let node = 0; node < state.nodeStatus.length; node++) {
    if (state.nodeStatus[node] === SKIPPED) nodes.set(node, "skipped")
    else if (!isDone(state, node) || lists.has(node)) nodes.delete(node)
  }
  return { nodes, lists }
}

/** What is done of a node: all of it, some of its items, or nothing that a fork could take over. */
export function completedPart(
  state: JobState,
  { lists }: JobResults,
  node: number,
): "all" | "items" | "nothing" {
  if (isDone(state, node)) return "all"
  return lists.has(node) ? "items" : "nothing"
}

function addTakenOver(
  { jobs, nodes: reused }: ForkRecord,
  pinned: readonly Json[],
  to: {
    readonly nodes: Map<number, HeldResult | "skipped" | { readonly value: Json }>
    readonly lists: Map<number, { source: HeldList["source"]; items: Map<number, HeldResult> }>
  },
): void {
  for (const entry of reused) {
    const { node } = entry
    if ("skipped" in entry) to.nodes.set(node, "skipped")
    else if ("pinned" in entry) to.nodes.set(node, { value: pinned[entry.pinned] ?? null })
    else if ("list" in entry) {
      const { list } = entry
      const source =
        "seq" in list ? { count: list.count, held: { jobId: jobs[list.job]!, seq: list.seq } } : list
      const items = entry.items.map(([item, job, seq]) => [item, { jobId: jobs[job]!, seq }] as const)
      to.lists.set(node, { source, items: new Map(items) })
    } else to.nodes.set(node, { jobId: jobs[entry.job]!, seq: entry.seq })
  }
}

/** One node of a fork that does not run, or not all of it. Positions: in the origin, and in the fork. */
export type Taken = { readonly node: number } & (
  | { readonly origin: number }
  | { readonly pinned: Json }
  /** Only these items of its list. */
  | { readonly origin: number; readonly items: ReadonlySet<number> }
)

export interface NewFork {
  readonly originId: string
  readonly results: JobResults
  readonly taken: readonly Taken[]
  readonly children: readonly ForkedChild[]
  /** From positions of the origin to those of the fork. */
  readonly toForkPosition: (origin: number) => number
}

/** The record of a fork, and the outputs that its request sets. */
export function forkRecord({ originId, results, taken, children, toForkPosition }: NewFork): {
  readonly fork: ForkRecord
  readonly pinned: readonly Json[]
} {
  const jobs: string[] = []
  const jobIndex = new Map<string, number>()
  const ensureIndex = (jobId: string): number => {
    const known = jobIndex.get(jobId)
    if (known !== undefined) return known
    jobIndex.set(jobId, jobs.length)
    return jobs.push(jobId) - 1
  }
  const ref = ({ jobId, seq }: HeldResult) => ({ job: ensureIndex(jobId), seq })
  const pinned: Json[] = []
  const pin = (node: number, value: Json): ReusedNode => ({ node, pinned: pinned.push(value) - 1 })
  const nodes = taken.map((entry): ReusedNode => {
    const { node } = entry
    if ("pinned" in entry) return pin(node, entry.pinned)
    const list = results.lists.get(entry.origin)
    if (list !== undefined) {
      const items: ReusedItem[] = []
      for (const [item, held] of list.items)
        if (!("items" in entry) || entry.items.has(item))
          items.push([item, ensureIndex(held.jobId), held.seq])
      return {
        node,
        list: listSource(list.source, ref, toForkPosition),
        items: items.sort((a, b) => a[0] - b[0]),
      }
    }
    const result = results.nodes.get(entry.origin)!
    if (result === "skipped") return { node, skipped: true }
    return "value" in result ? pin(node, result.value) : { node, ...ref(result) }
  })
  const fork = { job_id: originId, jobs, nodes, children: children.length === 0 ? undefined : children }
  return { fork, pinned }
}

function listSource(
  source: HeldList["source"],
  ref: (held: HeldResult) => { job: number; seq: number },
  toForkPosition: (origin: number) => number,
): ReusedList {
  if ("held" in source) return { count: source.count, ...ref(source.held) }
  return "node" in source ? { ...source, node: toForkPosition(source.node) } : source
}

/** What the fork refers to outside of itself. */
export function heldBy(
  { jobs, children = [] }: ForkRecord,
  definition: string | undefined,
): readonly string[] {
  const held = [...jobs, ...children.map(({ job_id }) => job_id)]
  return [...new Set(definition === undefined ? held : [...held, definition])]
}

/** The job that has this fact; undefined: the fork does not refer to it. */
export function findFactHolder({ jobs, nodes }: ForkRecord, seq: number): string | undefined {
  for (const entry of nodes) {
    if ("seq" in entry && entry.seq === seq) return jobs[entry.job]
    if (!("list" in entry)) continue
    if ("seq" in entry.list && entry.list.seq === seq) return jobs[entry.list.job]
    const item = entry.items.find(([, , at]) => at === seq)
    if (item !== undefined) return jobs[item[1]]
  }
  return undefined
}
