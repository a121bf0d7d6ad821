import type { Progress } from "../core/view.ts"
import type { LiveJob } from "./live-job.ts"

/** What workers of this process do for a job right now, and what nobody here can do. */
export interface JobActivity {
  /** Is the job in this process's memory? One that only waits, or is run elsewhere, is not. */
  readonly isHere: boolean
  readonly running: readonly { readonly node: string; readonly progress: Progress | null }[]
  /** Ready nodes with a handler that is not registered here. */
  readonly unserved: readonly { readonly node: string; readonly handler: string }[]
}

export function activityOf(
  job: LiveJob | undefined,
  isRunning: (job: LiveJob, node: number) => boolean,
): JobActivity {
  if (job === undefined) return { isHere: false, running: [], unserved: [] }
  const { nodes } = job.plan
  return {
    isHere: true,
    running: [...job.running]
      .filter(node => isRunning(job, node))
      .map(node => ({ node: nodes[node]!.id, progress: job.progress?.get(node) ?? null })),
    unserved: [...(job.unserved ?? [])].map(node => ({
      node: nodes[node]!.id,
      handler: nodes[node]!.handler,
    })),
  }
}
