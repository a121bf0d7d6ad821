import type { LiveJob } from "../owner/live-job.ts"

/**
 * How many children of each job are in memory. Their parent stays as long as there are any: it will be needed when they
 * end, and one that waits for ten thousand of them would be folded anew for each.
 */
export class ChildCounts {
  readonly #children = new Map<string, number>()

  came({ state: { parent } }: LiveJob): void {
    if (parent !== null) this.#children.set(parent.job_id, (this.#children.get(parent.job_id) ?? 0) + 1)
  }

  /** Answers the parent's id if this was its last child here. */
  left({ state: { parent } }: LiveJob): string | null {
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
