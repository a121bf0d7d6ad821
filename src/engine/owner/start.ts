import type { Command, StartTime, Submit } from "../../core/commands.ts"
import { startTime } from "../../core/decide/start.ts"
import type { JobSubmitted } from "../../core/facts.ts"
import { isDelayed } from "../../core/state.ts"
import type { Clock } from "../clock.ts"
import type { JobQueue } from "./job-queue.ts"
import type { LiveJob } from "./live-job.ts"
import { requeue } from "./pause.ts"

/** Delayed jobs: rows with their start time as `wake_at`. They are in memory only for commands, and when they are due. */

/** Does a new job wait for its start time? */
export function startsLater(command: StartTime, clock: Clock): boolean {
  if (command.startAt === undefined && command.delayMs === undefined) return false
  return startTime(command, clock.now()) !== null
}

/** The `wakeAt` of a new job that is a row and not in memory. */
export function rowWakeAt(fact: JobSubmitted, command: Submit, queue: JobQueue): number | null {
  if (command.paused !== undefined) return fact.expires_at
  return fact.start_at ?? queue.recorded(command)
}

interface StartingOwner {
  readonly queue: JobQueue
  command(job: LiveJob, command: Command): void
  durable(job: Pick<LiveJob, "id" | "partition">): Promise<void>
}

/**
 * Decides on the timers of a job. A delayed job that starts takes a place of its queue, or waits there as a row. Returns
 * false if this engine starts no job: then it waits for another engine.
 */
export function wake(job: LiveJob, owner: StartingOwner, { startsJobs }: { startsJobs: boolean }): boolean {
  const { state, plan } = job
  if (!isDelayed(state)) {
    owner.command(job, { type: "wake" })
    return true
  }
  if (!startsJobs) return false
  owner.command(job, { type: "wake", queued: plan.pipeline === null && !owner.queue.mayBegin(state) })
  if (job.evicted || isDelayed(state)) return true
  if (state.status === "QUEUED") {
    job.isQueued = true
    requeue(job, owner)
  } else owner.queue.entered(job)
  return true
}
