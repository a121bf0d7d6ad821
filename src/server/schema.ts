/** How requests and answers look: checked when they come in, and published in the OpenAPI document. */
import { z } from "zod"
import { jobStatuses } from "../core/states.ts"
import { type ErrorCode, errorTable } from "../errors.ts"
import { route } from "./route-schema.ts"

const jobIdExample = "0198c0de-7a11-7012-9abc-0123456789ab"

/** PostgreSQL has no U+0000. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it is the one that must not be there.
const storable = /^[^\u0000]*$/

export const workflowName = z.string().min(1).max(200).regex(storable).meta({ example: "order" })
export const aliasName = z
  .string()
  .regex(
    /^[A-Za-z_][A-Za-z0-9_-]{0,62}$/,
    "An alias begins with a letter and has at most 63 letters, digits, _ and -",
  )
  .meta({ example: "stable" })
export const version = z.coerce
  .number()
  .int()
  .min(1)
  .max(2 ** 31 - 1)
  .meta({ example: 3 })
export const jobId = z.string().max(100).meta({ example: jobIdExample })
/** Opaque: what a stream gave. */
export const eventId = z.string().max(8000)
export const limit = z.coerce.number().int().min(1).max(1000).default(50)
export const time = z.string().meta({ format: "date-time", example: "2026-11-15T12:00:00.000Z" })
const json = z.unknown().meta({ description: "Any JSON." })

export const problem = z
  .looseObject({
    type: z.string().meta({ example: "urn:umbra:error:E301" }),
    title: z.string().meta({ example: "no such job" }),
    status: z.number().int().meta({ example: 404 }),
    detail: z.string().meta({ example: `Job ${jobIdExample} does not exist.` }),
    code: z.string().meta({ description: "A code of docs/errors.md.", example: "E301" }),
    errors: z
      .array(z.unknown())
      .optional()
      .meta({ description: "Every problem of a document or a request." }),
  })
  .meta({ id: "Problem", description: "An error, as RFC 9457 has it." })

export const job = z
  .object({
    job_id: z.string(),
    workflow: z.string(),
    workflow_version: z.number().int(),
    owner: z.string(),
    parent_id: z.string().nullable().meta({ description: "Of a child job: the job it runs for." }),
    status: z.enum(jobStatuses as [string, ...string[]]),
    output: json,
    output_left_out: z
      .literal(true)
      .optional()
      .meta({ description: "In lists: the output is too large to be shown here. The job itself has it." }),
    error: z
      .object({
        code: z.string(),
        message: z.string(),
        node: z.string().optional(),
        item: z.number().int().optional(),
      })
      .nullable()
      .meta({ description: "Why the job failed." }),
    labels: z.record(z.string(), z.string()),
    priority: z.number().int(),
    created_at: time,
    updated_at: time.meta({ description: "When its state last changed." }),
    finished_at: time.nullable(),
  })
  .meta({
    id: "Job",
    examples: [
      {
        job_id: jobIdExample,
        workflow: "order",
        workflow_version: 3,
        owner: "local",
        parent_id: null,
        status: "COMPLETED",
        output: { total: 42 },
        error: null,
        labels: { team: "shop" },
        priority: 0,
        created_at: "2026-11-15T12:00:00.000Z",
        updated_at: "2026-11-15T12:00:01.250Z",
        finished_at: "2026-11-15T12:00:01.250Z",
      },
    ],
  })

const submission = {
  workflow: z
    .string()
    .min(1)
    .max(300)
    .regex(storable)
    .meta({ description: "`name`, `name@3` or `name@stable`.", example: "order@stable" }),
  input: json.optional(),
  priority: z.number().int().min(-1000).max(1000).optional(),
  ttl_seconds: z
    .number()
    .positive()
    .max(1e10)
    .nullable()
    .optional()
    .meta({ description: "null: never expires." }),
  labels: z.record(z.string().min(1).max(200), z.string().max(1000)).optional(),
}

export const newJob = z.strictObject(submission).meta({
  examples: [{ workflow: "order@stable", input: { item: "tea" }, labels: { team: "shop" } }],
})

export const idempotencyKey = z.string().min(1).max(255).regex(storable)

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

export const waitQuery = z.strictObject({
  wait: z.coerce
    .number()
    .min(0)
    .optional()
    .meta({ description: "Seconds to wait for the job's end before answering.", example: 30 }),
})

const waitKinds = [
  "dependencies",
  "retry",
  "timer",
  "signal",
  "external",
  "slot",
  "child",
  "items",
  "worker",
] as const

export const node = z
  .looseObject({
    id: z.string(),
    handler: z.string(),
    status: z.string(),
    attempt: z.number().int(),
    incoming: z.number().int().meta({ description: "Dependencies that are not done." }),
    queued_at: time.nullable(),
    started_at: time.nullable().meta({ description: "Recorded only for work that takes over a second." }),
    finished_at: time.nullable(),
    waiting_on: z
      .looseObject({ kind: z.enum(waitKinds) })
      .nullable()
      .meta({ description: "Why the node does not run right now." }),
    error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
    items: z
      .looseObject({ total: z.number().int() })
      .optional()
      .meta({ description: "Of a node with for_each: how many of its items are in each state." }),
  })
  .meta({ id: "Node" })

export const item = z
  .looseObject({
    index: z.number().int().meta({ description: "From 0." }),
    item: json,
    status: z.string(),
    attempt: z.number().int(),
    finished_at: time.nullable(),
    waiting_on: z.looseObject({ kind: z.enum(waitKinds) }).nullable(),
    error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
  })
  .meta({
    id: "Item",
    examples: [
      {
        index: 0,
        item: { file: "a.png" },
        status: "COMPLETED",
        attempt: 1,
        tries: 0,
        finished_at: "2026-01-01T00:00:00.000Z",
        waiting_on: null,
        error: null,
      },
    ],
  })

export const graph = z
  .looseObject({
    status: z.string(),
    workflow_status: z.enum(["RUNNING", "WAITING_SINGLE", "WAITING_PARALLEL", "READY_TO_RESUME"]).nullable(),
    resume_token: z.string().meta({ description: "Another one after each resume." }),
    progress_pct: z.number().int().min(0).max(100),
    nodes: z.array(node),
    edges: z.array(z.object({ from: z.string(), to: z.string() })),
    ready_queue: z.array(z.string()),
    waiting_for: z.array(z.looseObject({ node: z.string(), kind: z.string() })),
    pending_operations: z.number().int(),
    completed_operations: z.number().int(),
    usage: z.record(z.string(), z.number()),
    routes: z.array(route).optional().meta({ description: "Of a pipeline." }),
  })
  .meta({ id: "Graph" })

export const event = z
  .looseObject({
    type: z.string().meta({ example: "node.completed" }),
    source: z.string(),
    at: time,
    seq: z.number().int(),
    correlation_id: z.string(),
    idempotency_key: z.string(),
  })
  .meta({ id: "Event" })

const providerExample = {
  name: "acme",
  slots: { limit: 4, held: [], waiting: 0, oldest_asked_at: null },
  rate: { limit: 10, pace: 1 },
  operations: 0,
  recent_errors: [{ at: "2026-11-15T12:00:00.000Z", what: "poll", code: "E410", message: "it answered 500" }],
}

export const provider = z
  .object({
    name: z.string(),
    slots: z.object({
      limit: z.number().int().nullable().meta({ description: "null: no limit." }),
      held: z.array(z.object({ job_id: z.string(), owner: z.string(), granted_at: time, held_until: time })),
      waiting: z.number().int(),
      oldest_asked_at: time.nullable(),
    }),
    rate: z.object({
      limit: z.number().nullable().meta({ description: "Requests a second; null: no limit." }),
      pace: z.number().meta({ description: "Share of it in use: less than 1 after a 429." }),
    }),
    operations: z.number().int().meta({ description: "Operations that are not over." }),
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
    reason: z.string().nullable().meta({ description: "Why it was refused." }),
    bytes: z.number().int(),
  })
  .meta({ id: "Webhook", examples: [webhookExample] })

const weights = z.record(z.string().regex(/^[1-9]\d{0,8}$/), z.number().min(1e-6).max(1e6))

export const aliasTarget = z
  .union(
    [
      z.strictObject({
        version: z
          .number()
          .int()
          .min(1)
          .max(2 ** 31 - 1),
      }),
      z.strictObject({ weights: weights.meta({ description: "Chances by version: A/B, gradual rollout." }) }),
      weights,
    ],
    { error: 'give {"version": 3}, or chances by version: {"2": 90, "3": 10}' },
  )
  .meta({ examples: [{ version: 3 }, { 2: 90, 3: 10 }, { weights: { 2: 90, 3: 10 } }] })

export const alias = z
  .object({ alias: z.string(), weights, moved_at: time, moved_by: z.string() })
  .meta({ id: "Alias" })

export const aliasMove = z
  .object({ at: time, by: z.string(), from: weights.nullable(), to: weights.nullable() })
  .meta({ id: "AliasMove" })

export const storedVersion = z
  .object({ name: z.string(), version: z.number().int(), hash: z.string(), created_at: time })
  .meta({
    id: "WorkflowVersion",
    examples: [{ name: "order", version: 3, hash: "9f2c41d0", created_at: "2026-11-15T12:00:00.000Z" }],
  })

export const workflow = storedVersion
  .extend({ definition: z.looseObject({}), aliases: z.array(alias).optional() })
  .meta({ id: "Workflow" })

const diffExample = {
  name: "order",
  from: 2,
  to: 3,
  nodes_added: ["invoice"],
  nodes_removed: [],
  nodes_changed: [{ id: "price", keys: ["config"] }],
  routes_added: [],
  routes_removed: [],
  routes_changed: [],
  keys_changed: ["output"],
}

export const diff = z
  .object({
    name: z.string(),
    from: z.number().int(),
    to: z.number().int(),
    nodes_added: z.array(z.string()),
    nodes_removed: z.array(z.string()),
    nodes_changed: z.array(z.object({ id: z.string(), keys: z.array(z.string()) })),
    routes_added: z.array(z.string()),
    routes_removed: z.array(z.string()),
    routes_changed: z.array(z.object({ name: z.string(), keys: z.array(z.string()) })),
    keys_changed: z.array(z.string()).meta({ description: "What else differs: input, output, …" }),
  })
  .meta({ examples: [diffExample] })

/** The answer of a live stream. */
export function eventStream(example: string): Readonly<Record<number, z.ZodType>> {
  const description = "Server-Sent Events, one JSON document each. docs/streams.md says which."
  return textAnswer("text/event-stream", description, example)
}

/** What Prometheus reads. */
export function plainText(example: string): Readonly<Record<number, z.ZodType>> {
  return textAnswer("text/plain", "Metrics as text", example)
}

function textAnswer(type: string, description: string, example: string) {
  const answer = { description, content: { [type]: { schema: z.string().meta({ examples: [example] }) } } }
  return { 200: answer as unknown as z.ZodType }
}

/** Whatever is asked, this may come back. */
const always: readonly ErrorCode[] = ["E501", "E612", "E633", "E639"]
const withCaller: readonly ErrorCode[] = ["E630", "E631", "E632", "E645"]

/** The answers of a route: what it gives when all is well, and the errors that it may give. */
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
