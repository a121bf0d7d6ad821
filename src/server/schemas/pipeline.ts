/** Lineage and dead letters of executions, in requests and answers. */
import { z } from "zod"
import * as schema from "./job.ts"

export const messageName = z
  .string()
  .min(3)
  .max(300)
  .meta({ description: "ROUTE:NUMBER", example: "fetch:12" })
export const routeName = z.string().min(1).max(200).meta({ example: "fetch" })

const { count, eg, int, nullableText } = schema
const body = eg(schema.json, { page: "/about" })
const fault = z
  .looseObject({ code: z.string(), message: z.string() })
  .meta({ example: { code: "E410", message: "it answered 500", retryable: true } })

const invocation = z.object({
  adapter: eg(z.string(), "http_fetch"),
  attempt: int.min(1).describe("Starts at 1; higher if earlier attempts failed."),
  status: z
    .enum(["running", "completed", "failed"])
    .meta({ example: "completed" })
    .describe("running: the call has not ended, and `duration_ms` is the time so far."),
  at: schema.time.describe(
    "When the call started; for a gathered message, when the call for the whole group started.",
  ),
  duration_ms: eg(z.number(), 93.2, "0 for a message that was gathered into another one."),
  into: eg(nullableText, null, "The message that this one was gathered into."),
  emitted: eg(int, 3, "Number of messages that the call emitted."),
  error: eg(fault.nullable(), null),
})

const messageLink = z.object({ job_id: schema.jobId, message: messageName })

const message = schema.named("Message", {
  job_id: schema.jobId.describe("Across a replay, the lineage contains messages of another job."),
  id: messageName,
  parent: eg(nullableText, "fetch:1", "The message for which it was emitted; null: an initial message."),
  replay_of: eg(messageLink.nullable(), null, "The dead letter that this message replays."),
  replayed_by: eg(messageLink.nullable(), null, "For a dead letter: the message that replays it."),
  gathered: eg(z.array(z.string()), [], "Messages that were processed together with it."),
  correlation_id: eg(
    z.string(),
    `${schema.jobIdExample}/1`,
    "The same for all messages that descend from one initial message.",
  ),
  at: schema.time.describe("When it was written to its queue."),
  status: z
    .enum(["pending", "running", "completed", "failed"])
    .meta({ example: "completed" })
    .describe(
      "The outcome of the last attempt; running: the process that answers is processing the message; pending: that process knows of no attempt yet.",
    ),
  invocations: z.array(invocation),
  body,
  body_left_out: schema.flag.describe(
    "The body is too large to be listed: request the lineage of this message itself.",
  ),
})

export const lineage = schema.named("Lineage", {
  message: message
    .nullable()
    .describe("null: the job has not ended and has no such message yet. Try again later."),
  inputs: eg(z.array(message), [], "Its ancestors, nearest first."),
  outputs: eg(z.array(message), [], "Its descendants, nearest first."),
  is_cut: z.boolean().describe("More messages exist than are shown."),
})

const deadLetter = schema.named("DeadLetter", {
  id: messageName,
  route: routeName,
  attempts: eg(int, 4),
  failed_at: schema.time,
  error: fault,
  replayed_by: eg(nullableText, null, "The job that replayed it."),
  edited: eg(z.boolean(), false, "It was replayed with another body."),
  body,
})

export const deadLetters = z.object({
  dead_letters: z.array(deadLetter),
  next: eg(nullableText, "fetch:12", "The value of `after` for the next page."),
})

/** A body may have up to a megabyte. */
export const deadLettersLimit = schema.queryInt(1, 100).default(50).meta({ example: 100 })
const lineageLimit = schema
  .queryInt(1, 1000)
  .default(100)
  .meta({ description: "The largest number of inputs, and of outputs.", example: 100 })

/** Of one walk; each is a query parameter. */
export const lineageBounds = {
  limit: lineageLimit,
  depth: schema
    .queryInt(1, 1000)
    .optional()
    .meta({ description: "The largest number of steps from the message.", example: 3 }),
  width: schema
    .queryInt(1, 1000)
    .optional()
    .meta({ description: "The largest number of messages of one step. Default: `limit`.", example: 20 }),
  from: schema.queryInt(0, 100_000).optional().meta({
    description: "Leaves out this many messages of the first step: those of earlier pages.",
    example: 20,
  }),
  direction: z
    .enum(["inputs", "outputs"])
    .optional()
    .meta({ description: "Only ancestors, or only descendants.", example: "outputs" }),
}

const execution = schema.named("Execution", {
  job_id: schema.jobId,
  workflow: eg(z.string(), "crawl"),
  workflow_version: schema.job.shape.workflow_version,
  status: schema.job.shape.status,
  error: schema.job.shape.error,
  reason: schema.job.shape.reason,
  labels: schema.job.shape.labels,
  paused: schema.job.shape.paused,
  created_at: schema.job.shape.created_at,
  finished_at: schema.job.shape.finished_at,
  messages: z
    .object({
      queued: eg(count, 120, "Those in flight included."),
      waiting: eg(count, 2, "Messages that wait for their next attempt."),
      done: eg(count, 4711),
      failed: eg(count, 1),
    })
    .describe("Sums over all routes, as they were last stored."),
  dead_letters: z.object({
    count: eg(count, 1, "Dead letters that no job has replayed, counted up to 1,000."),
    first: z.object({ message: messageName, error: fault }).nullable(),
  }),
})

export const executions = z.object({
  executions: z.array(execution),
  next: eg(nullableText, null, "The value of `after` for the next page."),
  complete: eg(z.boolean(), true, "false: the page ended before it was full; `next` continues the search."),
})

export const replay = z
  .strictObject({
    messages: z
      .array(messageName)
      .min(1)
      .max(1000)
      .optional()
      .describe(
        "The dead letters to replay; without this field: those of `bodies`, or all that have not been replayed.",
      ),
    bodies: z
      .record(messageName, schema.json)
      .refine(bodies => Object.keys(bodies).length <= 1000, "must have at most 1000 bodies")
      .optional()
      .meta({
        description: "Other bodies, by the names of dead letters, which are replayed too.",
        example: { "fetch:12": { page: "/about-us" } },
      }),
    workflow: z
      .string()
      .min(1)
      .max(300)
      .optional()
      .describe("Another version of the pipeline, with the same routes: `name@4`, `name@stable`."),
  })
  .meta({ examples: [{ messages: ["fetch:12"] }] })

export const replayed = schema.job
  .extend({
    replayed: int.min(1).describe("Number of dead letters with which the job starts."),
  })
  .meta({
    id: "ReplayJob",
    examples: [{ ...schema.jobExample, status: "PROCESSING", output: null, finished_at: null, replayed: 12 }],
  })
