/** Bulk operations: requests and answers. */
import { z } from "zod"
import { bulkVerbs, HIGHEST_RATE, targetStatuses, USUAL_RATE } from "../../jobs/bulk/operation.ts"
import { searchedWords } from "../../journal/fingerprint.ts"
import { bulkFork } from "./fork.ts"
import {
  exemplified,
  int,
  jobId,
  jobIdExample,
  jobStatus,
  moment,
  nullableText,
  ofWorkflow,
  storableText,
  time,
  version,
} from "./job.ts"

const verb = z.enum(bulkVerbs).meta({ example: "retry" })
const text = storableText(1000).min(1)

const filter = z
  .strictObject({
    status: z
      .array(z.enum(targetStatuses as [string, ...string[]]))
      .min(1)
      .max(20)
      .optional()
      .describe(
        "Left out: the states in which the verb has something to do. cancel: all before the end; retry and fork: FAILED, CANCELLED, EXPIRED; delete: all after the end.",
      ),
    workflow: ofWorkflow,
    version: version.optional().describe("A version of `workflow`, which must be given too."),
    labels: z.record(z.string().min(1).max(200), text).optional(),
    parent: z.string().max(100).optional().meta({
      description: "A job's id: only its child jobs. Left out, or `none`: only jobs without a parent.",
      example: "none",
    }),
    forked_from: z.string().max(100).optional().describe("A job's id: only its forks."),
    error_code: text.optional().meta({ example: "E405" }),
    fingerprint: text.optional(),
    error_text: text
      .refine(given => searchedWords(given).length > 0, "must contain a word of at least two letters")
      .optional()
      .describe("Words of the error's message, all of them."),
    min_duration: z.number().min(0).max(1e10).optional().describe("In seconds."),
    created_from: moment.optional(),
    created_before: moment.optional(),
  })
  .meta({ id: "BulkFilter", description: "As for `GET /jobs`; at least one field." })

export const rate = z
  .number()
  .positive()
  .max(HIGHEST_RATE)
  .describe(`Jobs per second; default ${USUAL_RATE}.`)

export const backfill = z.object({
  schedule: z.string().describe("The name of the schedule."),
  workflow: z.string().describe("The version that the jobs run."),
  from: time,
  to: time,
  first_tick: time.nullable(),
  last_tick: time.nullable(),
})

export const request = z
  .strictObject({
    verb,
    filter,
    reason: z.string().max(1000).optional().describe("For cancel: stored with each job."),
    rate: rate.optional(),
    fork: bulkFork.optional(),
    dry_run: z
      .boolean()
      .optional()
      .describe("Only count the jobs that match now; for fork, also preview the newest of them."),
  })
  .meta({
    examples: [{ verb: "retry", filter: { status: ["FAILED"], workflow: "order" }, dry_run: true }],
  })

const refusal = z.object({
  job_id: nullableText.describe("Null: it is a tick of a backfill."),
  tick: time.optional(),
  code: z.string().describe("A code of docs/reference/errors.md."),
  message: z.string(),
})

const shownFilter = z.looseObject({ status: z.array(jobStatus).optional() })

const countExample = {
  verb: "retry",
  filter: { status: ["FAILED"], workflow: "order", parent: "none" },
  count: 1203,
  complete: true,
  by_status: { FAILED: 1203 },
}

export const count = exemplified("BulkCount", countExample, {
  verb,
  filter: shownFilter,
  count: int,
  complete: z.boolean().describe("false: there are at least `count`; the search is bounded."),
  by_status: z.record(z.string(), int),
  fork: z
    .object({
      previewed: int.describe("How many jobs were examined: the newest, at most 10."),
      unconfirmed: z
        .object({ unsafe: z.array(z.string()), unknown: z.array(z.string()) })
        .describe("Nodes that `fork.confirm` must still contain for these jobs."),
      refused: z.array(refusal).describe("Those of them that would be refused."),
    })
    .optional()
    .describe("For fork: what forks of the newest jobs would need."),
})

const summaryFields = {
  bulk_id: z.string().describe("The id of the job that is the operation."),
  owner: z.string(),
  verb: z.enum([...bulkVerbs, "backfill"]).meta({
    description: "`backfill`: started by `POST /schedules/{name}/backfill`.",
    example: "retry",
  }),
  status: jobStatus.describe(
    "Of that job: COMPLETED when every target got its command, CANCELLED when aborted.",
  ),
  created_at: time,
  finished_at: time.nullable(),
}

const summaryExample = {
  bulk_id: jobIdExample,
  owner: "local",
  verb: "retry",
  status: "PROCESSING",
  created_at: "2026-11-15T12:00:00.000Z",
  finished_at: null,
}

const operationExample = {
  ...summaryExample,
  filter: countExample.filter,
  reason: null,
  rate: 100,
  matched: { count: 1203, complete: true },
  ...{ processed: 400, done: 398, refused: 2, aborting: false },
}

export const operation = exemplified("BulkOperation", operationExample, {
  ...summaryFields,
  filter: shownFilter,
  reason: nullableText,
  rate: z.number(),
  fork: z
    .looseObject({})
    .optional()
    .describe("For fork: as in the request, with the version that a name meant at the start."),
  backfill: backfill.optional().describe("For backfill: its ticks. `filter` is empty then."),
  matched: z
    .object({ count: int, complete: z.boolean() })
    .describe("The targets that were counted at the start; `complete: false`: there were more."),
  processed: int.describe("Targets that got their command."),
  done: int,
  refused: int,
  aborting: z.boolean().describe("It is cancelled as soon as its commands in flight have ended."),
})

export const operationPage = z
  .object({
    operations: z.array(z.object(summaryFields)),
    next: jobId.nullable().describe("`after` of the next page; null: this is the last."),
  })
  .meta({ examples: [{ operations: [summaryExample], next: null }] })

const refusalExample = {
  job_id: jobIdExample,
  code: "E316",
  message: `Job ${jobIdExample} has ended or been retried since the bulk operation began.`,
}

export const refusalPage = z
  .object({
    refused: z.array(refusal),
    next: nullableText.describe("`after` of the next page; null: nothing more has been refused so far."),
  })
  .meta({ examples: [{ refused: [refusalExample], next: null }] })
