import type { Json } from "../core/json.ts"
import type { JobEvent } from "../core/view/events.ts"
import type { GraphView } from "../core/view/view.ts"
import type { JobSnapshot } from "../engine/owner/snapshot.ts"
import type { StartOptions } from "./arguments.ts"
import type { ForkRequest } from "./fork/request.ts"
import type { WhyQuery, WhyView } from "./why/why.ts"

/** Commands and queries for a job, by id. */
export interface JobCommands {
  wait(jobId: string, options?: { readonly timeoutMs?: number }): Promise<JobSnapshot>
  watch(jobId: string, options?: { readonly signal?: AbortSignal }): AsyncIterable<JobEvent>
  job(jobId: string): Promise<JobSnapshot>
  graph(jobId: string): Promise<GraphView>
  why(jobId: string, query?: WhyQuery): Promise<WhyView>
  cancel(jobId: string, reason?: string): Promise<void>
  retry(jobId: string): Promise<void>
  fork(jobId: string, request?: ForkRequest): Promise<JobHandle>
  delete(jobId: string): Promise<void>
  signal(jobId: string, name: string, data?: Json, options?: SignalOptions): Promise<void>
  pause(jobId: string, options?: PauseOptions): Promise<void>
  resume(jobId: string): Promise<void>
  reschedule(jobId: string, start: StartOptions): Promise<void>
  describe(jobId: string, description: JobDescription): Promise<void>
}

export interface PauseOptions {
  readonly reason?: string | undefined
  /** The caller, for the job's history: an API token or a user. */
  readonly by?: string | undefined
}

/** What people write on a job. Absent: unchanged. */
export interface JobDescription {
  /** All labels: those that are not given are removed. */
  readonly labels?: { readonly [key: string]: string } | undefined
  /** null: removes the note. */
  readonly note?: string | null | undefined
  /** As in `PauseOptions`. */
  readonly by?: string | undefined
}

export interface SignalOptions {
  /** From the job's graph: the signal is refused if the job has been resumed since. */
  readonly resumeToken?: string
  /** As in `PauseOptions`. */
  readonly by?: string | undefined
}

/** A submitted job, with the commands and queries for it. */
export class JobHandle<Output = Json> {
  readonly id: string
  readonly #commands: JobCommands

  constructor(commands: JobCommands, id: string) {
    this.#commands = commands
    this.id = id
  }

  wait(options?: { readonly timeoutMs?: number }): Promise<JobSnapshot & { readonly output: Output }> {
    return this.#commands.wait(this.id, options) as Promise<JobSnapshot & { readonly output: Output }>
  }

  watch(options?: { readonly signal?: AbortSignal }): AsyncIterable<JobEvent> {
    return this.#commands.watch(this.id, options)
  }

  status(): Promise<JobSnapshot> {
    return this.#commands.job(this.id)
  }

  graph(): Promise<GraphView> {
    return this.#commands.graph(this.id)
  }

  /** Why the job, or one of its nodes, makes no progress: now, or at a past moment. */
  why(query?: WhyQuery): Promise<WhyView> {
    return this.#commands.why(this.id, query)
  }

  cancel(reason?: string): Promise<void> {
    return this.#commands.cancel(this.id, reason)
  }

  retry(): Promise<void> {
    return this.#commands.retry(this.id)
  }

  /** A new job that takes over from this one what need not run again. */
  fork(request?: ForkRequest): Promise<JobHandle> {
    return this.#commands.fork(this.id, request)
  }

  /** Hides the job, which must have ended, or not have started. */
  delete(): Promise<void> {
    return this.#commands.delete(this.id)
  }

  signal(name: string, data?: Json, options?: SignalOptions): Promise<void> {
    return this.#commands.signal(this.id, name, data, options)
  }

  /** No further node begins until `resume`; running ones end, and the time to live keeps elapsing. */
  pause(options?: PauseOptions): Promise<void> {
    return this.#commands.pause(this.id, options)
  }

  resume(): Promise<void> {
    return this.#commands.resume(this.id)
  }

  /** Moves the start of a job that has not started; a delay of 0: it starts now. */
  reschedule(start: StartOptions): Promise<void> {
    return this.#commands.reschedule(this.id, start)
  }

  /** Changes the labels or the note. */
  describe(description: JobDescription): Promise<void> {
    return this.#commands.describe(this.id, description)
  }
}
