/** Commands to a job. Each is answered when it is durable. */
import { z } from "zod"
import type { Json } from "../../core/json.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as schema from "../schemas/job.ts"

const { manage, submit } = operations("jobs")
const params = schema.jobParams
const { elsewhere } = schema
const signalErrors = [
  ...elsewhere,
  ...(["E301", "E302", "E312", "E317", "E502", "E614", "E635", "E636", "E807"] as const),
]
const reasonBody = (example: string) =>
  z
    .strictObject({ reason: z.string().max(1000).optional() })
    .nullish()
    .meta({ examples: [{ reason: example }] })
export const pauseBody = reasonBody("the price list is wrong")

export function jobCommandRoutes(app: App, { umbra }: RouteContext): void {
  app.post(
    "/jobs/:job/cancel",
    manage({
      summary: "Cancel a job that has not ended",
      params,
      body: reasonBody("ordered twice"),
      response: schema.answers({ 200: schema.job }, ["E301", "E302", "E635", "E636", ...elsewhere]),
    }),
    async request => {
      await umbra.cancel(request.job.job_id, request.body?.reason)
      return umbra.job(request.job.job_id)
    },
  )

  app.post(
    "/jobs/:job/retry",
    manage({
      summary: "Retry a job that failed, expired or was cancelled; completed nodes do not run again",
      params,
      response: schema.answers({ 200: schema.job }, ["E301", "E303", "E307", "E702", ...elsewhere]),
    }),
    async ({ job: { job_id } }) => {
      await umbra.retry(job_id)
      return umbra.job(job_id)
    },
  )

  app.post(
    "/jobs/:job/pause",
    manage({
      summary: "Pause a job",
      description:
        "No further node begins; running ones end, retries and timers wait, and the time to live keeps elapsing. Child jobs are jobs of their own. Pausing a paused job changes nothing.",
      params,
      body: pauseBody,
      response: schema.answers({ 200: schema.job }, ["E301", "E302", "E635", "E636", ...elsewhere]),
    }),
    async ({ job: { job_id }, body, caller }) => {
      await umbra.pause(job_id, { reason: body?.reason, by: caller.name })
      return umbra.job(job_id)
    },
  )

  app.post(
    "/jobs/:job/resume",
    manage({
      summary: "Resume a paused job",
      description: "A job that is not paused is not changed.",
      params,
      response: schema.answers({ 200: schema.job }, ["E301", "E302", ...elsewhere]),
    }),
    async ({ job: { job_id }, caller }) => {
      await umbra.resume(job_id, { by: caller.name })
      return umbra.job(job_id)
    },
  )

  app.post(
    "/jobs/:job/reschedule",
    manage({
      summary: "Move the start of a job that has not started",
      description:
        "Give `start_at` or `delay_seconds`. A time that has passed, or a delay of 0: the job starts at once. Refused (E319) once the job has started.",
      params,
      body: schema.startTime,
      response: schema.answers({ 200: schema.job }, ["E301", "E302", "E309", "E319", ...elsewhere]),
    }),
    async ({ job: { job_id }, body, caller }) => {
      const { start_at: startAt, delay_seconds: delaySeconds } = body
      await umbra.reschedule(job_id, { startAt, delaySeconds, by: caller.name })
      return umbra.job(job_id)
    },
  )

  app.patch(
    "/jobs/:job",
    manage({
      summary: "Change the labels or the note of a job",
      description: "Also of a job that has ended. What is not given stays as it is.",
      params,
      body: schema.description,
      response: schema.answers({ 200: schema.job }, ["E301", "E307", "E309", "E635", "E636", ...elsewhere]),
    }),
    async ({ job: { job_id }, body, caller }) => {
      await umbra.describe(job_id, { ...body, by: caller.name })
      return umbra.job(job_id)
    },
  )

  app.delete(
    "/jobs/:job",
    manage({
      summary: "Hide a job that has ended",
      description:
        "A job that has not started is cancelled first. Deleting a deleted job has no effect and gets the same answer.",
      params,
      response: schema.answers({ 204: z.null() }, ["E301", "E302", "E303", "E307", ...elsewhere]),
    }),
    async ({ job: { job_id, status } }, reply) => {
      if (status !== "DELETED") await umbra.delete(job_id)
      return reply.code(204).send(null)
    },
  )

  app.post(
    "/jobs/:job/signals/:signal",
    submit({
      summary: "Send a signal to a job",
      description:
        "The body is the signal's data: any JSON, or nothing. If a node of the workflow declares a schema for signals of this name, data that does not fit it is rejected (E317).",
      params: params.extend({ signal: z.string().min(1).max(200).meta({ example: "approved" }) }),
      querystring: z.strictObject({
        resume_token: z.string().max(100).optional().meta({
          description:
            "The resume_token of the job's graph. The signal is rejected (E312) if a wait of the job has ended since.",
          example: "r0",
        }),
      }),
      body: z.unknown().meta({ examples: [{ by: "Ada" }] }),
      response: schema.answers({ 200: schema.job }, signalErrors),
    }),
    async request => {
      const { job_id } = request.job
      const { resume_token } = request.query
      const token = resume_token === undefined ? {} : { resumeToken: resume_token }
      const options = { ...token, by: request.caller.name }
      await umbra.signal(job_id, request.params.signal, (request.body ?? null) as Json, options)
      return umbra.job(job_id)
    },
  )
}
