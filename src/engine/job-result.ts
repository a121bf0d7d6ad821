import { jobOutput } from "../core/job-output.ts"
import type { Json } from "../core/json.ts"
import { type JobState, wholeOutput } from "../core/state.ts"
import type { Plan } from "../definition/plan.ts"
import type { LiveJob } from "./live-job.ts"

/** `undefined`: a part of it is too large to be in memory, and is read from the journal. */
export function outputInMemory(state: JobState): Json | undefined {
  let isComplete = true
  const output = jobOutput(state, part =>
    wholeOutput(part, () => {
      isComplete = false
      return null
    }),
  )
  return isComplete ? output : undefined
}

export function jobOutputText(job: LiveJob): string | null {
  if (job.state.status !== "COMPLETED") return null
  const output = outputInMemory(job.state)
  return output === undefined ? null : JSON.stringify(output)
}

export interface JobError {
  readonly code: string
  readonly message: string
  /** The node to blame, if one is. */
  readonly node?: string
  /** Of a node with `for_each`: the item, from 0. */
  readonly item?: number
}

export function jobErrorOf(plan: Plan, state: JobState): JobError | null {
  const { fault } = state
  if (fault === null) return null
  const { code, message } = fault.fault
  return {
    code,
    message,
    ...(fault.node === undefined ? {} : { node: plan.nodes[fault.node]!.id }),
    ...(fault.item === undefined ? {} : { item: fault.item }),
  }
}

export function jobErrorText(job: LiveJob): string | null {
  const error = jobErrorOf(job.plan, job.state)
  return error === null ? null : JSON.stringify(error)
}
