import type { AttemptRef } from "../../core/commands.ts"
import { findTask } from "../../core/item-list.ts"
import { LargeOutput, ListOutput } from "../../core/state.ts"
import { type LiveJob, taskKey } from "./live-job.ts"

/**
 * Evicts an output that is too large for memory as soon as it is durable; it is read from the journal when needed.
 * Called right after its fact was recorded.
 */
export function evictOutput(
  job: LiveJob,
  completed: AttemptRef,
  bytes: number,
  durable: Promise<void>,
): void {
  const large = new LargeOutput(job.seq, bytes)
  const { state, position } = findTask(job.state, completed)!
  const key = taskKey(completed)
  job.evictingOutputs ??= new Set()
  job.evictingOutputs.add(key)
  durable.then(
    () => {
      job.evictingOutputs?.delete(key)
      state.outputs[position] = large
      const whole = job.state.outputs[completed.node]
      if (whole instanceof ListOutput) whole.partLeft()
    },
    () => {},
  )
}
