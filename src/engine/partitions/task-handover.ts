/** What becomes of a job's tasks when its owner changes: those that ran in the owner's process end with it, others go on. */
import type { Broker, TaskName } from "../../broker/port.ts"
import type { AttemptRef, Command } from "../../core/commands.ts"
import { tasksInFlight } from "../../core/item-list.ts"
import { currentTask, type LiveJob, taskKey, taskOfKey } from "../owner/live-job.ts"

export type Tell = (job: LiveJob, command: Command) => void

/** After take-over: what ran in the last owner's process is lost, what workers elsewhere have in hand is ours now. */
export function adoptTasks(job: LiveJob, now: number, { remote }: Broker, tell: Tell): void {
  if (remote === undefined) {
    tell(job, { type: "recover" })
    return
  }
  const lost: AttemptRef[] = []
  for (const task of tasksInFlight(job.state, now)) {
    const { handler } = job.plan.nodes[task.node]!
    if (remote.adopt({ jobId: job.id, ...task }, handler)) job.running.add(taskKey(task))
    else lost.push(task)
  }
  if (lost.length > 0) tell(job, { type: "recover", only: lost })
}

/** In order: what still runs here is begun again by the next owner, and this is no loss that counts. */
export function handOver(job: LiveJob, { remote }: Broker, tell: Tell): void {
  if (job.state.started.size === 0 && job.state.lists.size === 0) return
  const only = runningTasks(job).filter(task => remote?.has(task) !== true)
  if (only.length > 0) tell(job, { type: "hand_over", only })
}

/** Does this process itself run something of it? What waits, for a slot here or at its provider, may wait elsewhere. */
export function isWorkedOnHere(job: LiveJob, broker: Broker): boolean {
  return runningTasks(job).some(task => broker.isRunningHere(task))
}

/** The job has another owner: nobody here wants its tasks any more, but that one does. */
export function release(job: LiveJob, broker: Broker): void {
  for (const task of runningTasks(job)) {
    if (broker.remote === undefined) broker.cancel(task, "The job has moved to another engine.")
    else broker.remote.release(task)
  }
}

/** Nobody wants its tasks any more. */
export function cancelTasks(job: LiveJob, broker: Broker): void {
  for (const task of runningTasks(job)) broker.cancel(task, "The job cannot go on in this process.")
}

function runningTasks(job: LiveJob): TaskName[] {
  return [...job.running].map(key => currentTask(job, taskOfKey(key))).filter(task => task !== null)
}
