/** Schedules: requests and answers. */
import { z } from "zod"
import type { Json } from "../../core/json.ts"
import { scheduleDocument } from "../../schedule/document.ts"
import { backfill, rate } from "./bulk.ts"
import {
  int,
  jobId,
  json,
  limit,
  moment,
  named,
  nullableText,
  queryInt,
  storableText,
  submission,
  time,
} from "./job.ts"

export const scheduleName = storableText(200).min(1).meta({ example: "nightly" })

/** A request without content. An unknown field is refused: the caller may believe that it counts. */
export const nothing = z.strictObject({}).nullish()

const documentExample = { workflow: "order", cron: "0 2 * * *", zone: "Europe/Berlin" }

/** Any JSON as in other requests; `z.json()` would add a schema without a name to the OpenAPI document. */
const document = scheduleDocument.extend({
  input: (json as z.ZodType<Json>).optional().meta(scheduleDocument.shape.input.meta()!),
})

/** Labels as in a submission. What is stored may have been accepted without them. */
const given = document.extend({ labels: submission.labels })

export const request = given.meta({ id: "ScheduleRequest", example: documentExample })

export const previewRequest = given
  .partial({ workflow: true })
  .meta({ id: "SchedulePreviewRequest", example: { cron: "0 2 * * *", zone: "Europe/Berlin" } })

export const preview = z
  .object({ next_ticks: z.array(time).describe("The next 20 ticks, without their jitter.") })
  .meta({ id: "SchedulePreview", example: { next_ticks: ["2026-11-16T01:00:00.000Z"] } })

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
    problem: z
      .string()
      .optional()
      .describe("Present: this release does not accept the stored document, and no tick fires."),
  })
  .meta({ id: "ScheduleSummary", example: summaryExample })

export const schedule = summary
  .extend({ next_ticks: z.array(time).describe("The next 20 ticks, without their jitter.") })
  .meta({ id: "Schedule", example: { ...summaryExample, next_ticks: ["2026-11-16T01:00:00.000Z"] } })

const fire = named("ScheduleFire", {
  tick: time,
  kind: z
    .enum(["tick", "run", "backfill"])
    .describe("`run`: requested by `POST /schedules/{name}/run`. `backfill`: a tick of a backfill."),
  bulk_id: jobId.nullable().describe("The bulk operation of a backfill."),
  at: time.describe("When it was decided."),
  outcome: z.enum(["started", "skipped", "missed", "queued", "refused"]),
  job_id: jobId.nullable(),
  reason: nullableText.meta({ example: "the job before it had not ended" }),
  count: z.number().meta({
    description: "Ticks that were missed in a row are one entry, under the last of them.",
    example: 1,
  }),
})

const listed = summary.extend({
  fires: z.array(fire).optional().describe("With `fires`: what its newest ticks did, newest first."),
})

export const listQuery = z.strictObject({
  after: scheduleName.optional(),
  limit,
  fires: queryInt(0, 20)
    .default(0)
    .meta({ example: 5 })
    .describe("How many of the newest fires of each schedule are included."),
})

export const page = z.object({
  schedules: z.array(listed),
  next: nullableText.meta({ example: "nightly" }),
})

/** A time, or `next` of a page: a time and a kind. */
const firePlace = storableText(100)
  .refine(text => isTime(text.split("/")[0]!), "must be a time with its zone, or `next` of the previous page")
  .meta({ description: "`next` of the previous page, or a time.", example: "2026-11-15T12:00:00.000Z/tick" })

function isTime(text: string): boolean {
  return moment.safeParse(text).success
}

export const firesQuery = z.strictObject({ before: firePlace.optional(), limit })

const next = nullableText.meta({
  description: "Null: this is the last page.",
  example: "2026-11-15T12:00:00.000Z/tick",
})

export const fires = z.object({ fires: z.array(fire), next })

export const ticksQuery = z.strictObject({
  from: moment,
  to: moment,
  after: firePlace.optional(),
  limit,
})

export const ticks = z.object({
  ticks: z.array(
    fire
      .extend({
        outcome: z
          .enum(["started", "skipped", "missed", "queued", "refused", "planned"])
          .describe("`planned`: not decided yet; `at` is when it fires."),
      })
      .meta({ id: "ScheduleTick" }),
  ),
  next,
})

export const backfillRequest = z
  .strictObject({
    from: moment.describe("The first tick is not before this time."),
    to: moment.describe("All ticks are before this time, which is not in the future."),
    rate: rate.optional(),
    dry_run: z.boolean().optional().describe("Only count the ticks."),
  })
  .meta({ examples: [{ from: "2026-11-01T00:00:00Z", to: "2026-11-15T00:00:00Z", dry_run: true }] })

const backfillExample = {
  ...{ schedule: "nightly", workflow: "order@3" },
  ...{ from: "2026-11-01T00:00:00.000Z", to: "2026-11-15T00:00:00.000Z" },
  ...{ first_tick: "2026-11-01T01:00:00.000Z", last_tick: "2026-11-14T01:00:00.000Z" },
}

export const backfillCount = z
  .object({ ...backfill.shape, count: int })
  .meta({ id: "BackfillCount", examples: [{ ...backfillExample, count: 14 }] })

export const started = z.object({ job_id: jobId })
