import type { Json } from "../core/json.ts"
import type { UmbraClient } from "./client.ts"
import type { StreamOptions } from "./stream.ts"
import type {
  ConfigOptions,
  DeadLetter,
  DeadLettersOptions,
  FactRecord,
  FactStreamEvent,
  FactsOptions,
  ForkOptions,
  ForkPreview,
  ForkRequest,
  ItemsOptions,
  JobDescription,
  JobSnapshot,
  JobStreamEvent,
  Lineage,
  LineageOptions,
  LogFilter,
  LogLine,
  LogStreamEvent,
  LogsOptions,
  NodeConfig,
  NodeOptions,
  PayloadOptions,
  RemoteEvent,
  RemoteGraph,
  RemoteGraphAt,
  RemoteItemPage,
  RemoteNodeDetails,
  ReplayJob,
  ReplayOptions,
  ReportOptions,
  Signalled,
  SignalOptions,
  StartOptions,
  StreamedProgress,
  WhyOptions,
  WhyView,
} from "./types.ts"

export interface WaitOptions extends Signalled {
  /** After this time it resolves with the unfinished job. */
  readonly timeoutMs?: number
}

export interface WatchOptions extends Omit<StreamOptions, "lastEventId"> {
  /** Progress of the running nodes: reported in addition to the events, since it is not stored. */
  readonly onProgress?: (progress: StreamedProgress) => void
}

/** A job on the server, with its commands. It has the methods of the handle that `umbra.submit` returns, and streams. */
export class RemoteJob<Output = Json> {
  readonly id: string
  readonly #client: UmbraClient

  constructor(client: UmbraClient, id: string) {
    this.#client = client
    this.id = id
  }

  /** Resolves when the job has ended, even if the connection is lost meanwhile. */
  wait(options?: WaitOptions): Promise<JobSnapshot & { readonly output: Output }> {
    return this.#client.wait(this.id, options) as Promise<JobSnapshot & { readonly output: Output }>
  }

  status(options?: Signalled): Promise<JobSnapshot> {
    return this.#client.job(this.id, options)
  }

  /** States and progress as they change, for a user interface. Ends with the job. */
  stream(options?: StreamOptions): AsyncIterable<JobStreamEvent> {
    return this.#client.stream(this.id, options)
  }

  /** Every event from the start of the job until it has ended, including outputs of nodes, for a log. */
  watch(options?: WatchOptions): AsyncIterable<RemoteEvent> {
    return this.#client.watch(this.id, options)
  }

  /** All events so far. */
  events(options?: Signalled & { readonly after?: number | undefined }): Promise<readonly RemoteEvent[]> {
    return this.#client.events(this.id, options)
  }

  graph(options?: Signalled): Promise<RemoteGraph> {
    return this.#client.graph(this.id, options)
  }

  /** The graph at a past moment: a seq, `#12` for the twelfth fact, or a time. */
  graphAt(at: number | string | Date, options?: Signalled): Promise<RemoteGraphAt> {
    return this.#client.graphAt(this.id, at, options)
  }

  /** Why the job, or one of its nodes, makes no progress. */
  why(options?: WhyOptions): Promise<WhyView> {
    return this.#client.why(this.id, options)
  }

  /** All facts, oldest first. */
  facts(options?: FactsOptions): AsyncIterable<FactRecord> {
    return this.#client.facts(this.id, options)
  }

  /** Facts as they become durable, and the live state, until the job has ended. */
  followFacts(options?: StreamOptions): AsyncIterable<FactStreamEvent> {
    return this.#client.followFacts(this.id, options)
  }

  /** What its handlers logged, and what the engine did with its nodes, by time. */
  logs(options?: Omit<LogsOptions, "before">): AsyncIterable<LogLine> {
    return this.#client.logs.list(this.id, options)
  }

  /** The same as it is stored, until the job has ended. */
  followLogs(options?: LogFilter & StreamOptions): AsyncIterable<LogStreamEvent> {
    return this.#client.logs.follow(this.id, options)
  }

  /** A payload that a fact refers to. */
  payload(seq: number, field: string, options?: PayloadOptions): Promise<Json> {
    return this.#client.payload(this.id, seq, field, options)
  }

  /** One node, with its output and the history of its attempts, or of those of one of its items. */
  node(node: string, options?: NodeOptions): Promise<RemoteNodeDetails> {
    return this.#client.node(this.id, node, options)
  }

  /** The config of a node as it was rendered for an attempt, with secrets masked. */
  nodeConfig(node: string, options?: ConfigOptions): Promise<NodeConfig> {
    return this.#client.nodeConfig(this.id, node, options)
  }

  /** The job as one HTML file that replays it. */
  report(options?: ReportOptions): Promise<string> {
    return this.#client.report(this.id, options)
  }

  /** A page of the items of a node with `for_each`. */
  items(node: string, options?: ItemsOptions): Promise<RemoteItemPage> {
    return this.#client.items(this.id, node, options)
  }

  /** For a pipeline: the ancestors and descendants of a message (`route:12`). */
  lineage(message: string, options?: LineageOptions): Promise<Lineage> {
    return this.#client.lineage(this.id, message, options)
  }

  /** For a pipeline: all messages that failed permanently. */
  deadLetters(options?: DeadLettersOptions): AsyncIterable<DeadLetter> {
    return this.#client.deadLetters(this.id, options)
  }

  /** Replays dead letters of a pipeline, as a new job. */
  replay(options?: ReplayOptions): Promise<ReplayJob> {
    return this.#client.replay(this.id, options)
  }

  cancel(reason?: string): Promise<JobSnapshot> {
    return this.#client.cancel(this.id, reason)
  }

  retry(): Promise<JobSnapshot> {
    return this.#client.retry(this.id)
  }

  /** A new job that takes over from this one what need not run again. */
  fork(request?: ForkRequest, options?: ForkOptions): Promise<RemoteJob> {
    return this.#client.fork(this.id, request, options)
  }

  /** What a fork would do. */
  previewFork(request?: ForkRequest, options?: Signalled): Promise<ForkPreview> {
    return this.#client.previewFork(this.id, request, options)
  }

  /** Hides the job, which must have ended, or not have started. */
  delete(): Promise<void> {
    return this.#client.delete(this.id)
  }

  signal(name: string, data?: Json, options?: SignalOptions): Promise<JobSnapshot> {
    return this.#client.signal(this.id, name, data, options)
  }

  /** No further node begins until `resume`; running ones end, and the time to live keeps elapsing. */
  pause(options?: { readonly reason?: string | undefined }): Promise<JobSnapshot> {
    return this.#client.pause(this.id, options)
  }

  resume(): Promise<JobSnapshot> {
    return this.#client.resume(this.id)
  }

  /** Moves the start of a job that has not started; a delay of 0: it starts now. */
  reschedule(start: StartOptions): Promise<JobSnapshot> {
    return this.#client.reschedule(this.id, start)
  }

  /** Changes the labels or the note. */
  describe(description: JobDescription): Promise<JobSnapshot> {
    return this.#client.describe(this.id, description)
  }
}
