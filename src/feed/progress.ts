/** The progress of nodes: reported by their handlers, or computed from their lists. None of it is stored. */
import type { Fact } from "../core/facts.ts"
import { isDone } from "../core/state.ts"
import { progressPercent } from "../core/view/view.ts"
import { isoTime } from "../engine/clock.ts"
import type { FiredTick } from "../engine/schedules/schedules.ts"
import { kindFields } from "../jobs/schedules/schedules.ts"
import type { KnownJob } from "./known-jobs.ts"
import { frame } from "./stream.ts"

export interface NodeProgress {
  readonly job_id: string
  readonly owner: string
  readonly node: string
  readonly percent: number | null
  readonly message: string | null
  readonly at: number
}

/** The latest progress of each node: a node that reports often must not hide the other nodes of its job. */
export class LatestProgress {
  readonly #byJob = new Map<string, Map<string, NodeProgress>>()

  add(progress: NodeProgress): void {
    const byNode = this.#byJob.get(progress.job_id) ?? new Map<string, NodeProgress>()
    this.#byJob.set(progress.job_id, byNode)
    // The latest report is delivered last: a job shows the last message.
    byNode.delete(progress.node)
    byNode.set(progress.node, progress)
  }

  /** Returns and removes all of it. */
  take(): NodeProgress[] {
    const all = [...this.#byJob.values()].flatMap(byNode => [...byNode.values()])
    this.#byJob.clear()
    return all
  }
}

export function progressFrame({ id, state, message }: KnownJob, { node, percent, at }: NodeProgress): string {
  return frame("progress", {
    job_id: id,
    status: state.status,
    progress_pct: progressPercent(state),
    progress_message: message,
    node,
    node_pct: percent,
    at: isoTime(at),
  })
}

/** What a tick of a schedule did. */
export function fireFrame({ schedule, tick, kind, at, outcome, jobId, reason, count }: FiredTick): string {
  const times = { tick: isoTime(tick), at: isoTime(at) }
  return frame("fire", { schedule, ...times, ...kindFields(kind), outcome, job_id: jobId, reason, count })
}

/**
 * The progress of a node with `for_each`. Its items are not streamed one by one, but a list may take hours: the items
 * that are done, or have failed permanently while the others continue, are reported as progress, like that of a handler.
 */

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
