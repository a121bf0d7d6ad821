/** Schedules: workflows that start at times. */
import { z } from "zod"
import { createSubmitter } from "../http/unfinished.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import { operation } from "../schemas/bulk.ts"
import * as schema from "../schemas/job.ts"
import * as views from "../schemas/schedule.ts"

const { manage, read, submit } = operations("schedules")
const params = z.object({ name: views.scheduleName })
const storingErrors = ["E305", "E309", "E330", "E332", "E635", "E636", "E807"] as const

export function scheduleRoutes(app: App, parts: RouteContext): void {
  const { schedules } = parts.umbra

  app.put(
    "/schedules/:name",
    manage({
      summary: "Store or change a schedule",
      description:
        "201: it is new. 200: it was changed, or has this content already. A schedule with other times begins with the next tick from now.",
      params,
      body: views.request,
      response: schema.answers({ 200: views.schedule, 201: views.schedule }, storingErrors),
    }),
    async ({ caller: { owner }, params: { name }, body }, reply) => {
      const { schedule, isNew } = await schedules.put(name, body, { owner, max: parts.settings.maxSchedules })
      return reply.code(isNew ? 201 : 200).send(schedule)
    },
  )

  app.get(
    "/schedules",
    read({
      summary: "List schedules by name",
      description: "A page ends after `limit` schedules or 4 MiB of data.",
      querystring: views.listQuery,
      response: schema.answers({ 200: views.page }, []),
    }),
    async ({ caller: { owner }, query }) => schedules.list({ owner, ...query }),
  )

  app.get(
    "/schedules/:name",
    read({
      summary: "Show a schedule and its next 20 ticks",
      params,
      response: schema.answers({ 200: views.schedule }, ["E331"]),
    }),
    async ({ caller: { owner }, params: { name } }) => schedules.get(name, { owner }),
  )

  app.get(
    "/schedules/:name/fires",
    read({
      summary: "List what the ticks of a schedule did, newest first",
      params,
      querystring: views.firesQuery,
      response: schema.answers({ 200: views.fires }, ["E331"]),
    }),
    async ({ caller: { owner }, params: { name }, query }) => schedules.fires(name, { owner, ...query }),
  )

  app.get(
    "/schedules/:name/ticks",
    read({
      summary: "List the ticks of a range, past and planned ones, oldest first",
      description:
        "From `from` on, before `to`. A paused schedule has no planned ticks. Past ticks are those of the history.",
      params,
      querystring: views.ticksQuery,
      response: schema.answers({ 200: views.ticks }, ["E331"]),
    }),
    async ({ caller: { owner }, params: { name }, query }) => schedules.ticks(name, { owner, ...query }),
  )

  app.post(
    "/schedules/preview",
    read({
      summary: "Check a schedule that is not stored, and show its next 20 ticks",
      description: "As `PUT /schedules/{name}`, but its workflow may be left out and need not exist.",
      body: views.previewRequest,
      response: schema.answers({ 200: views.preview }, ["E309", "E330", "E635", "E636"]),
    }),
    async ({ body }) => schedules.preview(body),
  )

  app.delete(
    "/schedules/:name",
    manage({
      summary: "Delete a schedule and its history",
      description: "Its jobs stay as they are.",
      params,
      response: schema.answers({ 204: z.null() }, ["E331"]),
    }),
    async ({ caller: { owner }, params: { name } }, reply) => {
      await schedules.delete(name, { owner })
      return reply.code(204).send(null)
    },
  )

  app.post(
    "/schedules/:name/pause",
    manage({
      summary: "Pause a schedule",
      description:
        "Ticks that are due while it is paused never fire. Its jobs continue. A paused schedule is not changed.",
      params,
      body: views.nothing,
      response: schema.answers({ 200: views.schedule }, ["E331", "E635", "E636"]),
    }),
    async ({ caller: { owner }, params: { name } }) => schedules.pause(name, { owner }),
  )

  app.post(
    "/schedules/:name/resume",
    manage({
      summary: "Resume a paused schedule",
      description: "It continues with the next tick from now.",
      params,
      body: views.nothing,
      response: schema.answers({ 200: views.schedule }, ["E330", "E331", "E635", "E636"]),
    }),
    async ({ caller: { owner }, params: { name } }) => schedules.resume(name, { owner }),
  )

  app.post(
    "/schedules/:name/run",
    submit({
      summary: "Start a job of a schedule now",
      description:
        "Also while a job of the schedule is running, and for a paused schedule. `schedule.time` of its input is now. Ticks do not wait for this job.",
      params,
      body: views.nothing,
      response: schema.answers({ 201: views.started }, [...schema.starting, "E330", "E331"]),
    }),
    async ({ caller, params: { name } }, reply) => {
      const { submittedBy, admit } = createSubmitter(caller, parts)
      const started = await schedules.run(name, { owner: caller.owner, submittedBy }, admit)
      return reply.code(201).header("location", `/jobs/${started.job_id}`).send(started)
    },
  )

  app.post(
    "/schedules/:name/backfill",
    manage({
      summary: "Start a job for each past tick of a range",
      description:
        "A durable bulk operation: `GET /bulk/{id}` shows its progress, `GET /bulk/{id}/refused` the ticks that could not start, `POST /bulk/{id}/abort` aborts it. 201 when it is stored, 200 if the Idempotency-Key was used before. It starts one job for each tick, regardless of running jobs and of what the tick did at its time, with the document of the schedule and the version of the workflow as they are now. With `dry_run` the answer is a count, and nothing is stored.",
      params,
      headers: z.object({ "idempotency-key": schema.idempotencyKey.optional() }),
      body: views.backfillRequest,
      response: schema.answers({ 200: z.union([operation, views.backfillCount]), 201: operation }, [
        ...schema.startingBulk,
        ...(["E330", "E331"] as const),
      ]),
    }),
    async ({ caller, params: { name }, body: { dry_run, ...range }, headers }, reply) => {
      const { owner } = caller
      if (dry_run) return schedules.previewBackfill(name, range, { owner })
      const { admit, ...submitter } = createSubmitter(caller, parts)
      const options = { owner, idempotencyKey: headers["idempotency-key"], ...submitter }
      const { is_new, ...started } = await schedules.backfill(name, range, options, admit)
      return reply
        .code(is_new ? 201 : 200)
        .header("location", `/bulk/${started.bulk_id}`)
        .send(started)
    },
  )
}
