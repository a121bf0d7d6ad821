import type { Broker } from "../../broker/port.ts"
import { wholeMs } from "../../core/attempt-times.ts"
import type { Command } from "../../core/commands.ts"
import type { RunningAttempt } from "../../core/facts.ts"
import { currentTask, type LiveJob, parseTaskKey } from "./live-job.ts"

/** May the command end attempts other than its own? A plain completion never does, and skips this work. */
export function mayEndAttempts({ type }: Command): boolean {
  switch (type) {
    case "failed":
    case "external":
    case "wake":
    case "recover":
    case "hand_over":
    case "fail_job":
    case "cancel":
      return true
    default:
      return false
  }
}

/** The job's attempts whose handler runs now, in this process or, as far as it has reported, in a worker process. */
export function runningAttempts(job: LiveJob, broker: Broker): RunningAttempt[] {
  const found: RunningAttempt[] = []
  for (const key of job.running) {
    const task = parseTaskKey(key)
    const current = currentTask(job, task)
    const running = current === null ? null : broker.runningTask(current)
    if (running === null) continue
    const { ranMs, worker, usage } = running
    found.push({ ...task, ran_ms: wholeMs(ranMs), worker, ...(usage === undefined ? {} : { usage }) })
  }
  return found
}
