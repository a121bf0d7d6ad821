/** The progress of nodes: reported by their handlers, or computed from their lists. None of it is stored. */
import { progressPercent } from "../core/view/view.ts"
import { isoTime } from "../engine/iso-time.ts"
import { frame } from "./frames.ts"
import type { KnownJob } from "./known-jobs.ts"

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
