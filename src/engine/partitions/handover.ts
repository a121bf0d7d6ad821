import type { Broker, TaskName } from "../../broker/port.ts"
import type { AttemptRef } from "../../core/commands.ts"
import { tasksInFlight } from "../../core/item-list.ts"
import { parseTaskKey, taskKey } from "../../core/state.ts"
import { LONGEST_WAIT } from "../clock.ts"
import { currentTask, type JobOwner, type LiveJob } from "../owner/live-job.ts"

interface HandoverOwner extends JobOwner {
  readonly broker: Broker
  /** Resolves when all decisions for the partition are stored. */
  allDurable(partition: number): Promise<void>
  /** Resolves when a task has ended, and those that waited for its place have begun. */
  nextTaskEnd(): Promise<void>
  /** Discards all memory of the partition. */
  forget(partition: number): void
}

/**
 * Busy partitions that are given to another engine while this one keeps running. None of their tasks begins here any
 * more, running handlers get time to end, and the rest is handed over as by a process that shuts down cleanly: the next
 * owner begins it again, and this is not counted as a loss. Tasks on other workers continue, and are adopted.
 */
export class Handover {
  readonly #owner: HandoverOwner

  constructor(owner: HandoverOwner) {
    this.#owner = owner
  }

  /** Resolves when nothing of the partition is in memory any more; rejects if it was lost meanwhile. */
  async handOver(partition: number, graceMs: number): Promise<void> {
    const owner = this.#owner
    const departing = owner.owned.get(partition)
    if (departing !== undefined) departing.isDeparting = true
    try {
      await this.#waitUntilIdle(partition, graceMs)
      owner.broker.remote?.left([partition])
      for (const job of this.#jobsIn(partition)) handOverTasks(job, owner)
      await owner.allDurable(partition)
      owner.forget(partition)
    } finally {
      if (departing !== undefined) departing.isDeparting = false
    }
  }

  /** Called before the process shuts down cleanly, after the grace time of running handlers. */
  handOverAll(): void {
    for (const job of [...this.#owner.jobs.values()]) handOverTasks(job, this.#owner)
  }

  async #waitUntilIdle(partition: number, graceMs: number): Promise<void> {
    let isOver = false
    let timer: NodeJS.Timeout | undefined
    const over = new Promise<void>(resolve => {
      timer = setTimeout(
        () => {
          isOver = true
          resolve()
        },
        Math.min(graceMs, LONGEST_WAIT),
      )
    })
    const isBusy = () => this.#jobsIn(partition).some(job => hasLocalTasks(job, this.#owner.broker))
    while (!isOver && isBusy()) await Promise.race([over, this.#owner.nextTaskEnd()])
    clearTimeout(timer)
  }

  #jobsIn(partition: number): LiveJob[] {
    return [...this.#owner.jobs.values()].filter(job => job.partition === partition)
  }
}

/** What happens to a job's tasks when its owner changes: those that ran in the owner's process end with it, others continue. */

type TaskOwner = Pick<JobOwner, "command"> & { readonly broker: Broker }

/** After take-over: tasks that ran in the last owner's process are lost, tasks on other workers are adopted. */
export function adoptTasks(job: LiveJob, now: number, owner: TaskOwner): void {
  const { remote } = owner.broker
  if (remote === undefined) {
    owner.command(job, { type: "recover" })
    return
  }
  const lost: AttemptRef[] = []
  for (const task of tasksInFlight(job.state, now)) {
    const { handler } = job.plan.nodes[task.node]!
    if (remote.adopt({ jobId: job.id, ...task }, handler)) job.running.add(taskKey(task))
    else lost.push(task)
  }
  if (lost.length > 0) owner.command(job, { type: "recover", only: lost })
}

/**
 * Has a job that was just loaded tasks in flight? A job with such tasks stays in its owner's memory, so they are an earlier
 * owner's. After take-over this job was not found to be due: its row has a time that had come by the earlier owner's
 * clock and has not by this one's.
 */
export function hasLostTasks({ isQueued, state }: LiveJob): boolean {
  return !isQueued && state.active > 0
}

/** For an orderly handover: the next owner begins running tasks again, and this is not counted as a loss. */
function handOverTasks(job: LiveJob, owner: TaskOwner): void {
  const only = runningTasks(job).filter(task => owner.broker.remote?.has(task) !== true)
  if (only.length > 0) owner.command(job, { type: "hand_over", only })
}

/** Does this process itself run a task of the job? A task that waits, for a slot here or at its provider, can wait at another engine. */
function hasLocalTasks(job: LiveJob, broker: Broker): boolean {
  return runningTasks(job).some(task => broker.isRunningHere(task))
}

/** The job has another owner: this process stops its tasks, the new owner continues them. */
export function releaseTasks(job: LiveJob, broker: Broker): void {
  for (const task of runningTasks(job)) {
    if (broker.remote === undefined) broker.cancel(task, "The job has moved to another engine.")
    else broker.remote.release(task)
  }
}

/** Cancels all tasks of a job that no owner wants any more. */
export function cancelTasks(job: LiveJob, broker: Broker): void {
  for (const task of runningTasks(job)) broker.cancel(task, "The job cannot continue in this process.")
}

function runningTasks(job: LiveJob): TaskName[] {
  return [...job.running].map(key => currentTask(job, parseTaskKey(key))).filter(task => task !== null)
}
