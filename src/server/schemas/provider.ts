/** Providers and their webhooks, in answers. */
import { z } from "zod"
import { eg, int, named, nullableText, time } from "./job.ts"

export const provider = named("Provider", {
  name: eg(z.string(), "acme"),
  owners: eg(
    z.array(z.string()).readonly().nullable(),
    null,
    "Owners whose jobs may use it; null: all owners.",
  ),
  slots: z.object({
    limit: eg(int.nullable(), 4, "null: no limit."),
    limit_per_owner: eg(int.nullable(), 2),
    held: eg(
      z.array(z.object({ job_id: z.string(), owner: z.string(), granted_at: time, held_until: time })),
      [],
    ),
    waiting: int,
    oldest_asked_at: eg(time.nullable(), null),
  }),
  rate: z.object({
    limit: eg(z.number().nullable(), 10, "Requests per second; null: no limit."),
    limit_per_owner: eg(z.number().nullable(), null),
    pace: eg(z.number(), 1, "The share of the limit in use: less than 1 after a 429."),
  }),
  operations: int.describe("Number of unfinished operations."),
  unseen_operations: eg(
    z.array(z.object({ job_id: z.string(), owner: z.string(), since: time, held_until: time })),
    [],
    "Submissions of ended jobs that were not answered. An operation may be running unnoticed; each holds a slot until its lease ends.",
  ),
  recent_errors: z.array(
    z.object({
      at: time,
      what: eg(z.string(), "poll"),
      code: eg(z.string(), "E410"),
      message: eg(z.string(), "it answered 500"),
    }),
  ),
})

export const webhook = named("Webhook", {
  event_id: eg(nullableText, "evt-1"),
  external_id: eg(nullableText, "op-17"),
  received_at: time,
  verdict: eg(z.enum(["parked", "delivered", "late", "refused"]), "delivered"),
  reason: eg(nullableText, null, "Why the webhook was rejected, or why its operation failed."),
  bytes: eg(int, 412),
})
