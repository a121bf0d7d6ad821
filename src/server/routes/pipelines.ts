/** What jobs of pipelines have in addition: lineage and dead letters (P4, P5). */
import { z } from "zod"
import type { Json } from "../../core/json.ts"
import { isJobId } from "../../engine/ids.ts"
import { executionNumber, isoDeadLetters, isoLineage } from "../../pipeline/queries.ts"
import { createSubmitter } from "../http/unfinished.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as schema from "../schemas/job.ts"
import * as pipeline from "../schemas/pipeline.ts"

const { read, submit } = operations("pipelines")
const params = schema.jobParams
const looking = ["E301", "E706", "E707"] as const
const replayErrors = [
  ...looking,
  ...schema.starting,
  ...(["E309", "E502", "E614", "E702", "E708", "E710", "E711"] as const),
]

export function pipelineRoutes(app: App, parts: RouteContext): void {
  const { umbra } = parts

  app.get(
    "/executions",
    read({
      summary: "List executions of pipelines, newest first",
      description:
        "A page ends after `limit` executions, or after a bounded search: then `complete` is false, and the next page continues at `next`.",
      querystring: z.strictObject({
        dead_letters: z.enum(["true", "false"]).optional().meta({
          description: "true: only those with dead letters that no job has replayed.",
          example: "true",
        }),
        after: z
          .string()
          .refine(
            text => isJobId(text) || executionNumber.test(text),
            "must be `next` of the previous page, or a job's id",
          )
          .optional()
          .meta({
            description: "`next` of the previous page, or a job's id.",
            example: schema.jobIdExample,
          }),
        limit: schema.queryInt(1, 100).default(50).meta({ example: 50 }),
      }),
      response: schema.answers({ 200: pipeline.executions }, ["E301"]),
    }),
    async ({ caller: { owner }, query }) =>
      (await umbra.pipelines.executions(owner, {
        ...query,
        dead_letters: query.dead_letters === "true",
      })) as z.infer<typeof pipeline.executions>,
  )

  app.get(
    "/jobs/:job/lineage",
    read({
      summary: "Show the ancestors and descendants of a message",
      description:
        "From any output to its inputs and back, with the calls of every adapter for each message. `from` pages through " +
        "the messages next to it, which may be many.",
      params,
      querystring: z.strictObject({ message: pipeline.messageName, ...pipeline.lineageBounds }),
      response: schema.answers({ 200: pipeline.lineage }, looking),
    }),
    async ({ job, query: { message, ...bounds } }) => {
      type Lineage = z.infer<typeof pipeline.lineage>
      return isoLineage(await umbra.pipelines.lineage(job.job_id, message, bounds)) as unknown as Lineage
    },
  )

  app.get(
    "/jobs/:job/dead-letters",
    read({
      summary: "List the messages that failed permanently, by route and number",
      description: "A page ends after `limit` messages or 4 MiB of data.",
      params,
      querystring: z.strictObject({
        route: pipeline.routeName.optional(),
        after: pipeline.messageName.optional(),
        limit: pipeline.deadLettersLimit,
      }),
      response: schema.answers({ 200: pipeline.deadLetters }, looking),
    }),
    async ({ job, query }) => {
      const page = await umbra.pipelines.deadLetters(job.job_id, query)
      return isoDeadLetters(page) as unknown as z.infer<typeof pipeline.deadLetters>
    },
  )
  replayRoute(app, parts)
}

function replayRoute(app: App, parts: RouteContext): void {
  const { umbra } = parts
  app.post(
    "/jobs/:job/dead-letters/replay",
    submit({
      summary: "Process dead letters again, as a new job",
      description:
        "The new job runs the same pipeline, starts with these messages in the queues of their routes, and has the label " +
        "`replay_of`. `bodies` replaces bodies. A dead letter can be replayed once; afterwards it shows the job that replayed it.",
      params,
      body: pipeline.replay.nullish(),
      response: schema.answers({ 201: pipeline.replayed }, replayErrors),
    }),
    async (request, reply) => {
      const { caller } = request
      const { job_id, owner } = request.job
      const { messages, bodies, workflow } = request.body ?? {}
      const { submittedBy, admit } = createSubmitter({ ...caller, owner }, parts)
      const which = { messages, bodies: bodies as Record<string, Json> | undefined, workflow, submittedBy }
      const { jobId, replayed, stored } = await umbra.pipelines.replay(job_id, which, admit)
      return reply
        .code(201)
        .header("location", `/jobs/${jobId}`)
        .send({ ...(stored?.began ?? (await umbra.job(jobId))), replayed })
    },
  )
}
