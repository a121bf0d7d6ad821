/** Lineage and dead letters of executions, in requests and answers. */
import { z } from "zod"
import * as schema from "./job.ts"

const at = "2026-11-15T12:00:00.000Z"

export const messageName = z
  .string()
  .min(3)
  .max(300)
  .meta({ description: "ROUTE:NUMBER", example: "fetch:12" })
export const routeName = z.string().min(1).max(200).meta({ example: "fetch" })

const fault = z
  .looseObject({ code: z.string(), message: z.string() })
  .meta({ example: { code: "E410", message: "it answered 500", retryable: true } })

const invocation = z.object({
  adapter: z.string(),
  attempt: z.number().int().min(1).describe("Starts at 1; higher if earlier attempts failed."),
  status: z
    .enum(["running", "completed", "failed"])
    .describe("running: the call has not ended, and `duration_ms` is the time so far."),
  at: schema.time.describe(
    "When the call started; for a gathered message, when the call for the whole group started.",
  ),
  duration_ms: z.number().describe("0 for a message that was gathered into another one."),
  into: z.string().nullable().describe("The message that this one was gathered into."),
  emitted: z.number().int().describe("Number of messages that the call emitted."),
  error: fault.nullable(),
})

const messageExample = {
  job_id: schema.jobIdExample,
  id: "fetch:12",
  parent: "fetch:1",
  replay_of: null,
  replayed_by: null,
  gathered: [],
  correlation_id: "0198c0de-7a11-7012-9abc-0123456789ab/1",
  at,
  status: "completed",
  invocations: [
    {
      adapter: "http_fetch",
      attempt: 1,
      status: "completed",
      at,
      duration_ms: 93.2,
      into: null,
      emitted: 3,
      error: null,
    },
  ],
  body: { page: "/about" },
}

const messageLink = z.object({ job_id: schema.jobId, message: messageName })

const message = z
  .object({
    job_id: schema.jobId.describe("Across a replay, the lineage contains messages of another job."),
    id: messageName,
    parent: z.string().nullable().describe("The message for which it was emitted; null: an initial message."),
    replay_of: messageLink.nullable().describe("The dead letter that this message replays."),
    replayed_by: messageLink.nullable().describe("For a dead letter: the message that replays it."),
    gathered: z.array(z.string()).describe("Messages that were processed together with it."),
    correlation_id: z.string().describe("The same for all messages that descend from one initial message."),
    at: schema.time.describe("When it was written to its queue."),
    status: z
      .enum(["pending", "running", "completed", "failed"])
      .describe(
        "The outcome of the last attempt; running: the process that answers is processing the message; pending: that process knows of no attempt yet.",
      ),
    invocations: z.array(invocation),
    body: z.unknown().describe("Any JSON."),
    body_left_out: z
      .literal(true)
      .optional()
      .describe("The body is too large to be listed: request the lineage of this message itself."),
  })
  .meta({ id: "Message", examples: [messageExample] })

export const lineage = z
  .object({
    message: message
      .nullable()
      .describe("null: the job has not ended and has no such message yet. Try again later."),
    inputs: z.array(message).describe("Its ancestors, nearest first."),
    outputs: z.array(message).describe("Its descendants, nearest first."),
    is_cut: z.boolean().describe("More messages exist than are shown."),
  })
  .meta({
    id: "Lineage",
    examples: [{ message: messageExample, inputs: [], outputs: [], is_cut: false }],
  })

const deadLetterExample = {
  id: "fetch:12",
  route: "fetch",
  attempts: 4,
  failed_at: at,
  error: { code: "E410", message: "it answered 500", retryable: true },
  replayed_by: null,
  body: { page: "/about" },
}

const deadLetter = z
  .object({
    id: messageName,
    route: routeName,
    attempts: z.number().int(),
    failed_at: schema.time,
    error: fault,
    replayed_by: z.string().nullable().describe("The job that replayed it."),
    body: z.unknown().describe("Any JSON."),
  })
  .meta({ id: "DeadLetter", examples: [deadLetterExample] })

export const deadLetters = z.object({
  dead_letters: z.array(deadLetter),
  next: z.string().nullable().describe("The value of `after` for the next page."),
})

/** A body may have up to a megabyte. */
export const deadLettersLimit = z.coerce.number().int().min(1).max(100).default(50).meta({ example: 100 })
export const lineageLimit = z.coerce
  .number()
  .int()
  .min(1)
  .max(1000)
  .default(100)
  .meta({ description: "The largest number of inputs, and of outputs.", example: 100 })

export const replay = z
  .strictObject({
    messages: z
      .array(messageName)
      .min(1)
      .max(1000)
      .optional()
      .describe("The dead letters to replay; without this field: all that have not been replayed."),
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
    replayed: z.number().int().min(1).describe("Number of dead letters with which the job starts."),
  })
  .meta({
    id: "ReplayJob",
    examples: [{ ...schema.jobExample, status: "PROCESSING", output: null, finished_at: null, replayed: 12 }],
  })
