/** Lineage and dead letters of executions, as they are asked for and answered. */
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
  attempt: z.number().int().min(1).meta({ description: "From 1; more where a try before has failed." }),
  status: z
    .enum(["running", "completed", "failed"])
    .meta({ description: "running: it has not ended, and `duration_ms` is how long it has taken so far." }),
  at: schema.time.meta({
    description: "When the call began; of a message that was gathered, when the call for all of them did.",
  }),
  duration_ms: z.number().meta({ description: "0 for a message that was gathered into another." }),
  into: z.string().nullable().meta({ description: "The message that this one was gathered into." }),
  emitted: z.number().int().meta({ description: "How many messages it emitted." }),
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
    job_id: schema.jobId.meta({ description: "Across a replay a walk comes to messages of another job." }),
    id: messageName,
    parent: z.string().nullable().meta({ description: "What it was emitted for; null: an initial message." }),
    replay_of: messageLink.nullable().meta({ description: "The dead letter that it replays." }),
    replayed_by: messageLink
      .nullable()
      .meta({ description: "Of a dead letter: the message that replays it." }),
    gathered: z.array(z.string()).meta({ description: "Messages that were processed as one with it." }),
    correlation_id: z.string().meta({ description: "All that comes from one initial message has the same." }),
    at: schema.time.meta({ description: "When it was written to its queue." }),
    status: z.enum(["pending", "running", "completed", "failed"]).meta({
      description:
        "What came of the last try; running: it is in hand in the process that was asked; pending: there was no try yet, as far as is known there.",
    }),
    invocations: z.array(invocation),
    body: z.unknown().meta({ description: "Any JSON." }),
    body_left_out: z
      .literal(true)
      .optional()
      .meta({ description: "Too large to be shown beside others: the lineage of this very message has it." }),
  })
  .meta({ id: "Message", examples: [messageExample] })

export const lineage = z
  .object({
    message: message
      .nullable()
      .meta({ description: "null: the job has no such message yet, and has not ended. Ask again." }),
    inputs: z.array(message).meta({ description: "What it comes from, the nearest first." }),
    outputs: z.array(message).meta({ description: "What comes from it, the nearest first." }),
    is_cut: z.boolean().meta({ description: "There are more than are shown." }),
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
    replayed_by: z.string().nullable().meta({ description: "The job that has it now." }),
    body: z.unknown().meta({ description: "Any JSON." }),
  })
  .meta({ id: "DeadLetter", examples: [deadLetterExample] })

export const deadLetters = z.object({
  dead_letters: z.array(deadLetter),
  next: z.string().nullable().meta({ description: "`after` of the next page." }),
})

/** Bodies may have a megabyte each. */
export const deadLettersLimit = z.coerce.number().int().min(1).max(100).default(50).meta({ example: 100 })
export const lineageLimit = z.coerce
  .number()
  .int()
  .min(1)
  .max(1000)
  .default(100)
  .meta({ description: "How many inputs, and how many outputs.", example: 100 })

export const replay = z
  .strictObject({
    messages: z
      .array(messageName)
      .min(1)
      .max(1000)
      .optional()
      .meta({ description: "Which; left out: all that have not been replayed." }),
    workflow: z.string().min(1).max(300).optional().meta({
      description: "Another version of the pipeline, with the same routes: `name@4`, `name@stable`.",
    }),
  })
  .meta({ examples: [{ messages: ["fetch:12"] }] })

export const replayed = schema.job
  .extend({ replayed: z.number().int().min(1).meta({ description: "Dead letters that it begins with." }) })
  .meta({
    id: "ReplayJob",
    examples: [{ ...schema.jobExample, status: "PROCESSING", output: null, finished_at: null, replayed: 12 }],
  })
