/** What jobs of pipelines have in addition: lineage and dead letters (P4, P5). */
import { z } from "zod"
import { isoDeadLetters, isoLineage } from "../../pipeline/queries.ts"
import { boundsOf } from "../http/unfinished.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as schema from "../schemas/job.ts"
import * as pipeline from "../schemas/pipeline.ts"

const { read, submit } = operations("pipelines")
const params = z.object({ job: schema.jobId })
const looking = ["E301", "E706", "E707"] as const

export function pipelineRoutes(app: App, parts: RouteContext): void {
  const { umbra } = parts

  app.get(
    "/jobs/:job/lineage",
    read({
      summary: "Show the ancestors and descendants of a message",
      description:
        "From any output to its inputs and back, with the calls of every adapter for each message.",
      params,
      querystring: z.strictObject({ message: pipeline.messageName, limit: pipeline.lineageLimit }),
      response: schema.answers({ 200: pipeline.lineage }, looking),
    }),
    async ({ job, query: { message, limit } }) => {
      type Lineage = z.infer<typeof pipeline.lineage>
      return isoLineage(await umbra.pipelines.lineage(job.job_id, message, limit)) as unknown as Lineage
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

function replayRoute(app: App, { umbra, unfinished, settings }: RouteContext): void {
  app.post(
    "/jobs/:job/dead-letters/replay",
    submit({
      summary: "Process dead letters again, as a new job",
      description:
        "The new job runs the same pipeline, starts with these messages in the queues of their routes, and has the label " +
        "`replay_of`. A dead letter can be replayed once; afterwards it shows the job that replayed it.",
      params,
      body: pipeline.replay.nullish(),
      response: schema.answers({ 201: pipeline.replayed }, [
        ...looking,
        ...(["E304", "E305", "E426", "E502", "E610", "E611", "E613", "E614", "E635", "E636"] as const),
        ...(["E646", "E702", "E708", "E710", "E711"] as const),
      ]),
    }),
    async (request, reply) => {
      const { caller } = request
      const { job_id, owner } = request.job
      const { messages, workflow } = request.body ?? {}
      const bounds = boundsOf({ ...caller, owner }, settings)
      const { jobId, replayed, stored } = await umbra.pipelines.replay(
        job_id,
        {
          messages,
          workflow,
          submittedBy: caller.limits === null ? undefined : caller.name,
        },
        (id, store) => unfinished.admit(bounds, id, store),
      )
      return reply
        .code(201)
        .header("location", `/jobs/${jobId}`)
        .send({ ...(stored?.began ?? (await umbra.job(jobId))), replayed })
    },
  )
}
