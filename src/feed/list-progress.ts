/**
 * How far a node with `for_each` is. Its items are not streamed one by one, but a list may take hours: what is done of it
 * is progress, told as a handler's own would be.
 */
import type { Fact } from "../core/facts.ts"
import { isDone } from "../core/state.ts"
import type { ProgressNews } from "./feed.ts"
import type { KnownJob } from "./known-jobs.ts"

/** The node whose list has got further by this; null: none has. */
export function listOf(fact: Fact): number | null {
  switch (fact.type) {
    case "item_completed":
    case "item_failed":
      return fact.node
    case "signal_received":
      return fact.item === undefined ? null : fact.node!
    default:
      return null
  }
}

/** null: the node is done, which is a change of its own. */
export function listProgress({ id, plan, state, at }: KnownJob, node: number): ProgressNews | null {
  const list = state.lists.get(node)
  if (list === undefined || isDone(state, node)) return null
  const total = list.items.length
  const done = total - list.state.unfinished
  return {
    job_id: id,
    owner: state.owner,
    node: plan.nodes[node]!.id,
    percent: Math.floor((done * 100) / total),
    message: `${done}/${total} items`,
    at,
  }
}
