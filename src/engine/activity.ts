import type { Progress } from "../core/view.ts"
import type { LiveJob } from "./live-job.ts"

export interface JobActivity {
  /** Is the job in this process's memory? One that only waits, or is run elsewhere, is not. */
  readonly isHere: boolean
  readonly running: readonly { readonly node: string; readonly progress: Progress | null }[]
  /** Ready nodes with a handler that is not registered here; `provider`: it is, but their provider is not. */
  readonly unserved: readonly {
    readonly node: string
    readonly handler: string
    readonly provider: string | null
  }[]
}

/** What workers of this process do for a job right now, and what nobody here can do. */
export function activityOf(
  live: LiveJob | undefined,
  knows: {
    readonly isRunning: (job: LiveJob, node: number) => boolean
    readonly hasHandler: (name: string) => boolean
  },
): JobActivity {
  if (live === undefined) return { isHere: false, running: [], unserved: [] }
  const { nodes } = live.plan
  const running = [...live.running].filter(node => knows.isRunning(live, node))
  return {
    isHere: true,
    running: running.map(node => ({ node: nodes[node]!.id, progress: live.progress?.get(node) ?? null })),
    unserved: [...(live.unserved ?? [])].map(node => {
      const { id, handler, provider } = nodes[node]!
      return { node: id, handler, provider: knows.hasHandler(handler) ? provider : null }
    }),
  }
}
