import { uncountedUsage } from "../../core/attempt-times.ts"
import type { ChildUsage } from "../../core/facts.ts"
import type { Fault } from "../../core/faults.ts"
import { jobOutput } from "../../core/job-output.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import { type JobState, type LargeOutput, wholeOutput } from "../../core/state.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { LiveJob } from "../owner/live-job.ts"
import { readOutput } from "../recovery/fold.ts"

/** What the end of a child means for its parent's node, besides its usage (`usageFor`). */
export type ChildResult =
  | {
      readonly command: { readonly type: "completed"; readonly output: Json }
      /** The output as JSON text. */
      readonly text: string
    }
  | { readonly command: { readonly type: "failed"; readonly fault: Fault }; readonly text?: undefined }

/** The output of a completed child, if it is not larger than a handler's output may be. */
export async function childResult(
  journal: Journal,
  child: LiveJob,
  maxOutputBytes: number,
): Promise<ChildResult> {
  const output = await childOutput(journal, child)
  const text = JSON.stringify(output)
  const bytes = Buffer.byteLength(text)
  if (bytes > maxOutputBytes)
    return { command: { type: "failed", fault: tooLarge(child, bytes, maxOutputBytes) } }
  return { command: { type: "completed", output }, text }
}

/** The usage of the child, failed or not, that the node or item waiting for it has not counted yet. */
export function usageFor(
  parent: JobState,
  { id, state }: LiveJob,
  ofOrphans: readonly ChildUsage[] = [],
): { readonly usage?: JsonObject } {
  const sums = new Map(state.usage)
  for (const { usage } of ofOrphans)
    for (const [key, amount] of Object.entries(usage)) sums.set(key, (sums.get(key) ?? 0) + Number(amount))
  const usage = uncountedUsage(parent, id, sums)
  return usage === undefined ? {} : { usage }
}

/** The usage, in total, of a child that its parent does not wait for any more. */
export function totalUsage({ id, state }: LiveJob): readonly ChildUsage[] {
  const { parent: link, usage } = state
  if (link === null || usage.size === 0) return []
  const { node, item } = link
  return [{ node, item, job_id: id, usage: Object.fromEntries(usage) }]
}

function tooLarge(child: LiveJob, bytes: number, maxBytes: number): Fault {
  return {
    code: "E405",
    message: `The output of ${describeChild(child)} has ${bytes} bytes; the limit for a node is ${maxBytes}. Store it elsewhere and return a reference to it, or raise the limit (UMBRA_MAX_OUTPUT_BYTES).`,
    retryable: false,
    details: { job_id: child.id, max_bytes: maxBytes },
  }
}

const describeChild = ({ id, state }: LiveJob): string =>
  `child job ${id} (${state.workflow}@${state.workflowVersion})`

/** Reads large parts. Outputs leave memory as they become durable, so an output may be evicted at the second read. */
async function childOutput(journal: Journal, { id, state }: LiveJob): Promise<Json> {
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
    for (const large of missing) read.set(large.seq, await readOutput(journal, id, large))
  }
}

/** Why there is no result. The cause of the child's failure decides whether a retry may help. */
export function childFault(child: LiveJob): Fault {
  const { id, state, plan } = child
  const which = describeChild(child).replace(/^c/, "C")
  const details = { job_id: id, status: state.status }
  if (state.fault === null)
    return {
      code: "E430",
      message: `${which} is ${state.status}${state.endReason === null ? "" : `: ${state.endReason.replace(/\.$/, "")}`}.`,
      // A deadline may have been too short this time; a cancellation was intended.
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
    retry_after_seconds,
    details,
  }
}
