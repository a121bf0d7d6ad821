import type { LiveJob } from "../owner/live-job.ts"

/**
 * How many children of each job are in memory. Their parent stays in memory as long as there are any: it is needed when
 * they end, and a parent that waits for ten thousand children would be folded again for each.
 */
export class ChildCounts {
  readonly #children = new Map<string, number>()

  added({ state: { parent } }: LiveJob): void {
    if (parent !== null) this.#children.set(parent.job_id, (this.#children.get(parent.job_id) ?? 0) + 1)
  }

  /** Returns the parent's id if this was its last child in memory. */
  removed({ state: { parent } }: LiveJob): string | null {
    if (parent === null) return null
    const others = (this.#children.get(parent.job_id) ?? 1) - 1
    if (others > 0) this.#children.set(parent.job_id, others)
    else this.#children.delete(parent.job_id)
    return others > 0 ? null : parent.job_id
  }

  hasChildren(jobId: string): boolean {
    return this.#children.size > 0 && this.#children.has(jobId)
  }
}
