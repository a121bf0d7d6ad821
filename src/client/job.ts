import type { Json } from "../core/json.ts"
import type { StreamOptions } from "./stream.ts"
import type {
  DeadLetter,
  DeadLettersOptions,
  ItemsOptions,
  JobSnapshot,
  JobStreamEvent,
  Lineage,
  LineageOptions,
  NodeOptions,
  RemoteEvent,
  RemoteGraph,
  RemoteItemPage,
  RemoteNodeDetails,
  ReplayJob,
  ReplayOptions,
  Signalled,
  SignalOptions,
  StreamedProgress,
} from "./types.ts"

export interface WaitOptions extends Signalled {
  /** At the latest then it answers with the job as it is. */
  readonly timeoutMs?: number
}

export interface WatchOptions extends Omit<StreamOptions, "lastEventId"> {
  /** How far the nodes are that run now: told beside the events, since it is not kept. */
  readonly onProgress?: (progress: StreamedProgress) => void
}

/** What can be asked for a job, by id. */
export interface JobCommands {
  wait(jobId: string, options?: WaitOptions): Promise<JobSnapshot>
  stream(jobId: string, options?: StreamOptions): AsyncIterable<JobStreamEvent>
  watch(jobId: string, options?: WatchOptions): AsyncIterable<RemoteEvent>
  job(jobId: string, options?: Signalled): Promise<JobSnapshot>
  graph(jobId: string, options?: Signalled): Promise<RemoteGraph>
  node(jobId: string, node: string, options?: NodeOptions): Promise<RemoteNodeDetails>
  items(jobId: string, node: string, options?: ItemsOptions): Promise<RemoteItemPage>
  lineage(jobId: string, message: string, options?: LineageOptions): Promise<Lineage>
  deadLetters(jobId: string, options?: DeadLettersOptions): AsyncIterable<DeadLetter>
  replay(jobId: string, options?: ReplayOptions): Promise<ReplayJob>
  events(jobId: string, options?: Signalled & { readonly after?: number }): Promise<readonly RemoteEvent[]>
  cancel(jobId: string, reason?: string): Promise<JobSnapshot>
  retry(jobId: string): Promise<JobSnapshot>
  delete(jobId: string): Promise<void>
  signal(jobId: string, name: string, data?: Json, options?: SignalOptions): Promise<JobSnapshot>
}

/** A job on the server, with the commands that concern it. The same as the handle that `umbra.submit` gives, and streams. */
export class RemoteJob<Output = Json> {
  readonly id: string
  readonly #commands: JobCommands

  constructor(commands: JobCommands, id: string) {
    this.#commands = commands
    this.id = id
  }

  /** Resolves when the job has ended, whatever becomes of the connection meanwhile. */
  wait(options?: WaitOptions): Promise<JobSnapshot & { readonly output: Output }> {
    return this.#commands.wait(this.id, options) as Promise<JobSnapshot & { readonly output: Output }>
  }

  status(options?: Signalled): Promise<JobSnapshot> {
    return this.#commands.job(this.id, options)
  }

  /** States and progress as they change: what a page shows. Ends with the job. */
  stream(options?: StreamOptions): AsyncIterable<JobStreamEvent> {
    return this.#commands.stream(this.id, options)
  }

  /** Every event from the job's beginning until it has ended, outputs of nodes included: what a log has. */
  watch(options?: WatchOptions): AsyncIterable<RemoteEvent> {
    return this.#commands.watch(this.id, options)
  }

  /** Everything that has happened so far. */
  events(options?: Signalled & { readonly after?: number }): Promise<readonly RemoteEvent[]> {
    return this.#commands.events(this.id, options)
  }

  graph(options?: Signalled): Promise<RemoteGraph> {
    return this.#commands.graph(this.id, options)
  }

  /** One node, with its output and the history of its attempts, or of those of one of its items. */
  node(node: string, options?: NodeOptions): Promise<RemoteNodeDetails> {
    return this.#commands.node(this.id, node, options)
  }

  /** A page of the items of a node with `for_each`. */
  items(node: string, options?: ItemsOptions): Promise<RemoteItemPage> {
    return this.#commands.items(this.id, node, options)
  }

  /** Of a pipeline: what a message (`route:12`) comes from, and what comes from it. */
  lineage(message: string, options?: LineageOptions): Promise<Lineage> {
    return this.#commands.lineage(this.id, message, options)
  }

  /** Of a pipeline: every message that failed for good. */
  deadLetters(options?: DeadLettersOptions): AsyncIterable<DeadLetter> {
    return this.#commands.deadLetters(this.id, options)
  }

  /** Processes dead letters of a pipeline again, as a new job. */
  replay(options?: ReplayOptions): Promise<ReplayJob> {
    return this.#commands.replay(this.id, options)
  }

  cancel(reason?: string): Promise<JobSnapshot> {
    return this.#commands.cancel(this.id, reason)
  }

  retry(): Promise<JobSnapshot> {
    return this.#commands.retry(this.id)
  }

  /** Hides the job, which must have ended. */
  delete(): Promise<void> {
    return this.#commands.delete(this.id)
  }

  signal(name: string, data?: Json, options?: SignalOptions): Promise<JobSnapshot> {
    return this.#commands.signal(this.id, name, data, options)
  }
}
