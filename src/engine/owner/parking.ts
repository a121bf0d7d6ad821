/** When an idle job may leave its owner's memory: then its facts and `wakeAt` are enough. */
import type { JobState } from "../../core/state.ts"
import { jobHasEnded } from "../../core/states.ts"
import { isBusy, wakeAt } from "../../core/timers.ts"
import type { LiveJob } from "./live-job.ts"

/** `until`: the job stays for now and is checked again at that time. */
export type Parking = "stays" | "leaves" | { readonly until: number }

export function decideParking(
  job: LiveJob,
  context: { readonly now: number; readonly parkAfterMs: number },
): Parking {
  if (job.evicted || job.pendingBatches > 0 || isBusy(job.state) || job.state.unsettled) return "stays"
  if (jobHasEnded(job.state.status)) return "leaves"
  const wake = wakeAt(job.state)
  if (wake !== null && wake - context.now < context.parkAfterMs) return "stays"
  if (job.projected?.wakeAt !== wake) return "stays"
  // A large job is costly to load again, and the events it waits for may arrive one by one: the items of a list at a
  // provider would be folded once for each slot and each result. It leaves when nothing has happened for a while.
  const until = job.at + context.parkAfterMs
  return until > context.now && jobSize(job.state) >= LARGE ? { until } : "leaves"
}

/** The number of nodes and items from which a job is costly to load again. */
const LARGE = 100

function jobSize({ nodeStatus, lists }: JobState): number {
  let size = nodeStatus.length
  for (const { items } of lists.values()) size += items.length
  return size
}
