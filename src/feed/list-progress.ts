/**
 * The progress of a node with `for_each`. Its items are not streamed one by one, but a list may take hours: the items
 * that are done, or have failed permanently while the others continue, are reported as progress, like that of a handler.
 */
import type { Fact } from "../core/facts.ts"
import { isDone } from "../core/state.ts"
import type { KnownJob } from "./known-jobs.ts"
import type { NodeProgress } from "./progress.ts"

/** The node whose list made progress by this fact; null: none did. */
export function listNode(fact: Fact): number | null {
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

/** null: the node is done, which is reported as a change. */
export function listProgress({ id, plan, state, at }: KnownJob, node: number): NodeProgress | null {
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
