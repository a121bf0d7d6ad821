/** Why a job makes no progress. */
import { z } from "zod"
import { reasonKinds } from "../../jobs/why/reasons.ts"
import { eg, int, jobId, named, nullableText, time } from "./job.ts"

const kind = z.enum(reasonKinds)
const sentence = eg(
  z.string(),
  "Node price waits for slot openai, 40 of 40 held, 28 by job 0198c0de-7a11-7012-9abc-0123456789ab.",
)
const action = eg(
  nullableText,
  "Raise the concurrency of provider openai, or cancel jobs that hold its slots.",
  "What would help; null: nothing, or nothing is needed.",
)

const usual = z
  .object({ count: z.number(), p50: z.number(), p90: z.number(), p95: z.number(), p99: z.number() })
  .nullable()
  .describe("How long nodes like this usually wait, in ms; null: no data.")

const reason = named("Reason", {
  kind,
  count: eg(
    int,
    37,
    "How many nodes have this reason. 0: the job is paused, and none of its nodes is held yet.",
  ),
  nodes: eg(z.array(z.string()), ["price"], "The first 20 of them."),
  sentence,
  action,
  since: time.nullable().describe("Since when the first of them waits; null: not known."),
  until: time
    .nullable()
    .describe("When the first wait ends by itself; null: it does not, or this is not known."),
  details: eg(
    z.looseObject({}),
    { provider: "openai", position: 3, held: 40, limit: 40 },
    "The fields of `waiting_on` of the first node, and what the store knows besides.",
  ),
  usual,
  child: z
    .looseObject({})
    .optional()
    .describe("The same answer for the child job that the first node waits for."),
})

export const why = named("Why", {
  job_id: jobId,
  status: eg(z.string(), "PROCESSING"),
  at: time.describe("The moment of this answer."),
  sentence,
  action,
  reasons: z
    .array(reason)
    .describe(
      "Most nodes first; nodes that only wait for others, and running ones, come last. Empty: the job has ended.",
    ),
  chain: z
    .array(z.object({ job_id: jobId, node: eg(z.string(), "price"), kind, sentence }))
    .describe("From the requested node, or the first one that waits, to its cause."),
  routes: z
    .array(z.object({ route: z.string(), kind, queued: int, sentence: z.string(), action }))
    .nullable()
    .optional()
    .describe("For a pipeline: routes that have messages. null: not recorded for this moment."),
  unknown: eg(z.array(z.string()), [], "What is not recorded for a past moment."),
})

const example = z.object({
  job_id: jobId,
  workflow: eg(z.string(), "order"),
  node: eg(z.string(), "price", "The first node of the job with this reason; for a pipeline a route."),
  item: eg(
    int.nullable(),
    null,
    "Of a node with for_each: the first item that waits for it. null: the node itself does.",
  ),
  since: time.nullable(),
  until: time.nullable(),
})

export const waits = named("Waits", {
  at: time.describe("The moment of this answer."),
  groups: z
    .array(
      z.object({
        kind,
        subject: eg(z.string(), "openai", "The provider, handler, signal, pipeline or route; may be empty."),
        sentence: sentence.describe("Of the node that has waited longest."),
        action,
        jobs: eg(int, 12),
        nodes: eg(
          int,
          37,
          "How many nodes, or items of for_each, wait for it; for a route: how many messages.",
        ),
        since: time.nullable().describe("Since when the first of them waits; null: not known."),
        until: time
          .nullable()
          .describe("When the first wait ends by itself; null: it does not, or this is not known."),
        usual,
        examples: z.array(example).describe("One node of each job, the longest wait first; at most 20."),
      }),
    )
    .describe("Most nodes first."),
  jobs: eg(int, 41, "Unfinished jobs that were examined."),
  running: eg(int, 4, "Those of them with a node that runs."),
  complete: z.boolean().describe("false: the search ended early, after a bounded amount of work."),
  scanned_to: time.nullable().describe("How far back it has searched; null: to the end."),
  next: jobId.nullable().describe("`after` of a request that continues the search; null: it is complete."),
})
