/** Schemas of requests and answers: requests are validated with them, and the OpenAPI document publishes them. */
import { z } from "zod"
import { jobStatuses } from "../../core/states.ts"
import { type ErrorCode, errorTable } from "../../errors.ts"

export const jobIdExample = "0198c0de-7a11-7012-9abc-0123456789ab"

export const int = z.number().int()
export const count = int.min(0)
export const nullableText = z.string().nullable()
/** Present only if it is true. */
export const flag = z.literal(true).optional()

/** A whole number as a parameter. */
export function queryInt(least: number, most?: number) {
  const atLeast = z.coerce.number().int().min(least)
  return most === undefined ? atLeast : atLeast.max(most)
}

/** An object that the OpenAPI document describes once, under this name. */
export function named<Shape extends z.core.$ZodLooseShape>(id: string, shape: Shape) {
  return z.object(shape).meta({ id })
}

/** The same, with an example of the whole. */
export function exemplified<Shape extends z.core.$ZodLooseShape>(id: string, example: object, shape: Shape) {
  return z.object(shape).meta({ id, examples: [example] })
}

/** The same as `named`; further fields are allowed. */
export function namedLoose<Shape extends z.core.$ZodLooseShape>(id: string, shape: Shape) {
  return z.looseObject(shape).meta({ id })
}

/** PostgreSQL cannot store U+0000. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern excludes it.
const storable = [/^[^\u0000]*$/, "must not contain the character U+0000"] as const
export const storableText = (most: number) =>
  z
    .string()
    .max(most)
    .regex(...storable)

export const workflowName = storableText(200).min(1).meta({ example: "order" })
export const aliasName = z
  .string()
  .regex(
    /^[A-Za-z_][A-Za-z0-9_-]{0,62}$/,
    "must begin with a letter and have at most 63 letters, digits, _ and -",
  )
  .meta({ example: "stable" })
export const version = queryInt(1, 2 ** 31 - 1).meta({ example: 3 })
export const jobId = z.string().max(100).meta({ example: jobIdExample })
/** Opaque: the id of an event of a stream. */
export const eventId = z.string().max(8000).meta({ example: "j1.kM3f" })
export const limit = queryInt(1, 1000).default(50).meta({ example: 100 })
/** `next` of the page before, for lists of jobs. */
export const afterJob = z
  .string()
  .optional()
  .meta({ description: "`next` of the previous page.", example: jobIdExample })
/** A filter by workflow. */
export const ofWorkflow = workflowName
  .optional()
  .meta({ description: "Its name, or NAME@VERSION. Aliases are refused (E309).", example: "order" })
export const jobParams = z.object({ job: jobId })
export const nodeParams = jobParams.extend({ node: z.string().max(300).meta({ example: "fetch" }) })
/** For streams: the header, and its replacement for clients that cannot set headers. */
export const resumeHeaders = z.object({ "last-event-id": eventId.optional() })
export const time = z.string().meta({ format: "date-time", example: "2026-11-15T12:00:00.000Z" })
/** A time in a request. Answers repeat it, or the end of its hour, with a year of four digits. */
export const moment = z.iso
  .datetime({ offset: true, error: "must be a time with its zone, such as 2026-11-15T12:00:00Z" })
  .refine(
    text => Date.parse(text) >= 0 && Date.parse(text) < Date.UTC(9999, 0),
    "must be a time from 1970-01-01T00:00:00Z to the end of 9998",
  )
  .meta({ example: "2026-11-15T12:00:00Z" })
export const json = z.unknown().describe("Any JSON.")

/** A field with its example: the example of a body or an answer is composed of those of its fields. */
export function eg<S extends z.ZodType>(schema: S, example: unknown, description?: string): S {
  return schema.meta(description === undefined ? { example } : { description, example }) as S
}

const problem = z
  .looseObject({
    type: z.string().meta({ example: "urn:umbra:error:E301" }),
    title: z.string().meta({ example: "no such job" }),
    status: int.meta({ example: 404 }),
    detail: z.string().meta({ example: `Job ${jobIdExample} does not exist.` }),
    code: z.string().meta({ description: "A code of docs/reference/errors.md.", example: "E301" }),
    errors: z.array(z.unknown()).optional().describe("The problems of a document or a request, at most 100."),
    more_errors: int.optional().describe("The number of problems that `errors` does not list."),
    retry_after: int
      .optional()
      .describe("With status 429 and 503: seconds until the request may be sent again, as in `Retry-After`."),
  })
  .meta({ id: "Problem", description: "An error in the form of RFC 9457." })

export const jobExample = {
  job_id: jobIdExample,
  workflow: "order",
  workflow_version: 3,
  definition: null,
  owner: "local",
  parent_id: null,
  forked_from: null,
  schedule: null,
  status: "COMPLETED",
  output: { total: 42 },
  error: null,
  fingerprint: null,
  reason: null,
  usage: { tokens: 1200 },
  labels: { team: "shop" },
  note: null,
  paused: null,
  priority: 0,
  created_at: "2026-11-15T12:00:00.000Z",
  start_at: null,
  updated_at: "2026-11-15T12:00:01.250Z",
  finished_at: "2026-11-15T12:00:01.250Z",
}

export const jobStatus = z.enum(jobStatuses as [string, ...string[]])

export const paused = z.object({
  at: time,
  by: nullableText.describe("The API token or JWT subject; null: neither."),
  reason: nullableText,
})

export const jobPaused = paused.extend({
  of_workflow: flag.describe("The job was submitted while its workflow was paused, and is resumed with it."),
})

export const job = exemplified("Job", jobExample, {
  job_id: z.string(),
  workflow: z.string(),
  workflow_version: int
    .nullable()
    .describe("null: the job is a fork with a changed definition, which is not a stored version."),
  definition: nullableText.describe("The hash of that definition; null: the job runs a version."),
  owner: z.string(),
  parent_id: nullableText.describe("For a child job: its parent."),
  forked_from: nullableText.describe("For a fork: the job it was forked from."),
  schedule: z
    .object({ name: z.string(), tick: time })
    .nullable()
    .describe("The tick of a schedule that started the job. null: none did."),
  status: jobStatus,
  output: json,
  output_left_out: flag.describe(
    "In lists: the output is too large to be included. `GET /jobs/{job}` includes it.",
  ),
  error: z
    .object({
      code: z.string(),
      message: z.string(),
      node: z.string().optional(),
      item: int.optional(),
    })
    .nullable()
    .describe("Why the job failed."),
  fingerprint: nullableText.describe(
    "The same for errors that differ only in numbers, ids and quoted texts. null: no error.",
  ),
  reason: nullableText.describe("For a cancelled or expired job: the reason."),
  usage: z
    .record(z.string(), z.number())
    .nullable()
    .describe(
      "The usage of all attempts, including failed and aborted ones. null for a job with work in flight, in lists and in processes that do not run it: the job's graph has the usage.",
    ),
  previews: z
    .array(z.object({ node: z.string(), preview: json }))
    .optional()
    .describe("While the status is PREVIEW: the last partial result of each running node. Not in lists."),
  labels: z.record(z.string(), z.string()),
  note: z
    .object({ text: z.string(), at: time, by: nullableText })
    .nullable()
    .describe("The note on the job, when it was written, and by which token or JWT subject."),
  paused: jobPaused.nullable().describe("Since when no node of the job begins; null: it is not paused."),
  priority: int,
  created_at: time,
  start_at: time
    .nullable()
    .describe("Of a delayed job: when it starts, or was to start. null: it started when it was submitted."),
  updated_at: time.describe("When its state last changed."),
  finished_at: time.nullable(),
})

export const workflowReference = storableText(300)
  .min(1)
  .meta({ description: "`name`, `name@3` or `name@stable`.", example: "order@stable" })

const start = {
  start_at: z.iso
    .datetime({ offset: true, error: "must be a time with its zone, such as 2026-11-15T12:00:00Z" })
    .optional()
    .meta({
      description: "The job is PENDING until then. A time that has passed: it starts at once.",
      example: "2026-11-15T12:00:00Z",
    }),
  delay_seconds: z
    .number()
    .min(0)
    .max(1e10)
    .optional()
    .describe("Instead of `start_at`: the job starts this many seconds from now."),
}

export const startTime = z.strictObject(start).meta({ examples: [{ delay_seconds: 3600 }] })

export const submission = {
  workflow: workflowReference,
  input: json.optional(),
  priority: int.min(-1000).max(1000).optional(),
  ttl_seconds: z.number().positive().max(1e10).nullable().optional().describe("null: the job never expires."),
  labels: z.record(z.string().min(1).max(200), z.string().max(1000)).optional(),
  ...start,
}

/** What people write on a job. */
export const description = z
  .strictObject({
    labels: submission.labels.describe("All labels: those that are not given are removed."),
    note: storableText(10_000).nullable().optional().describe("null: removes the note."),
  })
  .meta({ examples: [{ labels: { team: "shop" }, note: "waits for the new price list" }] })

export const newJob = z.strictObject(submission).meta({
  examples: [{ workflow: "order@stable", input: { item: "tea" }, labels: { team: "shop" } }],
})

export const idempotencyKey = storableText(255).min(1).meta({ example: "order-17" })

export const traceparent = z.string().optional().meta({
  description: "W3C Trace Context: the job's spans belong to this trace.",
  example: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
})

export const newJobs = z
  .strictObject({
    jobs: z
      .array(z.strictObject({ ...submission, idempotency_key: idempotencyKey.optional() }))
      .min(1)
      .max(1000),
  })
  .meta({
    examples: [{ jobs: [{ workflow: "order", input: { item: "tea" }, idempotency_key: "order-17" }] }],
  })

/** Of many submissions, each by itself. */
export const submitted = z.object({
  results: z.array(z.union([z.object({ job_id: jobId, is_new: z.boolean() }), z.object({ problem })])),
})

export const waitQuery = z.strictObject({
  wait: z.coerce
    .number()
    .min(0)
    .optional()
    .meta({ description: "Seconds to wait for the job's end before answering.", example: 30 }),
})

/** The answer of a live stream. */
export function eventStream(example: string): Readonly<Record<number, z.ZodType>> {
  const description =
    "Server-Sent Events, each with one JSON document. docs/reference/streams.md describes them."
  return textAnswer("text/event-stream", description, example)
}

/** The format of Prometheus. */
export function plainText(example: string): Readonly<Record<number, z.ZodType>> {
  return textAnswer("text/plain", "Metrics as text", example)
}

/** A file that browsers download. */
export const htmlFile: Readonly<Record<number, z.ZodType>> = textAnswer(
  "text/html",
  "One HTML file",
  "<!doctype html>…",
)

function textAnswer(type: string, description: string, example: string) {
  const answer = { description, content: { [type]: { schema: z.string().meta({ examples: [example] }) } } }
  return { 200: answer as unknown as z.ZodType }
}

/** Errors that every route may return. */
const always: readonly ErrorCode[] = ["E501", "E612", "E633", "E639"]
/** Errors of commands to a job: the engine that runs it may be away. */
export const elsewhere = ["E610", "E613"] as const
/** Errors of requests that start a job. */
export const starting = [
  ...elsewhere,
  "E304",
  "E305",
  "E426",
  "E611",
  "E635",
  "E636",
  "E646",
  "E807",
] as const
/** Errors of requests that start a bulk operation. */
export const startingBulk = [...elsewhere, "E305", "E306", "E309", "E611", "E635", "E636", "E646"] as const
/** Problems that a definition with nodes may have. */
export const ofDefinitions = codesFrom("E101", "E112")

export function codesFrom(first: string, last: string): ErrorCode[] {
  return (Object.keys(errorTable) as ErrorCode[]).filter(code => code >= first && code <= last)
}

const withCaller: readonly ErrorCode[] = ["E611", "E630", "E631", "E632", "E645"]

/** The responses of a route: its successful answer, and the errors that it may return. */
export function answers(
  well: Readonly<Record<number, z.ZodType>>,
  codes: readonly ErrorCode[],
  isPublic = false,
) {
  const response: Record<string, unknown> = { ...well }
  const all = [...new Set([...codes, ...always, ...(isPublic ? [] : withCaller)])].sort()
  for (const status of new Set(all.map(code => errorTable[code].status))) {
    if (well[status] !== undefined) continue
    const own = all.filter(code => errorTable[code].status === status)
    response[status] = {
      description: own.map(code => `${code} ${errorTable[code].title}`).join("; "),
      content: { "application/problem+json": { schema: problem } },
    }
  }
  return response as Record<string, z.ZodType>
}
