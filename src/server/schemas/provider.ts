/** Providers and their webhooks, in answers. */
import { z } from "zod"
import { time } from "./job.ts"

const providerExample = {
  name: "acme",
  owners: null,
  slots: { limit: 4, limit_per_owner: 2, held: [], waiting: 0, oldest_asked_at: null },
  rate: { limit: 10, limit_per_owner: null, pace: 1 },
  operations: 0,
  unseen_operations: [],
  recent_errors: [{ at: "2026-11-15T12:00:00.000Z", what: "poll", code: "E410", message: "it answered 500" }],
}

export const provider = z
  .object({
    name: z.string(),
    owners: z
      .array(z.string())
      .readonly()
      .nullable()
      .describe("Owners whose jobs may use it; null: all owners."),
    slots: z.object({
      limit: z.number().int().nullable().describe("null: no limit."),
      limit_per_owner: z.number().int().nullable(),
      held: z.array(z.object({ job_id: z.string(), owner: z.string(), granted_at: time, held_until: time })),
      waiting: z.number().int(),
      oldest_asked_at: time.nullable(),
    }),
    rate: z.object({
      limit: z.number().nullable().describe("Requests per second; null: no limit."),
      limit_per_owner: z.number().nullable(),
      pace: z.number().describe("The share of the limit in use: less than 1 after a 429."),
    }),
    operations: z.number().int().describe("Number of unfinished operations."),
    unseen_operations: z
      .array(z.object({ job_id: z.string(), owner: z.string(), since: time, held_until: time }))
      .describe(
        "Submissions of ended jobs that were not answered. An operation may be running unnoticed; each holds a slot until its lease ends.",
      ),
    recent_errors: z.array(z.object({ at: time, what: z.string(), code: z.string(), message: z.string() })),
  })
  .meta({ id: "Provider", examples: [providerExample] })

const webhookExample = {
  event_id: "evt-1",
  external_id: "op-17",
  received_at: "2026-11-15T12:00:00.000Z",
  verdict: "delivered",
  reason: null,
  bytes: 412,
}

export const webhook = z
  .object({
    event_id: z.string().nullable(),
    external_id: z.string().nullable(),
    received_at: time,
    verdict: z.enum(["parked", "delivered", "late", "refused"]),
    reason: z.string().nullable().describe("Why the webhook was rejected, or why its operation failed."),
    bytes: z.number().int(),
  })
  .meta({ id: "Webhook", examples: [webhookExample] })
