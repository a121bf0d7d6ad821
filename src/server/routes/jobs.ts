/** Submits and queries jobs. */
import type { FastifyReply } from "fastify"
import { z } from "zod"
import { jobHasEnded } from "../../core/states.ts"
import type { CheckedRequest } from "../../definition/index.ts"
import type { JobSnapshot } from "../../engine/owner/snapshot.ts"
import { UmbraError } from "../../errors.ts"
import { isoEvent, isoGraph, isoItems, isoNodeDetails } from "../../jobs/iso-times.ts"
import type { AcceptOptions } from "../../jobs/submit.ts"
import { isTraceparent } from "../../trace.ts"
import { inTurns, nextTurnIfLate, type Work } from "../../turns.ts"
import { type Caller, ownersOf } from "../auth/caller.ts"
import { BulkProblems, type ProblemDocument } from "../http/problem.ts"
import { boundsOf } from "../http/unfinished.ts"
import { eventsQuery, filterOf, jobPage, listQuery, pageOf } from "../list-queries.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as views from "../schemas/graph.ts"
import * as schema from "../schemas/job.ts"

const { read, submit } = operations("jobs")
const LARGE_GRAPH = 1000
const jobParams = z.object({ job: schema.jobId })
const submitErrors = [
  "E304",
  "E305",
  "E306",
  "E309",
  "E426",
  "E502",
  "E610",
  "E611",
  "E613",
  "E614",
  "E635",
  "E636",
  "E646",
  "E702",
  "E711",
] as const

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
      const { "idempotency-key": key, traceparent } = request.headers
      const wanted = { ...request.body, idempotency_key: key, traceparent }
      const { jobId, isNew, stored } = await submitJob(parts, request.caller, wanted)
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
        "Each submission succeeds or fails independently; answers are in the order of the submissions.",
      headers: z.object({ traceparent: schema.traceparent }),
      body: schema.newJobs,
      response: schema.answers(
        {
          200: z.object({
            results: z.array(
              z.union([
                z.object({ job_id: schema.jobId, is_new: z.boolean() }),
                z.object({ problem: schema.problem }),
              ]),
            ),
          }),
        },
        submitErrors,
      ),
    }),
    async request => {
      if (request.headers["idempotency-key"] !== undefined) throw keyOfMany()
      const { traceparent } = request.headers
      const shared = { traceparent, request: { spentMs: 0 } }
      const problems = new BulkProblems()
      const results: Promise<BulkResult>[] = []
      for (const wanted of request.body.jobs) {
        const result = submitOneOf(parts, request.caller, { ...wanted, ...shared }, problems)
        // Awaited below; it may have been rejected by then.
        result.catch(() => {})
        results.push(result)
        // A thousand submissions without yielding would block all other requests.
        await nextTurnIfLate()
      }
      return { results: await Promise.all(results) }
    },
  )

  app.get(
    "/jobs",
    read({
      summary: "List jobs, newest first",
      description:
        "A page ends after `limit` jobs, or after it has searched for about 50 ms: then `complete` is false, and the next page continues at `next`.",
      querystring: listQuery,
      response: schema.answers({ 200: jobPage }, []),
    }),
    request => umbra.queries.jobPage({ ...filterOf(request.query), ...ownersOf(request.caller) }),
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
        "Every unfinished node shows what it waits for: dependencies, a retry, a timer, a signal, a provider, a slot, a child job, items, a worker. `nodes` is the stored state; `live` shows which handlers run right now. A pipeline has `routes`, each with its counts of queued, in-flight and done messages.",
      params: jobParams,
      response: schema.answers({ 200: views.graph }, ["E301"]),
    }),
    async ({ job }, reply) => {
      const graph = await umbra.graph(job.job_id)
      // A large graph is built without yielding.
      if (graph.nodes.length > LARGE_GRAPH) await new Promise<void>(resolve => setImmediate(resolve))
      return sendInTurns(reply, isoGraph(graph))
    },
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
      const { events, next } = await umbra.queries.eventPage(job.job_id, pageOf(query))
      return { events: events.map(isoEvent), next: next === null ? null : `${next.seq}.${next.place}` }
    },
  )

  app.get(
    "/jobs/:job/nodes/:node",
    read({
      summary: "Show a node, its output and the history of its attempts",
      params: jobParams.extend({ node: z.string().max(300).meta({ example: "fetch" }) }),
      querystring: z.object({
        item: z.coerce
          .number()
          .int()
          .min(0)
          .optional()
          .meta({ description: "For a node with for_each: show the attempts of this item.", example: 3 }),
      }),
      response: schema.answers({ 200: views.nodeWithOutput }, ["E301", "E310"]),
    }),
    async ({ job, params, query }) => isoNodeDetails(await umbra.node(job.job_id, params.node, query)),
  )
  itemRoute(app, parts)
}

/** J21. */
function itemRoute(app: App, { umbra }: RouteContext): void {
  app.get(
    "/jobs/:job/nodes/:node/items",
    read({
      summary: "List the items of a node with for_each",
      params: jobParams.extend({ node: z.string().max(300).meta({ example: "fetch" }) }),
      querystring: z.object({
        after: z.coerce
          .number()
          .int()
          .min(-1)
          .optional()
          .meta({ description: "Only items after this index: `next` of the previous page.", example: 49 }),
        limit: schema.limit,
      }),
      response: schema.answers(
        {
          200: z.object({
            items: z.array(views.item),
            next: z.number().int().nullable(),
            live: views.liveItems,
          }),
        },
        ["E301", "E310"],
      ),
    }),
    async ({ job, params, query: { after = -1, limit } }) =>
      isoItems(await umbra.items(job.job_id, params.node, { after, limit })),
  )
}

type Wanted = z.infer<typeof schema.newJobs>["jobs"][number]

interface Submission extends Omit<Wanted, "idempotency_key"> {
  readonly idempotency_key?: string | undefined
  readonly traceparent?: string | undefined
  readonly request?: CheckedRequest
}

type BulkResult = { job_id: string; is_new: boolean } | { problem: ProblemDocument }

async function submitOneOf(
  parts: RouteContext,
  caller: Caller,
  wanted: Submission,
  problems: BulkProblems,
): Promise<BulkResult> {
  try {
    const { jobId, isNew } = await submitJob(parts, caller, wanted)
    return { job_id: jobId, is_new: isNew }
  } catch (error) {
    if (error instanceof UmbraError) return { problem: problems.problem(error) }
    throw error
  }
}

function submitJob(
  { umbra, unfinished, settings }: RouteContext,
  caller: Caller,
  { workflow, input, priority, ttl_seconds, labels, idempotency_key, traceparent, request }: Submission,
) {
  const options: AcceptOptions = {
    owner: caller.owner,
    submittedBy: caller.limits === null ? undefined : caller.name,
    priority,
    ttlSeconds: ttl_seconds,
    labels,
    idempotencyKey: idempotency_key,
    // W3C: a malformed header is ignored.
    traceparent: isTraceparent(traceparent) ? traceparent : undefined,
    request,
  }
  const bounds = boundsOf(caller, settings)
  return umbra.accept(workflow, input, options, (jobId, store) => unfinished.admit(bounds, jobId, store))
}

/** Resolves when the job has ended, when the time is up, or when this process stops. */
function ended(
  { umbra, settings, stopping }: RouteContext,
  jobId: string,
  seconds: number,
): Promise<JobSnapshot> {
  return new Promise((resolve, reject) => {
    const unsubscribe = stopping.onStop(() => void umbra.job(jobId).then(resolve, reject))
    umbra
      .wait(jobId, { timeoutMs: Math.min(seconds, settings.maxWaitSeconds) * 1000 })
      .then(resolve, reject)
      .finally(unsubscribe)
  })
}

function keyOfMany(): UmbraError {
  return new UmbraError(
    "E633",
    "The header Idempotency-Key is for a single job. Give each job in the body its own idempotency_key.",
  )
}

/** Entries of a list that are serialized without yielding. */
const PIECE = 200

/** For an answer with long lists: a graph of 20,000 nodes takes 50 ms to serialize. */
async function sendInTurns<T extends object>(reply: FastifyReply, value: T): Promise<T> {
  const text = await inTurns(serialization(value))
  reply.type("application/json; charset=utf-8").serializer((whole: string) => whole)
  return reply.send(text) as unknown as T
}

/** As `JSON.stringify`, but yields to the event loop after each part of a list that is a member of `value`. */
function* serialization(value: object): Work<string> {
  const members: string[] = []
  for (const [key, member] of Object.entries(value)) {
    if (member === undefined) continue
    const text = Array.isArray(member) ? yield* list(member) : JSON.stringify(member)
    members.push(`${JSON.stringify(key)}:${text}`)
  }
  return `{${members.join()}}`
}

function* list(items: readonly unknown[]): Work<string> {
  const pieces: string[] = []
  for (let i = 0; i < items.length; i += PIECE) {
    pieces.push(JSON.stringify(items.slice(i, i + PIECE)).slice(1, -1))
    yield
  }
  return `[${pieces.join()}]`
}
