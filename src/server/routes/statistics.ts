/** What the jobs of a workflow take, use and fail with; what unfinished jobs wait for. */
import { z } from "zod"
import { isJobId } from "../../engine/ids.ts"
import { sendInTurns } from "../http/send-in-turns.ts"
import { wrong } from "../list-queries.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as schema from "../schemas/job.ts"
import * as views from "../schemas/statistics.ts"
import { waits } from "../schemas/why.ts"

const range = {
  from: schema.moment.optional().describe("Default: 24 hours before `to`."),
  to: schema.moment.optional().describe("Default: now."),
}

const next = z
  .string()
  .optional()
  .meta({ description: "`next` of the previous answer.", example: schema.jobIdExample })

export function statisticsRoutes(app: App, { umbra }: RouteContext): void {
  const { statistics } = umbra.queries

  app.get(
    "/workflows/:name/stats",
    operations("workflows").read({
      summary: "Show durations, usage and failures of a workflow's jobs",
      description:
        "Of jobs that ended between `from` and `to`, in whole hours, at most a minute old. Kept for 90 days by default, longer than the jobs themselves. Percentiles are within 5 %.",
      params: z.object({ name: schema.workflowName }),
      querystring: z.strictObject({
        version: schema.version.optional().describe("Default: all versions."),
        ...range,
      }),
      response: schema.answers({ 200: views.workflowStatistics }, ["E305"]),
    }),
    async (request, reply) => {
      const { version } = request.query
      const { owner } = request.caller
      const found = await statistics.workflow({
        ...{ owner, workflow: request.params.name, version },
        ...parseRange(request.query),
      })
      return sendInTurns(reply, found)
    },
  )

  app.get(
    "/failures",
    operations("jobs").read({
      summary: "Group failed jobs by their errors",
      description:
        "Errors that differ only in numbers, ids and quoted texts have one fingerprint. Counts jobs that were submitted between `from` and `to` and are FAILED now, from the newest to the oldest, at most about 5,000 in one request.",
      querystring: z.strictObject({
        ...range,
        group_by: z.literal("fingerprint").optional().meta({ example: "fingerprint" }),
        workflow: schema.ofWorkflow,
        after: next,
      }),
      response: schema.answers({ 200: views.failures }, ["E309"]),
    }),
    async request => {
      const { workflow, after } = request.query
      mustBeNext(after)
      return statistics.failures({
        ...{ owner: request.caller.owner, workflow, after },
        ...parseRange(request.query),
      })
    },
  )

  app.get(
    "/waits",
    operations("jobs").read({
      summary: "Group what jobs wait for by cause",
      description:
        "Nodes of unfinished jobs that wait for the same provider, handler or signal are one group; a node that only waits for other nodes or for a child job is in none. From the newest job to the oldest, at most 200 jobs in one request.",
      querystring: z.strictObject({
        workflow: schema.ofWorkflow,
        after: next,
      }),
      response: schema.answers({ 200: waits }, ["E309"]),
    }),
    async request => {
      const { workflow, after } = request.query
      mustBeNext(after)
      return umbra.waits({ owner: request.caller.owner, workflow, after }) as Promise<z.infer<typeof waits>>
    },
  )
}

function mustBeNext(after: string | undefined): void {
  if (after !== undefined && !isJobId(after)) throw wrong("after", "must be `next` of the previous answer")
}

function parseRange({ from, to }: { readonly from?: string | undefined; readonly to?: string | undefined }) {
  const [begin, end] = [from, to].map(text => (text === undefined ? undefined : Date.parse(text)))
  if (begin !== undefined && begin >= (end ?? Date.now())) throw wrong("from", "must be before `to`")
  return { from: begin, to: end }
}
