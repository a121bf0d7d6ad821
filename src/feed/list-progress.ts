/**
 * How far a node with `for_each` is. Its items are not streamed one by one, but a list may take hours: what is done of it,
 * or has failed for good while the others go on, is progress, told as a handler's own would be.
 */
import type { Fact } from "../core/facts.ts"
import { isDone } from "../core/state.ts"
import type { KnownJob } from "./known-jobs.ts"
import type { ProgressNews } from "./progress.ts"

/** The node whose list has got further by this; null: none has. */
export function listOf(fact: Fact): number | null {
  switch (fact.type) {
    case "item_completed":
      return fact.node
    case "item_failed":
      return fact.retry_at === undefined ? fact.node : null
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
  const { unfinished, failures } = list.state
  const ended = total - unfinished + failures
  return {
    job_id: id,
    owner: state.owner,
    node: plan.nodes[node]!.id,
    percent: Math.floor((ended * 100) / total),
    message: `${ended}/${total} items${failures === 0 ? "" : `, ${failures} failed`}`,
    at,
  }
}
