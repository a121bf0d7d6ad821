/** Schedules: requests and answers. */
import { z } from "zod"
import type { Json } from "../../core/json.ts"
import { scheduleDocument } from "../../schedule/document.ts"
import { jobId, json, storable, time } from "./job.ts"

export const scheduleName = z
  .string()
  .min(1)
  .max(200)
  .regex(...storable)
  .meta({ example: "nightly" })

/** A request without content. An unknown field is refused: the caller may believe that it counts. */
export const nothing = z.strictObject({}).nullish()

const documentExample = { workflow: "order", cron: "0 2 * * *", zone: "Europe/Berlin" }

/** Any JSON as in other requests; `z.json()` would add a schema without a name to the OpenAPI document. */
const document = scheduleDocument.extend({
  input: (json as z.ZodType<Json>).optional().meta(scheduleDocument.shape.input.meta()!),
})

export const request = document.meta({ id: "ScheduleRequest", example: documentExample })

const defaults = { jitter_seconds: 0, overlap: "skip", catch_up: "last", catch_up_seconds: 86_400 }
const summaryExample = {
  ...{ name: "nightly", owner: "local", ...documentExample, ...defaults },
  ...{ created_at: "2026-11-15T12:00:00.000Z", updated_at: "2026-11-15T12:00:00.000Z", paused_at: null },
  ...{ next_at: "2026-11-16T01:00:00.000Z", queued_tick: null, last_job: null },
}

const summary = z
  .object({
    name: scheduleName,
    owner: z.string().meta({ example: "local" }),
    ...document.shape,
    created_at: time,
    updated_at: time,
    paused_at: time.nullable(),
    next_at: time
      .nullable()
      .describe("When the next tick fires, with its jitter; null: never, or it is paused."),
    queued_tick: time.nullable().describe("A tick that starts when the latest job has ended."),
    last_job: jobId.nullable().describe("The latest job that a tick has started."),
  })
  .meta({ id: "ScheduleSummary", example: summaryExample })

export const schedule = summary
  .extend({ next_ticks: z.array(time).describe("The next 20 ticks, without their jitter.") })
  .meta({ id: "Schedule", example: { ...summaryExample, next_ticks: ["2026-11-16T01:00:00.000Z"] } })

export const page = z.object({
  schedules: z.array(summary),
  next: z.string().nullable().meta({ example: "nightly" }),
})

const fire = z
  .object({
    tick: time,
    kind: z.enum(["tick", "run"]).describe("`run`: requested by `POST /schedules/{name}/run`."),
    at: time.describe("When it was decided."),
    outcome: z.enum(["started", "skipped", "missed", "queued", "refused"]),
    job_id: jobId.nullable(),
    reason: z.string().nullable().meta({ example: "the job before it had not ended" }),
    count: z.number().meta({
      description: "Ticks that were missed in a row are one entry, under the last of them.",
      example: 1,
    }),
  })
  .meta({ id: "ScheduleFire" })

export const fires = z.object({ fires: z.array(fire), next: time.nullable() })
export const started = z.object({ job_id: jobId })
