/** The parameters of `GET /jobs/{job}/events`. */
import { z } from "zod"
import type { EventPageQuery } from "../jobs/event-page.ts"

/**
 * Most jobs fit into one page. Each page folds the whole job (50 to 100 ms for one of 10,000 nodes and 30,000 events, which
 * take 3 s in pages of 1,000 and 0.4 s in pages of 10,000), so a client that reads all events should use large pages.
 */
const USUAL = 1000
const MOST = 10_000
const PAGE_BYTES = 4 * 1024 * 1024

export const eventsQuery = z.strictObject({
  after: z
    .string()
    .regex(/^\d{1,15}(\.\d{1,9})?$/, "must be `next` of the previous page, or the seq of an event")
    .optional()
    .meta({
      description: "`next` of the previous page. Or the seq of an event: only events with a greater seq.",
      example: "17179869187.2",
    }),
  limit: z.coerce.number().int().min(1).max(MOST).default(USUAL).meta({ example: 100 }),
})

export function pageOf({ after, limit }: z.infer<typeof eventsQuery>): EventPageQuery {
  const [seq = "-1", index = "Infinity"] = after?.split(".") ?? []
  return { after: { seq: Number(seq), place: Number(index) }, limit, maxBytes: PAGE_BYTES }
}
