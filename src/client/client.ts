/**
 * A client for Umbra over HTTP: in the style of the embedding API, for Node, browsers and every other runtime with `fetch`.
 *
 * 1. A submission is sent again if its answer was lost, and still creates one job: it always has an idempotency key.
 * 2. `wait` uses long polling, so it works through proxies, and survives a restart of the server.
 */
import type { Json, JsonObject } from "../core/json.ts"
import type { Definition, Workflow } from "../definition/typed/builder.ts"
import { RemoteArtifacts } from "./artifacts.ts"
import { RemoteBulk } from "./bulk.ts"
import { RemoteCapacity } from "./capacity.ts"
import { problemError, UmbraClientError } from "./error.ts"
import { type Asked, type ConnectOptions, entries, Http, headerText, newKey, pages } from "./http.ts"
import { RemoteJob, type WaitOptions, type WatchOptions } from "./job.ts"
import { RemoteLogs } from "./logs.ts"
import {
  type BulkAnswer,
  forkBody,
  isoText,
  listQuery,
  momentText,
  segment,
  startBody,
  submissionBody,
} from "./requests.ts"
import { RemoteSchedules } from "./schedules.ts"
import { resumingStream, type StreamOptions } from "./stream.ts"
import type * as api from "./types.ts"
import { waitForEnd } from "./wait.ts"
import { jobEvents } from "./watch.ts"
import { RemoteSessions, RemoteTokens, RemoteWorkflows } from "./workflows.ts"

/** The input may be left out if `{}` is a valid input. */
type InputArguments<Input> =
  Record<never, never> extends Input
    ? [input?: Input, options?: api.SubmitOptions]
    : [input: Input, options?: api.SubmitOptions]

/** Jobs that a server takes with one request. */
const BULK = 1000

/** The largest page that a server gives. */
const EVENTS = 10_000

/**
 *     const umbra = connect({ url: "http://127.0.0.1:7070", token })
 *     const job = await umbra.submit("hello", { name: "Ada" })
 *     const { status, output } = await job.wait()
 */
export function connect(options: ConnectOptions): UmbraClient {
  return new UmbraClient(options)
}

export class UmbraClient {
  readonly url: string
  readonly workflows: RemoteWorkflows
  readonly tokens: RemoteTokens
  /** Logins in browsers. */
  readonly sessions: RemoteSessions
  /** Commands to all jobs that match a filter. */
  readonly bulk: RemoteBulk
  /** Workflows that start at times. */
  readonly schedules: RemoteSchedules
  readonly logs: RemoteLogs
  readonly artifacts: RemoteArtifacts
  /** Workers, engines and providers of the server, for its operator. */
  readonly capacity: RemoteCapacity
  readonly #http: Http

  constructor(options: ConnectOptions) {
    this.#http = new Http(options)
    this.url = this.#http.url
    this.workflows = new RemoteWorkflows(this.#http)
    this.tokens = new RemoteTokens(this.#http)
    this.sessions = new RemoteSessions(this.#http)
    this.bulk = new RemoteBulk(this.#http)
    this.schedules = new RemoteSchedules(this.#http)
    this.logs = new RemoteLogs(this.#http)
    this.artifacts = new RemoteArtifacts(this.#http)
    this.capacity = new RemoteCapacity(this.#http)
  }

  /**
   * Resolves when the job is durable. The workflow is one made with the builder or a definition, which is stored first,
   * or the name of a stored one: `name`, `name@3`, `name@stable`.
   */
  submit<Input, Output>(
    workflow: Workflow<Input, Output>,
    ...given: InputArguments<Input>
  ): Promise<RemoteJob<Output>>
  submit(workflow: Definition | string, input?: unknown, options?: api.SubmitOptions): Promise<RemoteJob>
  async submit(
    workflow: Workflow | Definition | string,
    input?: unknown,
    options: api.SubmitOptions = {},
  ): Promise<RemoteJob> {
    const { job_id } = await this.accept(workflow, input, options)
    return new RemoteJob(this, job_id)
  }

  /**
   * Submits many jobs: one workflow with many inputs, or a list of submissions. Each result is a job or the error with
   * which its submission was refused, in the order given. 1,000 are sent with one request.
   */
  async submitMany<Input, Output>(
    workflow: Workflow<Input, Output>,
    inputs: readonly Input[],
    options?: api.SubmitManyOptions,
  ): Promise<api.BulkResult<Output>[]>
  async submitMany(
    workflow: Definition | string,
    inputs: readonly unknown[],
    options?: api.SubmitManyOptions,
  ): Promise<api.BulkResult[]>
  async submitMany(submissions: readonly api.BulkJob[], options?: api.Signalled): Promise<api.BulkResult[]>
  async submitMany(
    given: Workflow | Definition | string | readonly api.BulkJob[],
    inputsOrOptions: readonly unknown[] | api.Signalled = [],
    options: api.SubmitManyOptions = {},
  ): Promise<api.BulkResult[]> {
    const isList = Array.isArray(given)
    const inputs = isList ? [] : (inputsOrOptions as readonly unknown[])
    const { signal, ...shared } = isList ? (inputsOrOptions as api.SubmitManyOptions) : options
    const jobs: readonly api.BulkJob[] = isList
      ? given
      : inputs.map(input => ({ workflow: given as api.BulkJob["workflow"], input, options: shared }))
    const results: api.BulkResult[] = []
    for (let next = 0; next < jobs.length; next += BULK)
      for (const result of await this.#sendMany(jobs.slice(next, next + BULK), signal))
        results.push(
          "problem" in result
            ? { error: problemError(result.problem) }
            : { job: new RemoteJob(this, result.job_id), isNew: result.is_new },
        )
    return results
  }

  /** Each job has a key, for all tries of the request. */
  async #sendMany(
    jobs: readonly api.BulkJob[],
    signal: AbortSignal | undefined,
  ): Promise<readonly BulkAnswer[]> {
    const references = new Map<api.BulkJob["workflow"], string>()
    for (const { workflow } of jobs)
      if (!references.has(workflow)) references.set(workflow, await this.#reference(workflow, { signal }))
    const body = { jobs: jobs.map(job => submissionBody(job, references.get(job.workflow)!)) }
    const request = { method: "POST", safe: true, body, signal } as const
    return (await this.#http.ask<{ readonly results: readonly BulkAnswer[] }>("/jobs/bulk", request)).results
  }

  async #reference(workflow: api.BulkJob["workflow"], { signal }: api.Signalled): Promise<string> {
    if (typeof workflow === "string") return workflow
    const { name, version } = await this.workflows.pushOnce(workflow, { signal })
    return `${name}@${version}`
  }

  /** As `submit`, but returns the job as submitted, and whether it is new. */
  async accept(
    workflow: Workflow | Definition | string,
    input?: unknown,
    options: api.SubmitOptions = {},
  ): Promise<api.JobSnapshot & { readonly is_new: boolean }> {
    // One key for all tries. If the workflow was not found, the key has not been used.
    const keyed = { ...options, idempotencyKey: options.idempotencyKey ?? newKey() }
    const send = async () => this.#send(await this.#reference(workflow, keyed), input, keyed)
    try {
      return await send()
    } catch (error) {
      const isUnknown = error instanceof UmbraClientError && error.code === "E305"
      if (typeof workflow === "string" || !isUnknown) throw error
      // The workflow was deleted after this client pushed it.
      this.workflows.forget(workflow)
      return send()
    }
  }

  async #send(
    workflow: string,
    input: unknown,
    { idempotencyKey, ttlSeconds, priority, labels, signal, ...start }: api.SubmitOptions,
  ): Promise<api.JobSnapshot & { readonly is_new: boolean }> {
    const body = { workflow, input, priority, ttl_seconds: ttlSeconds, labels, ...startBody(start) }
    return this.#create("/jobs", { body, signal }, idempotencyKey!)
  }

  /** Sent again if its answer was lost: because of the key it creates one job. */
  async #create(
    path: string,
    request: Pick<Asked, "body" | "signal">,
    key: string,
  ): Promise<api.JobSnapshot & { readonly is_new: boolean }> {
    const headers = { "idempotency-key": headerText(key) }
    const asked = { method: "POST", safe: true, headers, ...request } as const
    const { status, value } = await this.#http.answer<api.JobSnapshot>(path, asked)
    return { ...value, is_new: status === 201 }
  }

  handle(jobId: string): RemoteJob {
    return new RemoteJob(this, jobId)
  }

  async job(jobId: string, options: api.Signalled = {}): Promise<api.JobSnapshot> {
    return this.#http.ask(`/jobs/${segment(jobId)}`, options)
  }

  /** All jobs that match the filter, newest first; pages are requested as needed. */
  jobs(filter: api.JobsFilter = {}): AsyncGenerator<api.JobSnapshot, void, undefined> {
    return entries((after?: string) => this.jobPage({ ...filter, after }), "jobs", filter.after)
  }

  /** Failed jobs, grouped by their errors; by default those submitted in the last 24 hours. */
  failures({ workflow, from, to, after, signal }: api.FailuresOptions = {}): Promise<api.FailurePage> {
    const query = { workflow, from: isoText(from), to: isoText(to), after }
    return this.#http.ask("/failures", { query, signal })
  }

  jobPage(filter: api.JobsFilter = {}): Promise<api.JobPage> {
    const { after, limit, signal } = filter
    return this.#http.ask("/jobs", { query: { ...listQuery(filter), after, limit }, signal })
  }

  /** Durations of jobs by the time of their creation, by default in the last 24 hours. */
  durations({ points, signal, ...filter }: api.DurationsFilter = {}): Promise<api.RemoteDurations> {
    return this.#http.ask("/jobs/durations", { query: { ...listQuery(filter), points }, signal })
  }

  async graph(jobId: string, options: api.Signalled = {}): Promise<api.RemoteGraph> {
    return this.#http.ask(`/jobs/${segment(jobId)}/graph`, options)
  }

  /** The graph at a past moment: a seq, `#12` for the twelfth fact, or a time as ISO 8601 text or Date. */
  graphAt(
    jobId: string,
    at: number | string | Date,
    { signal }: api.Signalled = {},
  ): Promise<api.RemoteGraphAt> {
    return this.#http.ask(`/jobs/${segment(jobId)}/graph`, { query: { at: momentText(at) }, signal })
  }

  /** Compares two jobs, or two moments of one job; moments as for `graphAt`. `diff`: nodes whose outputs are compared by value. */
  compare(a: string, b: string, options: api.CompareOptions = {}): Promise<api.RemoteComparison> {
    const { atA, atB, diff, signal } = options
    const query = { a, b, at_a: momentText(atA), at_b: momentText(atB), diff }
    return this.#http.ask("/jobs/compare", { query, signal })
  }

  /** Why the job, or one of its nodes, makes no progress: now, or at a past moment as for `graphAt`. */
  why(jobId: string, { node, at, signal }: api.WhyOptions = {}): Promise<api.WhyView> {
    return this.#http.ask(`/jobs/${segment(jobId)}/why`, { query: { node, at: momentText(at) }, signal })
  }

  /** Why unfinished jobs make no progress, grouped by cause. */
  waits({ workflow, after, signal }: api.WaitsOptions = {}): Promise<api.WaitPage> {
    return this.#http.ask("/waits", { query: { workflow, after }, signal })
  }

  /** All facts, oldest first; pages are requested as needed. */
  facts(jobId: string, options: api.FactsOptions = {}): AsyncGenerator<api.FactRecord, void, undefined> {
    const ask = (after?: string | number) => this.factPage(jobId, { ...options, after })
    return entries<"facts", string | number, api.FactPage>(ask, "facts", options.after)
  }

  factPage(jobId: string, { after, limit, signal }: api.FactsOptions = {}): Promise<api.FactPage> {
    return this.#http.ask(`/jobs/${segment(jobId)}/facts`, { query: { after, limit }, signal })
  }

  /** Facts and the live state, until the job has ended. `lastEventId`: the seq of the last known fact. */
  followFacts(jobId: string, options?: StreamOptions): AsyncIterable<api.FactStreamEvent> {
    return resumingStream<api.FactStreamEvent>(
      this.#http,
      `/jobs/${segment(jobId)}/facts?follow=true`,
      options,
    )
  }

  /** A payload that a fact refers to: `field` as in its reference. */
  payload(
    jobId: string,
    seq: number,
    field: string,
    { path, signal }: api.PayloadOptions = {},
  ): Promise<Json> {
    return this.#http.ask(`/jobs/${segment(jobId)}/payloads/${seq}/${segment(field)}`, {
      query: { path },
      signal,
    })
  }

  async node(
    jobId: string,
    node: string,
    { item, signal }: api.NodeOptions = {},
  ): Promise<api.RemoteNodeDetails> {
    return this.#http.ask(`/jobs/${segment(jobId)}/nodes/${segment(node)}`, { query: { item }, signal })
  }

  /** The config of a node as it was rendered for an attempt (default: the last), with secrets masked. */
  nodeConfig(jobId: string, node: string, options: api.ConfigOptions = {}): Promise<api.NodeConfig> {
    const { attempt, item, signal } = options
    const path = `/jobs/${segment(jobId)}/nodes/${segment(node)}/config`
    return this.#http.ask(path, { query: { attempt, item }, signal })
  }

  /** The job as one HTML file that replays it. `payloads`: data of the user in it; default `preview`. */
  async report(jobId: string, { payloads, signal }: api.ReportOptions = {}): Promise<string> {
    const path = `/jobs/${segment(jobId)}/report`
    return (await this.#http.send(path, { query: { payloads } }, signal)).text()
  }

  /** A page of the items of a node with `for_each`. */
  items(jobId: string, node: string, options: api.ItemsOptions = {}): Promise<api.RemoteItemPage> {
    const { after, limit, at, signal } = options
    const path = `/jobs/${segment(jobId)}/nodes/${segment(node)}/items`
    return this.#http.ask(path, { query: { after, limit, at: momentText(at) }, signal })
  }

  /** For a pipeline: the ancestors and descendants of a message (`route:12`). */
  lineage(
    jobId: string,
    message: string,
    { signal, ...query }: api.LineageOptions = {},
  ): Promise<api.Lineage> {
    return this.#http.ask(`/jobs/${segment(jobId)}/lineage`, { query: { message, ...query }, signal })
  }

  /** A page of executions of pipelines, newest first. */
  executions({ dead_letters, signal, ...page }: api.ExecutionsOptions = {}): Promise<api.ExecutionPage> {
    const query = { ...page, ...(dead_letters ? { dead_letters: "true" } : {}) }
    return this.#http.ask("/executions", { query, signal })
  }

  /** For a pipeline: all messages that failed permanently; pages are requested as needed. */
  deadLetters(
    jobId: string,
    options: api.DeadLettersOptions = {},
  ): AsyncGenerator<api.DeadLetter, void, undefined> {
    const ask = (after?: string) => this.deadLetterPage(jobId, { ...options, after })
    return entries(ask, "dead_letters", options.after)
  }

  deadLetterPage(
    jobId: string,
    { route, after, limit, signal }: api.DeadLettersOptions = {},
  ): Promise<api.DeadLetterPage> {
    return this.#http.ask(`/jobs/${segment(jobId)}/dead-letters`, { query: { route, after, limit }, signal })
  }

  /** Replays dead letters of a pipeline, as a new job. Each is replayed once: its `replayed_by` names the job. */
  replay(
    jobId: string,
    { messages, bodies, workflow, signal }: api.ReplayOptions = {},
  ): Promise<api.ReplayJob> {
    const path = `/jobs/${segment(jobId)}/dead-letters/replay`
    return this.#http.ask(path, { method: "POST", body: { messages, bodies, workflow }, signal })
  }

  /** All events, or those with a greater seq than `after`; reads all pages of the server. */
  async events(
    jobId: string,
    { after, signal }: api.Signalled & { readonly after?: number | undefined } = {},
  ): Promise<readonly api.RemoteEvent[]> {
    const path = `/jobs/${segment(jobId)}/events`
    const events: api.RemoteEvent[] = []
    const ask = (next?: string | number) =>
      this.#http.ask<api.EventPage>(path, { query: { after: next, limit: EVENTS }, signal })
    // A server of an earlier release returns all events at once, without `next`.
    for await (const page of pages<string | number, api.EventPage>(ask, after))
      for (const event of page.events) events.push(event)
    return events
  }

  /** Without a job: all jobs of the token's owner, until the signal is aborted. With one: until it has ended. */
  stream(options?: StreamOptions): AsyncIterable<api.JobsStreamEvent>
  stream(jobId: string, options?: StreamOptions): AsyncIterable<api.JobStreamEvent>
  stream(
    first?: string | StreamOptions,
    second?: StreamOptions,
  ): AsyncIterable<api.JobsStreamEvent> | AsyncIterable<api.JobStreamEvent> {
    return typeof first === "string"
      ? resumingStream<api.JobStreamEvent>(this.#http, `/jobs/${segment(first)}/stream`, second)
      : resumingStream<api.JobsStreamEvent>(this.#http, "/jobs/stream", first)
  }

  watch(jobId: string, options: WatchOptions = {}): AsyncIterable<api.RemoteEvent> {
    return jobEvents(this, jobId, options, this.#http.settings)
  }

  /** Continues while the server is unavailable, up to the configured patience. */
  wait(jobId: string, options: WaitOptions = {}): Promise<api.JobSnapshot> {
    return waitForEnd(this.#http, jobId, options)
  }

  async cancel(jobId: string, reason?: string): Promise<api.JobSnapshot> {
    const body = reason === undefined ? undefined : { reason }
    return this.#http.ask(`/jobs/${segment(jobId)}/cancel`, { method: "POST", body })
  }

  /** Runs all nodes that are not COMPLETED or SKIPPED. */
  async retry(jobId: string): Promise<api.JobSnapshot> {
    return this.#http.ask(`/jobs/${segment(jobId)}/retry`, { method: "POST" })
  }

  /** A new job that takes over what need not run again. E314: it repeats effects of `previewFork` that `confirm` lacks. */
  async fork(
    jobId: string,
    request: api.ForkRequest = {},
    options: api.ForkOptions = {},
  ): Promise<RemoteJob> {
    return new RemoteJob(this, (await this.acceptFork(jobId, request, options)).job_id)
  }

  /** As `fork`, but returns the new job as submitted. */
  async acceptFork(
    jobId: string,
    request: api.ForkRequest = {},
    { idempotencyKey = newKey(), signal }: api.ForkOptions = {},
  ): Promise<api.JobSnapshot & { readonly is_new: boolean }> {
    const body = forkBody(request)
    return this.#create(`/jobs/${segment(jobId)}/fork`, { body, signal }, idempotencyKey)
  }

  /** What a fork would do: which nodes it takes over, which run, and why. */
  previewFork(
    jobId: string,
    request: api.ForkRequest = {},
    { signal }: api.Signalled = {},
  ): Promise<api.ForkPreview> {
    const body = { ...forkBody(request), dry_run: true }
    return this.#http.ask(`/jobs/${segment(jobId)}/fork`, { method: "POST", safe: true, body, signal })
  }

  /** The compiled graph of the job's definition. `definition`: answer also with the definition. */
  compiledGraph(
    jobId: string,
    { definition = false, ...options }: api.Signalled & { readonly definition?: boolean } = {},
  ): Promise<api.CompiledGraph & { readonly definition?: JsonObject }> {
    const query = { definition: definition || undefined }
    return this.#http.ask(`/jobs/${segment(jobId)}/compiled-graph`, { query, ...options })
  }

  async delete(jobId: string): Promise<void> {
    await this.#http.ask(`/jobs/${segment(jobId)}`, { method: "DELETE" })
  }

  /** No further node begins until `resume`; running ones end, and the time to live keeps elapsing. */
  async pause(jobId: string, { reason }: { reason?: string | undefined } = {}): Promise<api.JobSnapshot> {
    const body = reason === undefined ? undefined : { reason }
    return this.#http.ask(`/jobs/${segment(jobId)}/pause`, { method: "POST", safe: true, body })
  }

  async resume(jobId: string): Promise<api.JobSnapshot> {
    return this.#http.ask(`/jobs/${segment(jobId)}/resume`, { method: "POST", safe: true })
  }

  /** Moves the start of a job that has not started; a delay of 0: it starts now. */
  async reschedule(jobId: string, start: api.StartOptions): Promise<api.JobSnapshot> {
    const body = startBody(start ?? {})
    return this.#http.ask(`/jobs/${segment(jobId)}/reschedule`, { method: "POST", safe: true, body })
  }

  /** Changes the labels or the note, also of a job that has ended. */
  async describe(jobId: string, { labels, note }: api.JobDescription): Promise<api.JobSnapshot> {
    const body = { labels, note }
    return this.#http.ask(`/jobs/${segment(jobId)}`, { method: "PATCH", safe: true, body })
  }

  /** With `resumeToken` (of the job's graph) the signal is rejected if the job has been resumed since (E312). */
  async signal(
    jobId: string,
    name: string,
    data: Json = null,
    { resumeToken }: api.SignalOptions = {},
  ): Promise<api.JobSnapshot> {
    const path = `/jobs/${segment(jobId)}/signals/${segment(name)}`
    return this.#http.ask(path, { method: "POST", body: data, query: { resume_token: resumeToken } })
  }

  /** The server's release. */
  async version(options: api.Signalled = {}): Promise<string> {
    return (await this.#http.ask<{ info: { version: string } }>("/openapi.json", options)).info.version
  }
}
