/** Lineage and dead letters of executions, in requests and answers. */
import { z } from "zod"
import * as schema from "./job.ts"

export const messageName = z
  .string()
  .min(3)
  .max(300)
  .meta({ description: "ROUTE:NUMBER", example: "fetch:12" })
export const routeName = z.string().min(1).max(200).meta({ example: "fetch" })

const { eg } = schema
const body = eg(schema.json, { page: "/about" })
const fault = z
  .looseObject({ code: z.string(), message: z.string() })
  .meta({ example: { code: "E410", message: "it answered 500", retryable: true } })

const invocation = z.object({
  adapter: eg(z.string(), "http_fetch"),
  attempt: z.number().int().min(1).describe("Starts at 1; higher if earlier attempts failed."),
  status: z
    .enum(["running", "completed", "failed"])
    .meta({ example: "completed" })
    .describe("running: the call has not ended, and `duration_ms` is the time so far."),
  at: schema.time.describe(
    "When the call started; for a gathered message, when the call for the whole group started.",
  ),
  duration_ms: eg(z.number(), 93.2, "0 for a message that was gathered into another one."),
  into: eg(z.string().nullable(), null, "The message that this one was gathered into."),
  emitted: eg(z.number().int(), 3, "Number of messages that the call emitted."),
  error: eg(fault.nullable(), null),
})

const messageLink = z.object({ job_id: schema.jobId, message: messageName })

const message = z
  .object({
    job_id: schema.jobId.describe("Across a replay, the lineage contains messages of another job."),
    id: messageName,
    parent: eg(
      z.string().nullable(),
      "fetch:1",
      "The message for which it was emitted; null: an initial message.",
    ),
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
    body_left_out: z
      .literal(true)
      .optional()
      .describe("The body is too large to be listed: request the lineage of this message itself."),
  })
  .meta({ id: "Message" })

export const lineage = z
  .object({
    message: message
      .nullable()
      .describe("null: the job has not ended and has no such message yet. Try again later."),
    inputs: eg(z.array(message), [], "Its ancestors, nearest first."),
    outputs: eg(z.array(message), [], "Its descendants, nearest first."),
    is_cut: z.boolean().describe("More messages exist than are shown."),
  })
  .meta({ id: "Lineage" })

const deadLetter = z
  .object({
    id: messageName,
    route: routeName,
    attempts: eg(z.number().int(), 4),
    failed_at: schema.time,
    error: fault,
    replayed_by: eg(z.string().nullable(), null, "The job that replayed it."),
    body,
  })
  .meta({ id: "DeadLetter" })

export const deadLetters = z.object({
  dead_letters: z.array(deadLetter),
  next: eg(z.string().nullable(), "fetch:12", "The value of `after` for the next page."),
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
