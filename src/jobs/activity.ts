import type { PipelineNeeds } from "../broker/port.ts"
import { parseTaskKey, type TaskRef } from "../core/state.ts"
import type { Progress } from "../core/view/view.ts"
import { pipelineNeeds } from "../engine/dispatch/pipeline-needs.ts"
import type { LiveJob } from "../engine/owner/live-job.ts"

export interface JobActivity {
  /** Is the job in this process's memory? A job that only waits, or that another process runs, is not. */
  readonly isHere: boolean
  readonly running: readonly {
    readonly node: string
    readonly item?: number
    readonly progress: Progress | null
  }[]
  /**
   * Ready nodes with a handler that is not registered here; `provider`: the handler is registered, but the provider is
   * not. `lacks`: for a pipeline, which of its needs this process does not have.
   */
  readonly unserved: readonly {
    readonly node: string
    readonly handler: string
    readonly provider: string | null
    readonly lacks?: PipelineNeeds
  }[]
}

/** What workers of this process do for a job right now, and which of its nodes this process cannot run. */
export function jobActivity(
  live: LiveJob | undefined,
  knows: {
    readonly isRunning: (job: LiveJob, task: TaskRef) => boolean
    readonly hasHandler: (name: string) => boolean
    readonly lacks: (needs: PipelineNeeds) => PipelineNeeds
  },
): JobActivity {
  if (live === undefined) return { isHere: false, running: [], unserved: [] }
  const { nodes, pipeline } = live.plan
  const lacking = pipeline === null ? {} : { lacks: knows.lacks(pipelineNeeds(pipeline)) }
  const running = [...live.running].filter(key => knows.isRunning(live, parseTaskKey(key)))
  return {
    isHere: true,
    running: running.map(key => {
      const { node, ...item } = parseTaskKey(key)
      return { node: nodes[node]!.id, ...item, progress: live.progress?.get(key) ?? null }
    }),
    unserved: [...(live.awaitingHandler ?? [])].map(key => {
      const { id, handler, provider } = nodes[parseTaskKey(key).node]!
      return { node: id, handler, provider: knows.hasHandler(handler) ? provider : null, ...lacking }
    }),
  }
}
