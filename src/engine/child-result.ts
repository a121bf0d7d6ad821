import { uncounted } from "../core/attempt-times.ts"
import type { Fault } from "../core/faults.ts"
import { jobOutput } from "../core/job-output.ts"
import type { Json, JsonObject } from "../core/json.ts"
import { type JobState, type LargeOutput, wholeOutput } from "../core/state.ts"
import type { Journal } from "../journal/port.ts"
import type { LiveJob } from "./live-job.ts"
import { readOutput } from "./load.ts"

/** Has it completed? A job that was deleted after that still has its output. */
export function hasResult({ status, unfinished, fault }: JobState): boolean {
  return status === "COMPLETED" || (status === "DELETED" && unfinished === 0 && fault === null)
}

/** What a completed child means for its parent's node. What it used is `usageFor` (J22). */
export async function childResult(
  journal: Journal,
  child: LiveJob,
): Promise<{ readonly output: Json; readonly text: string }> {
  const output = await outputOf(journal, child)
  return { output, text: JSON.stringify(output) }
}

/** What the child has used, failed or not, and the place in the parent that waits for it has not counted yet. */
export function usageFor(parent: JobState, { id, state }: LiveJob): { readonly usage?: JsonObject } {
  const usage = uncounted(parent, id, state.usage)
  return usage === undefined ? {} : { usage }
}

/** Large parts are read. Outputs leave memory as they become durable, so what was there may be gone on a second look. */
async function outputOf(journal: Journal, { id, state }: LiveJob): Promise<Json> {
  const read = new Map<number, Json>()
  for (;;) {
    const missing: LargeOutput[] = []
    const output = jobOutput(state, part =>
      wholeOutput(part, large => {
        const known = read.get(large.seq)
        if (known === undefined) missing.push(large)
        return known ?? null
      }),
    )
    if (missing.length === 0) return output
    for (const { seq } of missing) read.set(seq, await readOutput(journal, id, seq))
  }
}

/** Why there is no result. What made the child fail decides whether another try may help. */
export function childFault({ id, state, plan }: LiveJob): Fault {
  const which = `Child job ${id} (${state.workflow}@${state.workflowVersion})`
  const details = { job_id: id, status: state.status }
  if (state.fault === null)
    return {
      code: "E430",
      message: `${which} is ${state.status}${state.endReason === null ? "" : `: ${state.endReason}`}.`,
      // Its time may have been too short for a moment; a cancellation was somebody's will.
      retryable: state.status === "EXPIRED",
      details,
    }
  const { fault, node, item } = state.fault
  const { retry_after_seconds } = fault
  const ofItem = item === undefined ? "" : `, item ${item}`
  const where = node === undefined ? "" : ` at node "${plan.nodes[node]!.id}"${ofItem}`
  return {
    code: fault.code,
    message: `${which} failed${where}: ${fault.message}`,
    retryable: fault.retryable,
    ...(retry_after_seconds === undefined ? {} : { retry_after_seconds }),
    details,
  }
}
