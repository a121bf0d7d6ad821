/** The fence of the attempt that an event is about: people see another number, and several fences may show the same one. */
import type { Fact } from "../../core/facts.ts"
import type { Graph } from "../../core/plan.ts"
import type { JobState } from "../../core/state.ts"
import type { JobEvent } from "../../core/view/events.ts"

/** Created before the fact is applied to the state, read after. */
export class Fences {
  readonly #state: JobState
  readonly #fact: Fact
  /** Of attempts that the fact has lost, by node or item: they are dispatched again with the next one. */
  readonly #lost = new Map<number, number>()

  constructor(state: JobState, fact: Fact) {
    this.#state = state
    this.#fact = fact
    if (fact.type === "tasks_lost")
      for (const node of fact.nodes) this.#lost.set(node, state.attempt[node] ?? 0)
    if (fact.type === "items_lost")
      for (const item of fact.items)
        this.#lost.set(item, state.lists.get(fact.node)?.state.attempt[item] ?? 0)
  }

  of({ node: id, item, type }: JobEvent): number | undefined {
    if (id === undefined) return undefined
    const fact = this.#fact
    const node = nodePositions(this.#state.graph).get(id)!
    if ("attempt" in fact && fact.node === node && ("item" in fact ? fact.item : undefined) === item)
      return fact.attempt
    const isOfLost = type === "attempt.lost" || /\.running$/.test(type)
    const before = isOfLost ? this.#lost.get(item ?? node) : undefined
    return before ?? fenceIn(this.#state, node, item)
  }
}

export function fenceIn(state: JobState, node: number, item: number | undefined): number | undefined {
  return item === undefined ? state.attempt[node] : state.lists.get(node)?.state.attempt[item]
}

const known = new WeakMap<Graph, ReadonlyMap<string, number>>()

export function nodePositions(graph: Graph): ReadonlyMap<string, number> {
  const found = known.get(graph) ?? new Map(graph.nodes.map(({ id }, position) => [id, position]))
  known.set(graph, found)
  return found
}
