/** The parameters of routes that read a job's facts and its past. */
import { z } from "zod"
import { type Moment, parseMoment } from "../jobs/history.ts"
import { wrong } from "./list-queries.ts"
import * as schema from "./schemas/job.ts"

const MOST = 1000

export const graphQuery = z.strictObject({
  at: z.string().max(100).optional().meta({
    description:
      "A past moment: the seq of a fact, `#` and the index of a fact, or a time with its zone, which means the longest prefix of the facts that were all decided by then.",
    example: "17179869187",
  }),
})

export function requireMoment(text: string): Moment {
  const moment = parseMoment(text)
  if (moment === null)
    throw wrong(
      "at",
      "must be the seq of a fact, #INDEX, or a time with its zone, such as 2026-11-15T12:00:00Z",
    )
  return moment
}

export const factsQuery = z.strictObject({
  after: z
    .string()
    .regex(/^\d{1,15}(\.\d{1,15})?$/, "must be `next` of the previous page, or the seq of a fact")
    .optional()
    .meta({
      description: "`next` of the previous page. Or the seq of a fact: only facts with a greater seq.",
      example: "17179869187.12",
    }),
  limit: schema.queryInt(1, MOST).default(100).meta({ example: 100 }),
  follow: z.enum(["", "true"], { error: "must be true, or have no value" }).optional().meta({
    description: "Stream the facts after `after`, and those to come, until the job has ended.",
    example: "true",
  }),
  last_event_id: schema.eventId
    .optional()
    .describe("With follow: same as the header Last-Event-ID, for clients that cannot set headers."),
})
