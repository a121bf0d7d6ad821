/** Bulk operations: commands to all jobs that match a filter. */
import { z } from "zod"
import { isJobId } from "../../engine/ids.ts"
import { type BulkRequest, readFilter, type ShownFilter } from "../../jobs/bulk/operation.ts"
import { ownerFilter } from "../auth/caller.ts"
import { createSubmitter } from "../http/unfinished.ts"
import { wrong } from "../list-queries.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as views from "../schemas/bulk.ts"
import * as schema from "../schemas/job.ts"

const { manage, read } = operations("jobs")
const params = z.object({ job: schema.jobId.describe("The id of the operation.") })

export function bulkRoutes(app: App, parts: RouteContext): void {
  const { bulk } = parts.umbra

  app.post(
    "/bulk",
    manage({
      summary: "Cancel, retry, fork or delete all jobs that match a filter",
      description:
        "The operation is a durable job of its own: 201 when it is stored, 200 if the Idempotency-Key was used before. Its targets are the jobs of the caller's owner that match now; a job that ends, is retried or deleted before its turn is not changed, and is listed as refused. A job whose fork would repeat effects that `fork.confirm` does not contain is refused too (E314). With `dry_run` the answer is a count, and nothing is stored.",
      headers: z.object({ "idempotency-key": schema.idempotencyKey.optional() }),
      body: views.request,
      response: schema.answers({ 200: z.union([views.operation, views.count]), 201: views.operation }, [
        ...schema.startingBulk,
        // Whether a handler exists is checked with each target.
        ...schema.ofDefinitions.filter(code => code !== "E103"),
        ...(["E426", "E807"] as const),
      ]),
    }),
    async (request, reply) => {
      const { owner } = request.caller
      const { dry_run, filter, ...rest } = request.body
      if (filter.parent !== undefined && filter.parent !== "none" && !isJobId(filter.parent))
        throw wrong("filter.parent", "must be a job's id, or none")
      if (filter.forked_from !== undefined && !isJobId(filter.forked_from))
        throw wrong("filter.forked_from", "must be a job's id")
      const wanted = { ...rest, filter: readFilter(filter as ShownFilter) } as BulkRequest
      if (dry_run) return bulk.count(wanted, { owner })
      const { admit, ...submitter } = createSubmitter(request.caller, parts)
      const options = { owner, idempotencyKey: request.headers["idempotency-key"], ...submitter }
      const { is_new, ...operation } = await bulk.start(wanted, options, admit)
      return reply
        .code(is_new ? 201 : 200)
        .header("location", `/bulk/${operation.bulk_id}`)
        .send(operation)
    },
  )

  app.get(
    "/bulk",
    read({
      summary: "List bulk operations, newest first",
      querystring: z.strictObject({
        after: schema.afterJob,
        limit: schema.limit,
      }),
      response: schema.answers({ 200: views.operationPage }, []),
    }),
    request => {
      const { after, limit } = request.query
      if (after !== undefined && !isJobId(after)) throw wrong("after", "must be `next` of the previous page")
      return bulk.list({ ...ownerFilter(request.caller), after, limit })
    },
  )

  app.get(
    "/bulk/:job",
    read({
      summary: "Show a bulk operation and its progress",
      params,
      response: schema.answers({ 200: views.operation }, ["E301", "E315"]),
    }),
    ({ job: { job_id } }) => bulk.get(job_id),
  )

  app.get(
    "/bulk/:job/refused",
    read({
      summary: "List the jobs that a bulk operation left as they are, with the reasons",
      description: "Also while it runs: the next page may have more.",
      params,
      querystring: z.strictObject({
        after: z
          .string()
          .regex(/^\d{1,16}\.\d{1,9}$/, "must be `next` of the previous page")
          .optional()
          .meta({ description: "`next` of the previous page.", example: "17179869187.12" }),
        limit: schema.limit,
      }),
      response: schema.answers({ 200: views.refusalPage }, ["E301", "E315"]),
    }),
    ({ job: { job_id }, query }) => bulk.refusals(job_id, query),
  )

  app.post(
    "/bulk/:job/abort",
    manage({
      summary: "Abort a bulk operation",
      description:
        "Its commands in flight end, and it is CANCELLED then; what it has done stays done. Until then the answer has `aborting: true`.",
      params,
      response: schema.answers({ 200: views.operation }, ["E301", "E302", "E315", ...schema.elsewhere]),
    }),
    ({ job: { job_id } }) => bulk.abort(job_id),
  )
}
