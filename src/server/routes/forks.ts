/** Forks: new jobs that take over from another job what need not run again. */
import { z } from "zod"
import type { JobSnapshot } from "../../engine/owner/snapshot.ts"
import { isTraceparent } from "../../trace.ts"
import { isKnown } from "../http/immutable.ts"
import { sendInTurns } from "../http/send-in-turns.ts"
import { createSubmitter } from "../http/unfinished.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as facts from "../schemas/facts.ts"
import * as views from "../schemas/fork.ts"
import * as schema from "../schemas/job.ts"

const { manage, read } = operations("jobs")
const params = schema.jobParams
const forkErrors = [
  ...schema.starting,
  ...schema.ofDefinitions,
  ...(["E301", "E306", "E309", "E314", "E502", "E614"] as const),
]

export function forkRoutes(app: App, parts: RouteContext): void {
  const { umbra } = parts
  app.post(
    "/jobs/:job/fork",
    manage(
      {
        summary: "Fork a job: create a new job that reuses results of this one",
        description:
          "201: the new job, durable. 200: the Idempotency-Key was used before, and the answer is the job of that request, also if its origin was deleted since; or, with `dry_run`, what the fork would do. Nodes whose repetition has effects outside of Umbra must be confirmed (E314).",
        params,
        headers: z.object({
          "idempotency-key": schema.idempotencyKey.optional(),
          traceparent: schema.traceparent,
        }),
        body: views.forkRequest.nullish(),
        response: schema.answers(
          { 200: z.union([schema.job, views.forkPreview]), 201: schema.job },
          forkErrors,
        ),
      },
      { mayLackJob: true },
    ),
    async (request, reply) => {
      const { job: jobId } = request.params
      const origin = request.job as JobSnapshot | undefined
      const owner = origin?.owner ?? request.caller.owner
      const { dry_run: isDry = false, ...wanted } = request.body ?? {}
      const checked = { owner, request: { spentMs: 0 } }
      if (isDry) return umbra.previewFork(jobId, wanted as never, checked)
      const { "idempotency-key": idempotencyKey, traceparent } = request.headers
      const { submittedBy, admit } = createSubmitter(request.caller, parts)
      const options = {
        ...{ ...checked, idempotencyKey, submittedBy },
        traceparent: isTraceparent(traceparent) ? traceparent : undefined,
      }
      const { jobId: id, isNew } = await umbra.acceptFork(jobId, wanted as never, options, admit)
      return reply
        .code(isNew ? 201 : 200)
        .header("location", `/jobs/${id}`)
        .send(await umbra.job(id))
    },
  )

  app.get(
    "/jobs/:job/compiled-graph",
    read({
      summary: "Show the compiled graph of a job",
      description:
        "What a program needs to fold the facts of the job, as the graph of its version; also for a fork with a changed definition, which is not a stored version. It never changes.",
      params,
      querystring: z.strictObject({ definition: facts.withDefinition }),
      response: schema.answers({ 200: facts.jobGraph, 304: facts.notModified }, ["E301", "E305"]),
    }),
    async (request, reply) => {
      const { job_id: jobId, workflow: name, workflow_version: version } = request.job
      const { hash, nodes } = await umbra.queries.facts.readCompiledGraph(jobId)
      const isWhole = request.query.definition === "true"
      if (isKnown(request, reply, `${version}-${hash}${isWhole ? "-definition" : ""}`))
        return reply.code(304).send(null)
      const definition = isWhole ? await umbra.queries.facts.readDefinition(jobId) : undefined
      return sendInTurns(reply, { name, version, nodes, ...(definition && { definition }) })
    },
  )
}
