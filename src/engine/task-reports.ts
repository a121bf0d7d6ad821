import type { Outcome, Task, TaskEvents } from "../broker/port.ts"
import type { Attempted, Command } from "../core/commands.ts"
import { placeOf } from "../core/item-list.ts"
import { type LiveJob, taskKey } from "./live-job.ts"
import type { OwnerObserver } from "./owner.ts"

export interface TaskReportsParts {
  readonly jobs: ReadonlyMap<string, LiveJob>
  /** For those who need no answer. What should not happen sets the job aside. */
  readonly command: (job: LiveJob, command: Command, outputText?: string) => void
  readonly durable: (job: LiveJob) => Promise<void>
  readonly observer: Pick<OwnerObserver, "progressed" | "childWanted">
}

/** What workers say, as commands to the jobs concerned. */
export class TaskReports implements TaskEvents {
  readonly #parts: TaskReportsParts

  constructor(parts: TaskReportsParts) {
    this.#parts = parts
  }

  started(task: Task, worker: string): Promise<void> {
    const job = this.#jobOf(task)
    if (job === null) return Promise.resolve()
    this.#parts.command(job, { type: "started", ...attemptedBy(task), worker })
    return task.announce ? this.#parts.durable(job) : Promise.resolve()
  }

  progress(task: Task, progress: { readonly percent: number | null; readonly message: string | null }): void {
    const job = this.#jobOf(task)
    if (job === null) return
    job.progress ??= new Map()
    job.progress.set(taskKey(task), progress)
    this.#parts.observer.progressed(job, task.node)
  }

  preview(task: Task, data: Parameters<TaskEvents["preview"]>[1]): void {
    const job = this.#jobOf(task)
    if (job !== null) this.#parts.command(job, { type: "preview", ...attemptedBy(task), data })
  }

  finished(task: Task, outcome: Outcome): void {
    const job = this.#jobOf(task)
    if (job === null) return
    const { command, observer } = this.#parts
    const key = taskKey(task)
    job.running.delete(key)
    job.progress?.delete(key)
    if (outcome.type === "completed") this.#completed(job, task, outcome)
    else if (outcome.type === "failed")
      command(job, { type: "failed", ...attemptedBy(task), fault: outcome.fault })
    else if (outcome.type === "child") observer.childWanted(job, attemptedBy(task), outcome)
    else command(job, { type: "waiting", ...attemptedBy(task), waiting: outcome.waiting })
  }

  /** The commonest by far is put together by hand: spreads show in profiles. */
  #completed(job: LiveJob, task: Task, outcome: Extract<Outcome, { type: "completed" }>): void {
    const { output, text, usage } = outcome
    const { node, attempt, item } = task
    const isPlain = usage === undefined && item === undefined
    this.#parts.command(
      job,
      isPlain
        ? { type: "completed", node, attempt, output }
        : { type: "completed", ...attemptedBy(task), output, ...(usage === undefined ? {} : { usage }) },
      text,
    )
  }

  /** null: the job has left this memory, or the attempt is not its current one. */
  #jobOf(task: Task): LiveJob | null {
    const job = this.#parts.jobs.get(task.jobId)
    if (job === undefined || job.gone) return null
    if (task.item === undefined) return job.state.attempt[task.node] === task.attempt ? job : null
    const place = placeOf(job.state, task)
    return place?.state.attempt[place.position] === task.attempt ? job : null
  }
}

function attemptedBy({ node, item, attempt }: Task): Attempted {
  return item === undefined ? { node, attempt } : { node, item, attempt }
}
