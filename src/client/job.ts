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
  /** After this time it resolves with the unfinished job. */
  readonly timeoutMs?: number
}

export interface WatchOptions extends Omit<StreamOptions, "lastEventId"> {
  /** Progress of the running nodes: reported in addition to the events, since it is not stored. */
  readonly onProgress?: (progress: StreamedProgress) => void
}

/** The methods of the client for a job, by id. */
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
  events(
    jobId: string,
    options?: Signalled & { readonly after?: number | undefined },
  ): Promise<readonly RemoteEvent[]>
  cancel(jobId: string, reason?: string): Promise<JobSnapshot>
  retry(jobId: string): Promise<JobSnapshot>
  delete(jobId: string): Promise<void>
  signal(jobId: string, name: string, data?: Json, options?: SignalOptions): Promise<JobSnapshot>
}

/** A job on the server, with its commands. It has the methods of the handle that `umbra.submit` returns, and streams. */
export class RemoteJob<Output = Json> {
  readonly id: string
  readonly #commands: JobCommands

  constructor(commands: JobCommands, id: string) {
    this.#commands = commands
    this.id = id
  }

  /** Resolves when the job has ended, even if the connection is lost meanwhile. */
  wait(options?: WaitOptions): Promise<JobSnapshot & { readonly output: Output }> {
    return this.#commands.wait(this.id, options) as Promise<JobSnapshot & { readonly output: Output }>
  }

  status(options?: Signalled): Promise<JobSnapshot> {
    return this.#commands.job(this.id, options)
  }

  /** States and progress as they change, for a user interface. Ends with the job. */
  stream(options?: StreamOptions): AsyncIterable<JobStreamEvent> {
    return this.#commands.stream(this.id, options)
  }

  /** Every event from the start of the job until it has ended, including outputs of nodes, for a log. */
  watch(options?: WatchOptions): AsyncIterable<RemoteEvent> {
    return this.#commands.watch(this.id, options)
  }

  /** All events so far. */
  events(options?: Signalled & { readonly after?: number | undefined }): Promise<readonly RemoteEvent[]> {
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

  /** For a pipeline: the ancestors and descendants of a message (`route:12`). */
  lineage(message: string, options?: LineageOptions): Promise<Lineage> {
    return this.#commands.lineage(this.id, message, options)
  }

  /** For a pipeline: all messages that failed permanently. */
  deadLetters(options?: DeadLettersOptions): AsyncIterable<DeadLetter> {
    return this.#commands.deadLetters(this.id, options)
  }

  /** Replays dead letters of a pipeline, as a new job. */
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
