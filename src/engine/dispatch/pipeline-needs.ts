import type { PipelineNeeds } from "../../broker/port.ts"
import type { WaitingOn } from "../../core/view/view.ts"
import type { PipelinePlan } from "../../definition/pipeline/plan.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"

/** Throws if a job of the plan could never run on this store, or not for this owner. */
export type MustFit = (plan: Plan, owner: string) => void

/** What the process that owns the job must have. The workers need the adapters of routes that run on workers. */
export function pipelineNeeds({ routes }: PipelinePlan): PipelineNeeds {
  const here = routes.filter(({ runOn }) => runOn === "engine")
  return {
    adapters: [...new Set(here.flatMap(({ adapters }) => adapters.map(({ type }) => type)))],
    redis: here.length < routes.length,
  }
}

/** Adds what is missing in this process to a pipeline that waits for a process. */
export function withMissing(waiting: WaitingOn | null, { adapters, redis }: PipelineNeeds): WaitingOn | null {
  if (waiting?.kind !== "worker") return waiting
  return {
    ...waiting,
    ...(adapters.length === 0 ? {} : { adapters }),
    ...(redis ? { redis: true as const } : {}),
  }
}

/** Where no other process has the store open, no process that can reach workers would ever take the job. */
export function mustReachWorkers({ pipeline }: Plan, lacks: (needs: PipelineNeeds) => PipelineNeeds): void {
  if (pipeline === null || !lacks(pipelineNeeds(pipeline)).redis) return
  const names = pipeline.routes.filter(({ runOn }) => runOn === "workers").map(({ name }) => name)
  throw new UmbraError(
    "E711",
    `Routes run on workers (${names.join(", ")}), and this process has no Redis to reach them. ` +
      "Start it with --redis-url, or remove run_on: workers.",
  )
}
