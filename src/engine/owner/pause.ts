import type { Broker } from "../../broker/port.ts"
import type { Command } from "../../core/commands.ts"
import { tasksInFlight } from "../../core/item-list.ts"
import { parseTaskKey, type TaskRef } from "../../core/state.ts"
import { jobHasEnded } from "../../core/states.ts"
import type { JobQueue } from "./job-queue.ts"
import { currentTask, type JobOwner, type LiveJob } from "./live-job.ts"

type Pause = Extract<Command, { type: "pause" }>

type PausingOwner = Pick<JobOwner, "pendingDecisions"> & { readonly broker: Broker }

/**
 * The command to pause a job, with the attempts that a worker has, or may have, and those whose outcome is being decided
 * on: held, they would run again after the resume. All others are taken back from the broker, so that none of them
 * begins after the decision. A command that will be refused changes nothing.
 */
export function pauseCommand(
  job: LiveJob,
  command: Pause,
  { broker, pendingDecisions }: PausingOwner,
): Pause {
  const { status, paused } = job.state
  if (jobHasEnded(status) || (paused !== null && !paused.ofWorkflow)) return command
  const kept: TaskRef[] = []
  for (const key of [...job.running]) {
    const task = parseTaskKey(key)
    const current = currentTask(job, task)
    if (current !== null && !broker.withdraw(current)) kept.push(task)
    else job.running.delete(key)
  }
  for (const task of tasksInFlight(job.state, Number.POSITIVE_INFINITY))
    if (pendingDecisions.has(job.id, task)) kept.push(task)
  job.awaitingHandler = null
  return { ...command, kept }
}

/** After a command that people see in the job's row: the row is written even if nothing else of it has changed. */
export function rowChanged(job: LiveJob, command: Command, owner: QueueOwner): void {
  if (job.projected !== null) job.projected = { ...job.projected, wakeAt: undefined }
  if (command.type === "describe" && command.labels !== undefined) job.isRelabelled = true
  // A description leaves a job where it is, also one that was dispatched and is QUEUED until its first fact.
  if (job.state.status !== "QUEUED" || command.type === "describe") return
  // It goes back to the rows of its queue, or stays there.
  job.isQueued = true
  if (command.type === "resume") requeue(job, owner)
}

interface QueueOwner {
  readonly queue: JobQueue
  durable(job: Pick<LiveJob, "id" | "partition">): Promise<void>
}

/** A job that was resumed, or has started, and waits as a row: it is in its queue once that is stored. */
export function requeue({ id, partition, state }: LiveJob, owner: QueueOwner): void {
  owner.durable({ id, partition }).then(
    () => owner.queue.stored({ ...state, id, partition }),
    () => {},
  )
}
