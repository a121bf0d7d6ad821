/**
 * Umbra from elsewhere, over HTTP: in the style of the embedding API, for Node, browsers and whatever else has `fetch`.
 *
 * 1. A submission is sent again when its answer was lost, and still makes one job: it always has an idempotency key.
 * 2. `wait` polls with long answers, so it works through proxies, and outlives a restart of the server.
 */
import type { Json } from "../core/json.ts"
import type { JobStatus } from "../core/states.ts"
import type { Definition, Workflow } from "../definition/typed/builder.ts"
import { UmbraClientError } from "./error.ts"
import { type ConnectOptions, Http, isAway } from "./http.ts"
import { type JobCommands, RemoteJob, type WaitOptions, type WatchOptions } from "./job.ts"
import { newKey, pause } from "./patience.ts"
import { resumingStream, type StreamOptions } from "./stream.ts"
import { Tokens } from "./tokens.ts"
import type {
  DeadLetter,
  DeadLetterPage,
  DeadLettersOptions,
  EventPage,
  ItemsOptions,
  JobPage,
  JobSnapshot,
  JobStreamEvent,
  JobsFilter,
  JobsStreamEvent,
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
  SubmitOptions,
} from "./types.ts"
import { jobEvents } from "./watch.ts"
import { segment, Workflows } from "./workflows.ts"

/** An input that may be left out is one that `{}` is enough for. */
type InputArguments<Input> =
  Record<never, never> extends Input
    ? [input?: Input, options?: SubmitOptions]
    : [input: Input, options?: SubmitOptions]

/** Shorter than what proxies and load balancers bear without an answer. */
const POLL_SECONDS = 25
const SHORTEST_POLL_MS = 500
/** Of a page, the most that a server gives: each costs it the whole job. */
const EVENTS = 10_000

/**
 *     const umbra = connect({ url: "http://127.0.0.1:7070", token })
 *     const job = await umbra.submit("hello", { name: "Ada" })
 *     const { status, output } = await job.wait()
 */
export function connect(options: ConnectOptions): UmbraClient {
  return new UmbraClient(options)
}

export class UmbraClient implements JobCommands {
  readonly url: string
  readonly workflows: Workflows
  readonly tokens: Tokens
  readonly #http: Http

  constructor(options: ConnectOptions) {
    this.#http = new Http(options)
    this.url = this.#http.url
    this.workflows = new Workflows(this.#http)
    this.tokens = new Tokens(this.#http)
  }

  /**
   * Resolves when the job is durable. The workflow is one made with the builder or a definition, which is stored first,
   * or the name of a stored one: `name`, `name@3`, `name@stable`.
   */
  submit<Input, Output>(
    workflow: Workflow<Input, Output>,
    ...given: InputArguments<Input>
  ): Promise<RemoteJob<Output>>
  submit(workflow: Definition | string, input?: unknown, options?: SubmitOptions): Promise<RemoteJob>
  async submit(
    workflow: Workflow | Definition | string,
    input?: unknown,
    options: SubmitOptions = {},
  ): Promise<RemoteJob> {
    const { job_id } = await this.accept(workflow, input, options)
    return new RemoteJob(this, job_id)
  }

  /** As `submit`, for whoever wants to know the job as it began, and whether it is new. */
  async accept(
    workflow: Workflow | Definition | string,
    input?: unknown,
    options: SubmitOptions = {},
  ): Promise<JobSnapshot & { readonly is_new: boolean }> {
    // One key for all sendings. Without the workflow nothing has been claimed with it.
    const keyed = { ...options, idempotencyKey: options.idempotencyKey ?? newKey() }
    if (typeof workflow === "string") return this.#send(workflow, input, keyed)
    try {
      return await this.#pushAndSend(workflow, input, keyed)
    } catch (error) {
      if (!(error instanceof UmbraClientError) || error.code !== "E305") throw error
      // Somebody has deleted the workflow since this client pushed it.
      this.workflows.forget(workflow)
      return this.#pushAndSend(workflow, input, keyed)
    }
  }

  async #pushAndSend(
    workflow: Workflow | Definition,
    input: unknown,
    options: SubmitOptions,
  ): Promise<JobSnapshot & { readonly is_new: boolean }> {
    const { name, version } = await this.workflows.pushOnce(workflow, signalOf(options))
    return this.#send(`${name}@${version}`, input, options)
  }

  async #send(
    workflow: string,
    input: unknown,
    { idempotencyKey, ttlSeconds, priority, labels, signal }: SubmitOptions,
  ): Promise<JobSnapshot & { readonly is_new: boolean }> {
    const { status, value } = await this.#http.answer<JobSnapshot>("/jobs", {
      method: "POST",
      safe: true,
      headers: { "idempotency-key": headerText(idempotencyKey!) },
      body: { workflow, input, priority, ttl_seconds: ttlSeconds, labels },
      signal,
    })
    return { ...value, is_new: status === 201 }
  }

  handle(jobId: string): RemoteJob {
    return new RemoteJob(this, jobId)
  }

  async job(jobId: string, options: Signalled = {}): Promise<JobSnapshot> {
    return this.#http.ask(`/jobs/${segment(jobId)}`, options)
  }

  /** Every job that the filter lets through, newest first, page after page as they are needed. */
  async *jobs(filter: JobsFilter = {}): AsyncGenerator<JobSnapshot, void, undefined> {
    for (let after = filter.after; ; ) {
      const page = await this.jobPage({ ...filter, ...(after === undefined ? {} : { after }) })
      yield* page.jobs
      if (page.next === null) return
      after = page.next
    }
  }

  jobPage(filter: JobsFilter = {}): Promise<JobPage> {
    const { statuses, workflow, labels, parentId, createdFrom, createdBefore } = filter
    const { after, limit, deleted, signal } = filter
    const time = (at: number | undefined) => (at === undefined ? undefined : new Date(at).toISOString())
    return this.#http.ask("/jobs", {
      query: {
        status: statuses?.join(","),
        workflow,
        label: labels && Object.entries(labels).map(([name, value]) => `${name}=${value}`),
        parent: parentId === null ? "none" : parentId,
        created_from: time(createdFrom),
        created_before: time(createdBefore),
        deleted,
        after,
        limit,
      },
      signal,
    })
  }

  async graph(jobId: string, options: Signalled = {}): Promise<RemoteGraph> {
    return this.#http.ask(`/jobs/${segment(jobId)}/graph`, options)
  }

  async node(jobId: string, node: string, { item, signal }: NodeOptions = {}): Promise<RemoteNodeDetails> {
    return this.#http.ask(`/jobs/${segment(jobId)}/nodes/${segment(node)}`, { query: { item }, signal })
  }

  /** A page of the items of a node with `for_each`. */
  items(jobId: string, node: string, { after, limit, signal }: ItemsOptions = {}): Promise<RemoteItemPage> {
    const path = `/jobs/${segment(jobId)}/nodes/${segment(node)}/items`
    return this.#http.ask(path, { query: { after, limit }, signal })
  }

  /** Of a pipeline: what a message (`route:12`) comes from, and what comes from it. */
  lineage(jobId: string, message: string, { limit, signal }: LineageOptions = {}): Promise<Lineage> {
    return this.#http.ask(`/jobs/${segment(jobId)}/lineage`, { query: { message, limit }, signal })
  }

  /** Of a pipeline: every message that failed for good, page after page as they are needed. */
  async *deadLetters(
    jobId: string,
    options: DeadLettersOptions = {},
  ): AsyncGenerator<DeadLetter, void, undefined> {
    for (let after = options.after; ; ) {
      const page = await this.deadLetterPage(jobId, { ...options, ...(after === undefined ? {} : { after }) })
      yield* page.dead_letters
      if (page.next === null) return
      after = page.next
    }
  }

  deadLetterPage(
    jobId: string,
    { route, after, limit, signal }: DeadLettersOptions = {},
  ): Promise<DeadLetterPage> {
    return this.#http.ask(`/jobs/${segment(jobId)}/dead-letters`, { query: { route, after, limit }, signal })
  }

  /**
   * Processes dead letters of a pipeline again, as a new job. Each is replayed once: should the answer be lost, it says
   * `replayed_by`.
   */
  replay(jobId: string, { messages, workflow, signal }: ReplayOptions = {}): Promise<ReplayJob> {
    const path = `/jobs/${segment(jobId)}/dead-letters/replay`
    return this.#http.ask(path, { method: "POST", body: { messages, workflow }, signal })
  }

  /** All of them, or those with a greater seq than `after`; the server's pages are followed. */
  async events(
    jobId: string,
    { after, signal }: Signalled & { readonly after?: number } = {},
  ): Promise<readonly RemoteEvent[]> {
    const path = `/jobs/${segment(jobId)}/events`
    const events: RemoteEvent[] = []
    for (let next: string | number | null | undefined = after; next !== null; ) {
      const query = { after: next, limit: EVENTS }
      const page: EventPage = await this.#http.ask(path, { query, signal })
      for (const event of page.events) events.push(event)
      // A server of an earlier release gives all at once.
      next = page.next ?? null
    }
    return events
  }

  /** Without a job: all jobs of the token's owner, until the signal is aborted. With one: until it has ended. */
  stream(options?: StreamOptions): AsyncIterable<JobsStreamEvent>
  stream(jobId: string, options?: StreamOptions): AsyncIterable<JobStreamEvent>
  stream(
    first?: string | StreamOptions,
    second?: StreamOptions,
  ): AsyncIterable<JobsStreamEvent> | AsyncIterable<JobStreamEvent> {
    return typeof first === "string"
      ? resumingStream<JobStreamEvent>(this.#http, `/jobs/${segment(first)}/stream`, second)
      : resumingStream<JobsStreamEvent>(this.#http, "/jobs/stream", first)
  }

  watch(jobId: string, options: WatchOptions = {}): AsyncIterable<RemoteEvent> {
    return jobEvents(this, jobId, options, this.#http.settings)
  }

  /** Goes on while the server is away, as long as the patience lasts. */
  async wait(jobId: string, options: WaitOptions = {}): Promise<JobSnapshot> {
    const { timeoutMs = Number.POSITIVE_INFINITY, signal } = options
    const until = Date.now() + timeoutMs
    let awaySince: number | null = null
    for (;;) {
      const began = Date.now()
      try {
        const job = await this.#poll(jobId, until - began, signal)
        awaySince = null
        if (hasEnded(job.status) || Date.now() >= until) return job
      } catch (error) {
        awaySince ??= began
        if (!(error instanceof UmbraClientError) || !isAway(error)) throw error
        if (Date.now() - awaySince > this.#http.settings.patienceMs || Date.now() >= until) throw error
      }
      // A server that is about to end answers at once.
      const early = SHORTEST_POLL_MS - (Date.now() - began)
      if (early > 0) await pause(Math.min(early, Math.max(0, until - Date.now())), signal)
    }
  }

  async #poll(jobId: string, leftMs: number, signal: AbortSignal | undefined): Promise<JobSnapshot> {
    const wait = Math.max(0, Math.min(POLL_SECONDS, leftMs / 1000))
    return this.#http.ask<JobSnapshot>(`/jobs/${segment(jobId)}`, {
      query: { wait },
      timeoutMs: this.#http.settings.timeoutMs + wait * 1000,
      signal,
    })
  }

  async cancel(jobId: string, reason?: string): Promise<JobSnapshot> {
    return this.#http.ask(`/jobs/${segment(jobId)}/cancel`, {
      method: "POST",
      ...(reason === undefined ? {} : { body: { reason } }),
    })
  }

  /** Runs again exactly what is not COMPLETED or SKIPPED. */
  async retry(jobId: string): Promise<JobSnapshot> {
    return this.#http.ask(`/jobs/${segment(jobId)}/retry`, { method: "POST" })
  }

  async delete(jobId: string): Promise<void> {
    await this.#http.ask(`/jobs/${segment(jobId)}`, { method: "DELETE" })
  }

  /** With `resumeToken` (of the job's graph) it is refused if the job has been resumed since (E312). */
  async signal(
    jobId: string,
    name: string,
    data: Json = null,
    { resumeToken }: SignalOptions = {},
  ): Promise<JobSnapshot> {
    const path = `/jobs/${segment(jobId)}/signals/${segment(name)}`
    return this.#http.ask(path, { method: "POST", body: data, query: { resume_token: resumeToken } })
  }

  /** The server's release. */
  async version(options: Signalled = {}): Promise<string> {
    return (await this.#http.ask<{ info: { version: string } }>("/openapi.json", options)).info.version
  }
}

const ended: ReadonlySet<JobStatus> = new Set<JobStatus>([
  "COMPLETED",
  "FAILED",
  "CANCELLED",
  "EXPIRED",
  "DELETED",
])

function hasEnded(status: JobStatus): boolean {
  return ended.has(status)
}

function signalOf({ signal }: Signalled): Signalled {
  return signal === undefined ? {} : { signal }
}

/** Headers hold Latin-1 at most, and fetch refuses the rest with a message that names neither. */
function headerText(key: string): string {
  if (/^[\x20-\x7e\xa0-\xff]+$/.test(key) && key.trim() === key) return key
  throw new UmbraClientError(
    "An idempotency key over HTTP has letters, digits and signs of Latin-1, and no space at its ends.",
    { code: "E309" },
  )
}
