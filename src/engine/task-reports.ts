import type { Outcome, Task, TaskEvents } from "../broker/port.ts"
import type { Command } from "../core/commands.ts"
import type { LiveJob } from "./live-job.ts"
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
    this.#parts.command(job, { type: "started", node: task.node, attempt: task.attempt, worker })
    return task.announce ? this.#parts.durable(job) : Promise.resolve()
  }

  progress(task: Task, progress: { readonly percent: number | null; readonly message: string | null }): void {
    const job = this.#jobOf(task)
    if (job === null) return
    job.progress ??= new Map()
    job.progress.set(task.node, progress)
    this.#parts.observer.progressed(job, task.node)
  }

  preview(task: Task, data: Parameters<TaskEvents["preview"]>[1]): void {
    const job = this.#jobOf(task)
    if (job !== null)
      this.#parts.command(job, { type: "preview", node: task.node, attempt: task.attempt, data })
  }

  finished(task: Task, outcome: Outcome): void {
    const job = this.#jobOf(task)
    if (job === null) return
    const { command, observer } = this.#parts
    const { node, attempt } = task
    job.running.delete(node)
    job.progress?.delete(node)
    if (outcome.type === "completed") {
      const { output, text, usage } = outcome
      command(
        job,
        { type: "completed", node, attempt, output, ...(usage === undefined ? {} : { usage }) },
        text,
      )
    } else if (outcome.type === "failed")
      command(job, { type: "failed", node, attempt, fault: outcome.fault })
    else if (outcome.type === "child") observer.childWanted(job, { node, attempt }, outcome)
    else command(job, { type: "waiting", node, attempt, waiting: outcome.waiting })
  }

  /** null: the job has left this memory, or the attempt is not its current one. */
  #jobOf(task: Task): LiveJob | null {
    const job = this.#parts.jobs.get(task.jobId)
    return job === undefined || job.gone || job.state.attempt[task.node] !== task.attempt ? null : job
  }
}
