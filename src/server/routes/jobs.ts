/** Submits and queries jobs. */
import { z } from "zod"
import { jobHasEnded } from "../../core/states.ts"
import type { CheckedRequest } from "../../definition/index.ts"
import type { JobSnapshot } from "../../engine/owner/snapshot.ts"
import { UmbraError } from "../../errors.ts"
import type { EventPlace } from "../../jobs/event-page.ts"
import {
  isoDurations,
  isoEvent,
  isoGraph,
  isoGraphAt,
  isoItems,
  isoItemsAt,
  isoNodeDetails,
} from "../../jobs/iso-times.ts"
import type { AcceptOptions } from "../../jobs/submit.ts"
import { isTraceparent } from "../../trace.ts"
import { type Caller, ownerFilter } from "../auth/caller.ts"
import { BulkProblems, type ProblemDocument } from "../http/problem.ts"
import { sendInTurns } from "../http/send-in-turns.ts"
import { callerBounds } from "../http/unfinished.ts"
import {
  durations,
  durationsQuery,
  eventsQuery,
  jobPage,
  listQuery,
  parseDurations,
  parseEventPage,
  parseJobFilter,
} from "../list-queries.ts"
import { graphQuery, requireMoment } from "../past-queries.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as views from "../schemas/graph.ts"
import * as schema from "../schemas/job.ts"
import { why } from "../schemas/why.ts"

const { read, submit } = operations("jobs")
const LARGE_GRAPH = 1000
const { jobParams } = schema
const submitErrors = [...schema.starting, "E306", "E309", "E502", "E614", "E702", "E711"] as const

export function jobRoutes(app: App, parts: RouteContext): void {
  const { umbra } = parts

  app.post(
    "/jobs",
    submit({
      summary: "Submit a job",
      description:
        "201: a new job, durable. 200: the Idempotency-Key was used before; the answer is the job of that request. The same key with another body is rejected (E306).",
      headers: z.object({
        "idempotency-key": schema.idempotencyKey.optional(),
        traceparent: schema.traceparent,
      }),
      querystring: schema.waitQuery,
      body: schema.newJob,
      response: schema.answers({ 200: schema.job, 201: schema.job }, submitErrors),
    }),
    async (request, reply) => {
      const { jobId, isNew, stored } = await submitJob(parts, request.caller, request.body, request.headers)
      const { wait } = request.query
      const known = wait === undefined ? stored?.began : stored?.ended
      const job = known ?? (await (wait === undefined ? umbra.job(jobId) : ended(parts, jobId, wait)))
      return reply
        .code(isNew ? 201 : 200)
        .header("location", `/jobs/${jobId}`)
        .send(job)
    },
  )

  app.post(
    "/jobs/bulk",
    submit({
      summary: "Submit up to 1,000 jobs",
      description:
        "Each submission succeeds or fails independently; answers are in the order of the submissions. A problem with `retry_after` rejects an entry for the moment only; `Retry-After` is the largest of them.",
      headers: z.object({ traceparent: schema.traceparent }),
      body: schema.newJobs,
      response: schema.answers({ 200: schema.submitted }, submitErrors),
    }),
    async (request, reply) => {
      if (request.headers["idempotency-key"] !== undefined) throw keyOfMany()
      const { results, retryAfter } = await submitJobs(
        parts,
        request.caller,
        request.body.jobs,
        request.headers,
      )
      if (retryAfter !== null) reply.header("retry-after", String(retryAfter))
      return { results }
    },
  )

  app.get(
    "/jobs",
    read({
      summary: "List jobs, newest first",
      description:
        "A page ends after `limit` jobs, or after it has searched for about 50 ms: then `complete` is false, and the next page continues at `next`.",
      querystring: listQuery,
      response: schema.answers({ 200: jobPage }, ["E309"]),
    }),
    request => umbra.queries.jobPage({ ...parseJobFilter(request.query), ...ownerFilter(request.caller) }),
  )

  app.get(
    "/jobs/durations",
    read({
      summary: "Show how long jobs took, as points of a chart",
      description:
        "Takes the filters of `GET /jobs`; by default jobs of the last 24 hours. Near points of the same status are joined until there are at most `points`. The work is bounded: of a range with very many jobs a sample is read, spread over the whole range.",
      querystring: durationsQuery,
      response: schema.answers({ 200: durations }, []),
    }),
    async ({ query, caller }) =>
      isoDurations(await umbra.queries.durations({ ...parseDurations(query), ...ownerFilter(caller) })),
  )

  app.get(
    "/jobs/:job",
    read({
      summary: "Show a job",
      params: jobParams,
      querystring: schema.waitQuery,
      response: schema.answers({ 200: schema.job }, ["E301"]),
    }),
    async ({ job, query: { wait } }) =>
      wait === undefined || jobHasEnded(job.status)
        ? umbra.queries.withDetails(job)
        : ended(parts, job.job_id, wait),
  )

  app.get(
    "/jobs/:job/graph",
    read({
      summary: "Show the shadow graph",
      description:
        "Every unfinished node shows what it waits for: dependencies, a retry, a timer, a signal, a provider, a slot, a child job, items, a worker. `nodes` is the stored state; `live` shows which handlers run right now. A pipeline has `routes`, each with its counts of queued, in-flight and done messages. With `at`: the graph at a past moment, as computed from the facts up to it, without `live`.",
      params: jobParams,
      querystring: graphQuery,
      response: schema.answers({ 200: views.graph }, ["E301", "E313"]),
    }),
    async ({ job, query: { at } }, reply) => {
      if (at !== undefined)
        return sendInTurns(
          reply,
          isoGraphAt(await umbra.queries.facts.graphAt(job.job_id, requireMoment(at))),
        )
      const graph = await umbra.graph(job.job_id)
      // A large graph is built without yielding.
      if (graph.nodes.length > LARGE_GRAPH) await new Promise<void>(resolve => setImmediate(resolve))
      return sendInTurns(reply, isoGraph(graph))
    },
  )

  app.get(
    "/jobs/:job/why",
    read({
      summary: "Show why a job makes no progress",
      description:
        "One sentence, the chain of causes, and what would help. The owner of the job's partition is queried for at most 1 s; without its answer the reason is `owner_away`. `unexplained` is a defect of the engine, which is logged and counted. With `at`: from the facts up to that moment.",
      params: jobParams,
      querystring: graphQuery.extend({
        node: z.string().max(300).optional().meta({ description: "Only this node.", example: "fetch" }),
      }),
      response: schema.answers({ 200: why }, ["E301", "E310", "E313", "E611"]),
    }),
    async ({ job: { job_id }, query: { node, at } }) =>
      umbra.why(job_id, { node, at: at === undefined ? undefined : requireMoment(at) }),
  )

  app.get(
    "/jobs/:job/events",
    read({
      summary: "List everything that happened to a job, oldest first",
      description: "A page ends after `limit` events or 4 MiB of data.",
      params: jobParams,
      querystring: eventsQuery,
      response: schema.answers({ 200: views.eventPage }, ["E301"]),
    }),
    async ({ job, query }) => {
      const { events, next } = await umbra.queries.eventPage(job.job_id, parseEventPage(query))
      return { events: events.map(isoEvent), next: next === null ? null : placeText(next) }
    },
  )

  app.get(
    "/jobs/:job/nodes/:node",
    read({
      summary: "Show a node, its output and the history of its attempts",
      params: schema.nodeParams,
      querystring: z.object({
        item: schema
          .queryInt(0)
          .optional()
          .meta({ description: "For a node with for_each: show the attempts of this item.", example: 3 }),
      }),
      response: schema.answers({ 200: views.nodeWithOutput }, ["E301", "E310"]),
    }),
    async ({ job, params, query }) => isoNodeDetails(await umbra.node(job.job_id, params.node, query)),
  )
  itemRoute(app, parts)
  configRoute(app, parts)
}

function placeText({ seq, place }: EventPlace): string {
  return place === Number.POSITIVE_INFINITY ? String(seq) : `${seq}.${place}`
}

/** J21. */
function itemRoute(app: App, { umbra }: RouteContext): void {
  app.get(
    "/jobs/:job/nodes/:node/items",
    read({
      summary: "List the items of a node with for_each",
      description:
        "With `at`: the items at a past moment, as computed from the facts up to it, without `live`.",
      params: schema.nodeParams,
      querystring: z.object({
        ...graphQuery.shape,
        after: schema
          .queryInt(-1)
          .optional()
          .meta({ description: "Only items after this index: `next` of the previous page.", example: 49 }),
        limit: schema.limit,
      }),
      response: schema.answers({ 200: views.itemPage }, ["E301", "E310", "E313"]),
    }),
    async ({ job: { job_id }, params: { node }, query: { at, after = -1, limit } }) =>
      at === undefined
        ? isoItems(await umbra.items(job_id, node, { after, limit }))
        : isoItemsAt(
            await umbra.queries.facts.itemsAt(job_id, node, { at: requireMoment(at), after, limit }),
          ),
  )
}

function configRoute(app: App, { umbra }: RouteContext): void {
  app.get(
    "/jobs/:job/nodes/:node/config",
    read({
      summary: "Show the config of a node as it was rendered for an attempt",
      description:
        "Computed again from the facts before the attempt, and never stored. Secrets are shown as `***`. A node with for_each has a config for each item.",
      params: schema.nodeParams,
      querystring: z.strictObject({
        attempt: schema.queryInt(1).optional().meta({ description: "Default: the last.", example: 2 }),
        item: schema.queryInt(0).optional().meta({ description: "For a node with for_each.", example: 3 }),
      }),
      response: schema.answers({ 200: views.nodeConfig }, ["E301", "E310", "E313"]),
    }),
    async ({ job, params, query }, reply) =>
      sendInTurns(reply, await umbra.queries.facts.config(job.job_id, params.node, query)),
  )
}

type Wanted = z.infer<typeof schema.newJobs>["jobs"][number]

interface SubmissionHeaders {
  readonly "idempotency-key"?: string | undefined
  readonly traceparent?: string | undefined
}

type BulkResult = { job_id: string; is_new: boolean } | { problem: ProblemDocument }

async function submitJobs(
  parts: RouteContext,
  caller: Caller,
  jobs: readonly Wanted[],
  { traceparent }: { readonly traceparent?: string | undefined },
): Promise<{ readonly results: BulkResult[]; readonly retryAfter: number | null }> {
  const { umbra, unfinished, settings } = parts
  const request = { spentMs: 0 }
  const bounds = callerBounds(caller, settings)
  const entries = jobs.map(wanted => {
    const { workflow, input, idempotency_key: key } = wanted
    return { workflow, input, options: acceptOptions(caller, wanted, { key, request }) }
  })
  const accepted = await umbra.acceptMany(entries, {
    traceparent: isTraceparent(traceparent) ? traceparent : undefined,
    admit: bounds.length === 0 ? undefined : (jobId, store) => unfinished.admit(bounds, jobId, store),
  })
  const problems = new BulkProblems()
  const results = accepted.map(each => {
    if (!("error" in each)) return { job_id: each.jobId, is_new: each.isNew }
    if (each.error instanceof UmbraError) return { problem: problems.problem(each.error) }
    throw each.error
  })
  return { results, retryAfter: problems.retryAfter }
}

function submitJob(
  { umbra, unfinished, settings }: RouteContext,
  caller: Caller,
  wanted: Wanted,
  { "idempotency-key": key, traceparent }: SubmissionHeaders,
) {
  const { workflow, input } = wanted
  const options = acceptOptions(caller, wanted, { key, traceparent })
  const bounds = callerBounds(caller, settings)
  if (bounds.length === 0) return umbra.accept(workflow, input, options)
  return umbra.accept(workflow, input, options, (jobId, store) => unfinished.admit(bounds, jobId, store))
}

interface Given {
  readonly key: string | undefined
  readonly traceparent?: string | undefined
  readonly request?: CheckedRequest
}

function acceptOptions(caller: Caller, wanted: Wanted, { key, traceparent, request }: Given): AcceptOptions {
  return {
    owner: caller.owner,
    submittedBy: caller.limits === null ? undefined : caller.name,
    priority: wanted.priority,
    ttlSeconds: wanted.ttl_seconds,
    labels: wanted.labels,
    startAt: wanted.start_at,
    delaySeconds: wanted.delay_seconds,
    idempotencyKey: key,
    // W3C: a malformed header is ignored.
    traceparent: isTraceparent(traceparent) ? traceparent : undefined,
    request,
  }
}

/** Resolves when the job has ended, when the time is up, or when this process stops. */
function ended(
  { umbra, settings, stopping }: RouteContext,
  jobId: string,
  seconds: number,
): Promise<JobSnapshot> {
  return new Promise((resolve, reject) => {
    const unsubscribe = stopping.onStop(() => void umbra.job(jobId).then(resolve, reject))
    const timeoutMs = Math.min(seconds, settings.maxWaitSeconds) * 1000
    umbra.wait(jobId, { timeoutMs }).finally(unsubscribe).then(resolve, reject)
  })
}

function keyOfMany(): UmbraError {
  return new UmbraError(
    "E633",
    "The header Idempotency-Key is for a single job. Give each job in the body its own idempotency_key.",
  )
}
