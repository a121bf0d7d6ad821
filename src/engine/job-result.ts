import type { Json } from "../core/json.ts"
import { type JobState, LargeOutput } from "../core/state.ts"
import type { Plan } from "../definition/plan.ts"
import type { LiveJob } from "./live-job.ts"

/** What a job answers with (J3). `undefined`: a part of it is too large to be in memory, and is read from the journal. */
export function jobOutput(plan: Plan, state: JobState): Json | undefined {
  if (plan.output !== null) return state.output ?? null
  if (plan.outputNode !== null) return inMemory(state, plan.outputNode)
  const outputs: { [id: string]: Json } = {}
  for (const exit of plan.exits) {
    const output = inMemory(state, exit)
    if (output === undefined) return undefined
    Object.defineProperty(outputs, plan.nodes[exit]!.id, { value: output, enumerable: true })
  }
  return outputs
}

function inMemory(state: JobState, node: number): Json | undefined {
  const output = state.outputs[node]
  return output instanceof LargeOutput ? undefined : output
}

export function jobOutputText(job: LiveJob): string | null {
  if (job.state.status !== "COMPLETED") return null
  const output = jobOutput(job.plan, job.state)
  return output === undefined ? null : JSON.stringify(output)
}

export interface JobError {
  readonly code: string
  readonly message: string
  /** The node to blame, if one is. */
  readonly node?: string
}

export function jobErrorOf(plan: Plan, state: JobState): JobError | null {
  const { fault } = state
  if (fault === null) return null
  const { code, message } = fault.fault
  return { code, message, ...(fault.node === undefined ? {} : { node: plan.nodes[fault.node]!.id }) }
}

export function jobErrorText(job: LiveJob): string | null {
  const error = jobErrorOf(job.plan, job.state)
  return error === null ? null : JSON.stringify(error)
}
