/** Compares two jobs, or two moments of one job. */
import { z } from "zod"
import { noSuchJob } from "../../jobs/arguments.ts"
import { isoCompared } from "../../jobs/iso-times.ts"
import { sees } from "../auth/caller.ts"
import { sendInTurns } from "../http/send-in-turns.ts"
import { requireMoment } from "../past-queries.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import { comparison } from "../schemas/compare.ts"
import * as schema from "../schemas/job.ts"

const { read } = operations("jobs")

const at = (job: string) =>
  z
    .string()
    .max(100)
    .optional()
    .meta({
      description: `A past moment of job ${job}: the seq of a fact, \`#\` and the index of a fact, or a time with its zone. Left out: after its last fact.`,
      example: "#12",
    })

const node = z.string().min(1).max(200)

export function compareRoutes(app: App, { umbra }: RouteContext): void {
  app.get(
    "/jobs/compare",
    read({
      summary: "Compare two jobs, or two moments of one job",
      description:
        "Nodes are aligned by id, so that the jobs may be of different versions or workflows. Outputs are compared by hash, up to 64 MiB of facts for each job; `diff` compares those of some nodes value by value, up to 2 MiB each.",
      querystring: z.strictObject({
        a: schema.jobId,
        b: schema.jobId,
        at_a: at("a"),
        at_b: at("b"),
        diff: z
          .union([node, z.array(node).max(20)])
          .optional()
          .meta({
            description:
              "A node whose outputs are compared value by value, or `input`; may be repeated, up to 20 times.",
            example: "price",
          }),
      }),
      response: schema.answers({ 200: comparison }, ["E301", "E310", "E313"]),
    }),
    async (request, reply) => {
      const { a, b, at_a, at_b, diff } = request.query
      for (const id of [a, b]) if (!sees(request.caller, (await umbra.summary(id)).owner)) throw noSuchJob(id)
      const compared = await umbra.compare(a, b, {
        atA: at_a === undefined ? undefined : requireMoment(at_a),
        atB: at_b === undefined ? undefined : requireMoment(at_b),
        diff: diff === undefined ? undefined : [diff].flat(),
      })
      return sendInTurns(reply, isoCompared(compared))
    },
  )
}
