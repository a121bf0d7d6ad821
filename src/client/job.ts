import type { Json } from "../core/json.ts"
import type { UmbraClient } from "./client.ts"
import type { StreamOptions } from "./stream.ts"
import type * as api from "./types.ts"

export interface WaitOptions extends api.Signalled {
  /** After this time it resolves with the unfinished job. */
  readonly timeoutMs?: number
}

export interface WatchOptions extends Omit<StreamOptions, "lastEventId"> {
  /** Progress of the running nodes: reported in addition to the events, since it is not stored. */
  readonly onProgress?: (progress: api.StreamedProgress) => void
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
  wait(options?: WaitOptions): Promise<api.JobSnapshot & { readonly output: Output }> {
    return this.#client.wait(this.id, options) as Promise<api.JobSnapshot & { readonly output: Output }>
  }

  status(options?: api.Signalled): Promise<api.JobSnapshot> {
    return this.#client.job(this.id, options)
  }

  /** States and progress as they change, for a user interface. Ends with the job. */
  stream(options?: StreamOptions): AsyncIterable<api.JobStreamEvent> {
    return this.#client.stream(this.id, options)
  }

  /** Every event from the start of the job until it has ended, including outputs of nodes, for a log. */
  watch(options?: WatchOptions): AsyncIterable<api.RemoteEvent> {
    return this.#client.watch(this.id, options)
  }

  /** All events so far. */
  events(
    options?: api.Signalled & { readonly after?: number | undefined },
  ): Promise<readonly api.RemoteEvent[]> {
    return this.#client.events(this.id, options)
  }

  graph(options?: api.Signalled): Promise<api.RemoteGraph> {
    return this.#client.graph(this.id, options)
  }

  /** The graph at a past moment: a seq, `#12` for the twelfth fact, or a time. */
  graphAt(at: number | string | Date, options?: api.Signalled): Promise<api.RemoteGraphAt> {
    return this.#client.graphAt(this.id, at, options)
  }

  /** Why the job, or one of its nodes, makes no progress. */
  why(options?: api.WhyOptions): Promise<api.WhyView> {
    return this.#client.why(this.id, options)
  }

  /** All facts, oldest first. */
  facts(options?: api.FactsOptions): AsyncIterable<api.FactRecord> {
    return this.#client.facts(this.id, options)
  }

  /** Facts as they become durable, and the live state, until the job has ended. */
  followFacts(options?: StreamOptions): AsyncIterable<api.FactStreamEvent> {
    return this.#client.followFacts(this.id, options)
  }

  /** What its handlers logged, and what the engine did with its nodes, by time. */
  logs(options?: Omit<api.LogsOptions, "before">): AsyncIterable<api.LogLine> {
    return this.#client.logs.list(this.id, options)
  }

  /** The same as it is stored, until the job has ended. */
  followLogs(options?: api.LogFilter & StreamOptions): AsyncIterable<api.LogStreamEvent> {
    return this.#client.logs.follow(this.id, options)
  }

  /** A payload that a fact refers to. */
  payload(seq: number, field: string, options?: api.PayloadOptions): Promise<Json> {
    return this.#client.payload(this.id, seq, field, options)
  }

  /** One node, with its output and the history of its attempts, or of those of one of its items. */
  node(node: string, options?: api.NodeOptions): Promise<api.RemoteNodeDetails> {
    return this.#client.node(this.id, node, options)
  }

  /** The config of a node as it was rendered for an attempt, with secrets masked. */
  nodeConfig(node: string, options?: api.ConfigOptions): Promise<api.NodeConfig> {
    return this.#client.nodeConfig(this.id, node, options)
  }

  /** The job as one HTML file that replays it. */
  report(options?: api.ReportOptions): Promise<string> {
    return this.#client.report(this.id, options)
  }

  /** A page of the items of a node with `for_each`. */
  items(node: string, options?: api.ItemsOptions): Promise<api.RemoteItemPage> {
    return this.#client.items(this.id, node, options)
  }

  /** For a pipeline: the ancestors and descendants of a message (`route:12`). */
  lineage(message: string, options?: api.LineageOptions): Promise<api.Lineage> {
    return this.#client.lineage(this.id, message, options)
  }

  /** For a pipeline: all messages that failed permanently. */
  deadLetters(options?: api.DeadLettersOptions): AsyncIterable<api.DeadLetter> {
    return this.#client.deadLetters(this.id, options)
  }

  /** Replays dead letters of a pipeline, as a new job. */
  replay(options?: api.ReplayOptions): Promise<api.ReplayJob> {
    return this.#client.replay(this.id, options)
  }

  cancel(reason?: string): Promise<api.JobSnapshot> {
    return this.#client.cancel(this.id, reason)
  }

  retry(): Promise<api.JobSnapshot> {
    return this.#client.retry(this.id)
  }

  /** A new job that takes over from this one what need not run again. */
  fork(request?: api.ForkRequest, options?: api.ForkOptions): Promise<RemoteJob> {
    return this.#client.fork(this.id, request, options)
  }

  /** What a fork would do. */
  previewFork(request?: api.ForkRequest, options?: api.Signalled): Promise<api.ForkPreview> {
    return this.#client.previewFork(this.id, request, options)
  }

  /** Hides the job, which must have ended, or not have started. */
  delete(): Promise<void> {
    return this.#client.delete(this.id)
  }

  signal(name: string, data?: Json, options?: api.SignalOptions): Promise<api.JobSnapshot> {
    return this.#client.signal(this.id, name, data, options)
  }

  /** No further node begins until `resume`; running ones end, and the time to live keeps elapsing. */
  pause(options?: { readonly reason?: string | undefined }): Promise<api.JobSnapshot> {
    return this.#client.pause(this.id, options)
  }

  resume(): Promise<api.JobSnapshot> {
    return this.#client.resume(this.id)
  }

  /** Moves the start of a job that has not started; a delay of 0: it starts now. */
  reschedule(start: api.StartOptions): Promise<api.JobSnapshot> {
    return this.#client.reschedule(this.id, start)
  }

  /** Changes the labels or the note. */
  describe(description: api.JobDescription): Promise<api.JobSnapshot> {
    return this.#client.describe(this.id, description)
  }
}
