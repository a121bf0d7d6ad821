/** Schedules: workflows that start at times. */
import { z } from "zod"
import { boundsOf } from "../http/unfinished.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as schema from "../schemas/job.ts"
import * as views from "../schemas/schedule.ts"

const { manage, read, submit } = operations("schedules")
const params = z.object({ name: views.scheduleName })

export function scheduleRoutes(app: App, { umbra, unfinished, settings }: RouteContext): void {
  const { schedules } = umbra

  app.put(
    "/schedules/:name",
    manage({
      summary: "Store or change a schedule",
      description:
        "201: it is new. 200: it was changed, or has this content already. A schedule with other times begins with the next tick from now.",
      params,
      body: views.request,
      response: schema.answers({ 200: views.schedule, 201: views.schedule }, [
        ...(["E305", "E309", "E330", "E635", "E636"] as const),
      ]),
    }),
    async ({ caller: { owner }, params: { name }, body }, reply) => {
      const { schedule, isNew } = await schedules.put(name, body, { owner })
      return reply.code(isNew ? 201 : 200).send(schedule)
    },
  )

  app.get(
    "/schedules",
    read({
      summary: "List schedules by name",
      querystring: z.strictObject({ after: views.scheduleName.optional(), limit: schema.limit }),
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
      querystring: z.strictObject({
        before: z.iso
          .datetime({ offset: true })
          .optional()
          .meta({ description: "`next` of the previous page.", example: "2026-11-15T12:00:00.000Z" }),
        limit: schema.limit,
      }),
      response: schema.answers({ 200: views.fires }, ["E331"]),
    }),
    async ({ caller: { owner }, params: { name }, query }) => schedules.fires(name, { owner, ...query }),
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
        "Ticks that come meanwhile never fire. Its jobs continue. A paused schedule is not changed.",
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
      response: schema.answers({ 200: views.schedule }, ["E331", "E635", "E636"]),
    }),
    async ({ caller: { owner }, params: { name } }) => schedules.resume(name, { owner }),
  )

  app.post(
    "/schedules/:name/run",
    submit({
      summary: "Start a job of a schedule now",
      description:
        "Whatever runs, also of a paused schedule. `schedule.time` of its input is now. Ticks do not wait for this job.",
      params,
      body: views.nothing,
      response: schema.answers({ 201: views.started }, [
        ...(["E304", "E305", "E331", "E426", "E611", "E610", "E613", "E635", "E636", "E646"] as const),
      ]),
    }),
    async ({ caller, params: { name } }, reply) => {
      const bounds = boundsOf(caller, settings)
      const submittedBy = caller.limits === null ? undefined : caller.name
      const started = await schedules.run(name, { owner: caller.owner, submittedBy }, (jobId, store) =>
        unfinished.admit(bounds, jobId, store),
      )
      return reply.code(201).header("location", `/jobs/${started.job_id}`).send(started)
    },
  )
}
