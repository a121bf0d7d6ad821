/** The log of a job. */
import { z } from "zod"
import { logLevels } from "../../log.ts"
import * as schema from "./job.ts"

const MOST = 1000

const sources = ["handler", "engine"] as const

const position = z
  .string()
  .regex(
    /^\d{1,16}\.\d{1,7}\.\d{1,16}\.\d{1,7}(\.\d{1,16})?(\.[12])?$/,
    "must be `next` of a page, or the id of a line",
  )

const lineExample = {
  id: "17179869187.2.4.1",
  at: "2026-11-15T12:00:01.250Z",
  level: "warn" as const,
  source: "handler" as const,
  node: "price",
  attempt: 1,
  message: "no price for this item",
  fields: { sku: "tea-500" },
  line: 12,
}

const logLine = schema.exemplified("LogLine", lineExample, {
  id: z.string().describe("The value of `after` for the lines that follow."),
  at: schema.time,
  level: z.enum(logLevels),
  source: z.enum(sources).describe("The source of the line."),
  node: z.string(),
  item: schema.int.optional(),
  attempt: schema.int.optional().describe("The attempt number that is shown to users."),
  message: z.string().describe("May have several lines."),
  fields: z.record(z.string(), schema.json).optional(),
  line: schema.int.min(1).optional().describe("Its number among the lines of the run."),
  run: schema.int
    .min(2)
    .optional()
    .describe(
      "The number of the run, if the attempt has run more than once. Each run numbers its lines from 1. Absent: the first.",
    ),
  lost: schema.int
    .min(1)
    .optional()
    .describe(
      "How many lines of the run before this one were lost. For the line of the engine that ends the attempt: how many were lost at its end.",
    ),
})

export const logPage = z
  .object({
    lines: z.array(logLine),
    next: schema.nullableText.describe(
      "The value of `after` (or `before`, if that was given) for the next page, which may have lines; null: there are no more now.",
    ),
    pending: schema.flag.describe(
      "More lines are certain: an attempt has ended less than 5 s ago, and its last lines are not stored yet. Its end is shown after them.",
    ),
  })
  .meta({ examples: [{ lines: [lineExample], next: "17179869187.2.4.1" }] })

export const logsQuery = z.strictObject({
  node: z.string().max(500).optional().meta({ description: "Only lines of this node.", example: "price" }),
  item: schema.queryInt(0).optional().meta({
    description: "Only lines of this item of the node.",
    example: 0,
  }),
  attempt: schema.queryInt(1, 1_000_000).optional().meta({
    description: "Only lines of this attempt of the node, by the number that is shown to users.",
    example: 1,
  }),
  level: z.enum(logLevels).default("debug").meta({ description: "The lowest level.", example: "warn" }),
  source: z.enum(sources).optional().meta({ description: "Only lines of this source.", example: "handler" }),
  until: schema.moment.optional().describe("Only lines up to this time."),
  after: position.optional().meta({
    description: "`next` of the previous page, or the id of a line.",
    example: "17179869187.2.4.1",
  }),
  before: z
    .union([z.literal("end"), position])
    .optional()
    .meta({
      description:
        "Instead of `after`: the last lines before this one, or before the `end`, in their order; only those of handlers. `next` is the value for the page before.",
      example: "end",
    }),
  limit: schema.queryInt(1, MOST).default(100).meta({ example: 100 }),
  follow: z.enum(["", "true"], { error: "must be true, or have no value" }).optional().meta({
    description: "Stream the lines after `after`, and those to come, until the job has ended.",
    example: "true",
  }),
  last_event_id: schema.eventId
    .optional()
    .describe("With follow: same as the header Last-Event-ID, for clients that cannot set headers."),
})
