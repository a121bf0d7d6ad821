/** Answers about the shadow graph of a job: its nodes, their items, and its events. */
import { z } from "zod"
import { jobIdExample, json, time } from "./job.ts"

const count = z.number().int().min(0)

const routeExample = {
  name: "fetch",
  inbound: "pages",
  outbound: { default: "chunks", link: "pages" },
  adapters: [{ type: "http_fetch", breaker: "closed" }],
  queued: 120,
  in_flight: 8,
  waiting: 2,
  done: 4711,
  failed: 1,
  failed_tries: 9,
  dead_lettered: 1,
  rate: 85.4,
  latency_ms: 93.2,
  concurrency: 8,
}

const route = z
  .object({
    name: z.string(),
    inbound: z.string().describe("The queue that it reads."),
    outbound: z.record(z.string(), z.string()).describe("Queues by kind of message."),
    adapters: z.array(
      z.object({
        type: z.string(),
        breaker: z
          .enum(["closed", "open", "half_open"])
          .nullable()
          .describe("null: the adapter has no breaker, or the execution does not run."),
      }),
    ),
    queued: count,
    in_flight: count.describe(
      "Messages that adapters are processing, in any attempt, and messages that wait to be gathered.",
    ),
    waiting: count.describe("Messages that wait for their next attempt."),
    done: count,
    failed: count.describe("Messages that failed permanently: dead letters, and those that failed the job."),
    failed_tries: count.describe("Failed deliveries, including those of messages that are retried."),
    dead_lettered: count.describe("Messages that failed permanently and were kept as dead letters."),
    rate: z.number().describe("Recent messages per second."),
    latency_ms: z.number().describe("Recent time of one message through all adapters."),
    concurrency: count
      .nullable()
      .describe("How many messages may be in flight right now; null: the execution does not run."),
  })
  .meta({ id: "Route", examples: [routeExample] })

const notRecorded = z.null().describe("Not recorded for a past moment.")

const pastRoute = route.extend({
  in_flight: notRecorded,
  rate: notRecorded,
  latency_ms: notRecorded,
  concurrency: notRecorded,
})

const waitKinds = [
  "dependencies",
  "retry",
  "timer",
  "signal",
  "external",
  "slot",
  "executions",
  "child",
  "items",
  "worker",
] as const

const nodeExample = {
  id: "price",
  handler: "call_external_service",
  status: "QUEUED",
  attempt: 2,
  max_attempts: 3,
  losses: 0,
  usage: { tokens: 1200 },
  incoming: 0,
  queued_at: "2026-11-15T12:00:00.000Z",
  started_at: null,
  finished_at: null,
  worker: null,
  duration_ms: null,
  queued_ms: null,
  waited_ms: null,
  last_attempt: {
    outcome: "failed",
    started_at: "2026-11-15T11:59:59.750Z",
    ended_at: "2026-11-15T12:00:00.000Z",
    duration_ms: 250,
    worker: "local-4711",
  },
  waiting_on: { kind: "retry", at: "2026-11-15T12:00:15.000Z" },
  error: { code: "E410", message: "it answered 500" },
  progress: null,
}

const waitingOn = z.looseObject({ kind: z.enum(waitKinds) })

const liveTask = z.looseObject({
  status: z
    .enum(["RUNNING", "QUEUED", "WAITING"])
    .describe("RUNNING: its handler runs. QUEUED: no handler has started; `waiting_on` says why."),
  worker: z.string().nullable(),
  started_at: time.nullable().describe("When its handler started."),
  progress: z.looseObject({ percent: z.number().nullable(), message: z.string().nullable() }).nullable(),
  waiting_on: waitingOn
    .nullable()
    .describe(
      "For a task that waits for a worker, `reason` is: busy, with `queued` and `position`; none, with `last_worker` and `last_seen_at`; refused, with its `cause`; or owner_away (no live engine owns the job), with `cause` and `last_seen_at`. For a task that waits for a slot: its `position`.",
    ),
})

const liveDescription =
  "Live state that is never stored: which handlers run, and where tasks wait. null: the process that runs the job did not answer within 500 ms. Absent: the job has ended."

const liveGraph = z
  .object({ at: time, nodes: z.array(liveTask.extend({ id: z.string() })) })
  .nullable()
  .optional()
  .describe(liveDescription)

export const liveItems = z
  .object({ at: time, items: z.array(liveTask.extend({ index: z.number().int() })) })
  .nullable()
  .optional()
  .describe(liveDescription)

const usage = z.record(z.string(), z.number())

/** Fields of nodes and items about their attempts. */
const numbers = {
  attempt: z
    .number()
    .int()
    .min(1)
    .describe(
      "Number of the current attempt: of those that started and were not handed over. Before the first and between two attempts: the number of the next one.",
    ),
  max_attempts: z
    .number()
    .int()
    .describe(
      "The largest number of attempts: those of the retry policy, plus one for each attempt that was lost or that ran before a retry of the job.",
    ),
  losses: z
    .number()
    .int()
    .describe(
      "Number of these attempts that were running when their process died. They do not count against the retry policy.",
    ),
  usage: usage.optional().describe("The usage of all attempts, including failed and aborted ones."),
  reason: z.string().optional().describe("For status CANCELLED: the reason."),
}

const ms = z.number().nullable()

const times = {
  queued_at: time.nullable(),
  started_at: time
    .nullable()
    .describe("When the handler started. For a running attempt this is known after one second."),
  finished_at: time.nullable(),
  worker: z.string().nullable(),
  duration_ms: ms.describe("How long the handler ran, without the time that the node waited afterwards."),
  queued_ms: ms.describe(
    "Time from when the node was ready, or its retry was due, until the handler started.",
  ),
  waited_ms: ms.describe(
    "Time from when the handler returned a wait, or its items started, until the node ended.",
  ),
  last_attempt: z
    .looseObject({
      outcome: z.string(),
      started_at: time.nullable(),
      ended_at: time,
      duration_ms: ms,
      worker: z.string().nullable(),
    })
    .optional()
    .describe("For a node that is retried: the attempt before the current one."),
}

const attemptExample = {
  attempt: 1,
  outcome: "failed",
  queued_at: "2026-11-15T11:59:59.700Z",
  started_at: "2026-11-15T11:59:59.750Z",
  ended_at: "2026-11-15T12:00:00.000Z",
  duration_ms: 250,
  queued_ms: 50,
  held_ms: 2,
  worker: "local-4711",
  error: { code: "E410", message: "it answered 500" },
  reason: null,
  usage: { tokens: 1200 },
  waits: [],
}

const attempt = z
  .looseObject({
    attempt: z.number().int().min(1),
    outcome: z
      .enum(["completed", "failed", "postponed", "lost", "handed_over", "cancelled", "skipped"])
      .nullable()
      .describe(
        "null: the attempt has not ended. `postponed`: the provider asked for a later try; this does not count as an attempt. `lost`: its process died. `handed_over`: its process was stopped normally.",
      ),
    queued_at: time,
    started_at: time.nullable().describe("null: the handler did not start, or the time is not known."),
    ended_at: time.nullable(),
    duration_ms: ms,
    queued_ms: ms,
    held_ms: ms.describe("The part of queued_ms during which the worker had the task."),
    worker: z.string().nullable(),
    error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
    reason: z.string().nullable().describe("For a cancelled attempt: the reason."),
    usage: usage.nullable(),
    waits: z
      .array(z.looseObject({ kind: z.string(), from: time, until: time.nullable() }))
      .describe(
        "What the attempt waited for: a retry time, the limit of concurrent executions, a slot, a timer, a signal, a provider, a child job, items.",
      ),
  })
  .meta({ id: "Attempt", examples: [attemptExample] })

const node = z
  .looseObject({
    id: z.string(),
    handler: z.string(),
    status: z.string(),
    ...numbers,
    incoming: z.number().int().describe("Number of unfinished dependencies."),
    ...times,
    waiting_on: waitingOn
      .nullable()
      .describe(
        "Why the node does not run right now: `nodes` it depends on, a retry `at`, a timer `until`, a signal's `name`, a provider's `external_id` and `next_poll_at`, a slot's `provider`, a `pipeline` that waits because `limit` executions run, a child's `job_id`, `waiting` items, a worker with the `handler`. `live` has more: the `position` in a queue, why no worker has started, and for a pipeline the `adapters` that its process lacks, and `redis` if the process has none.",
      ),
    error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
    items: z
      .looseObject({ total: z.number().int() })
      .optional()
      .describe("For a node with for_each: the number of its items in each state."),
  })
  .meta({ id: "Node", examples: [nodeExample] })

export const nodeWithOutput = node
  .extend({
    output: json,
    live: liveGraph,
    attempts: z.array(attempt).describe("The newest 100 attempts, in the order in which they were queued."),
    attempts_total: z.number().int(),
    item: z.number().int().optional().describe("The item to which these attempts belong."),
  })
  .meta({
    examples: [
      {
        ...nodeExample,
        ...{ status: "COMPLETED", finished_at: "2026-11-15T12:00:16.000Z", waiting_on: null, error: null },
        output: 42,
        attempts: [attemptExample],
        attempts_total: 2,
      },
    ],
  })

export const item = z
  .looseObject({
    index: z.number().int().describe("Starts at 0."),
    item: json,
    status: z.string(),
    ...numbers,
    ...times,
    waiting_on: waitingOn.nullable(),
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
        max_attempts: 3,
        losses: 0,
        queued_at: "2026-01-01T00:00:00.000Z",
        started_at: "2026-01-01T00:00:00.005Z",
        finished_at: "2026-01-01T00:00:00.105Z",
        worker: "local-4711",
        duration_ms: 100,
        queued_ms: 5,
        waited_ms: null,
        waiting_on: null,
        error: null,
      },
    ],
  })

export const graph = z
  .looseObject({
    moment: z
      .object({ seq: z.number().int(), index: z.number().int(), at: time })
      .optional()
      .describe("With `at`: the last fact of that moment."),
    status: z.string(),
    workflow_status: z
      .enum(["RUNNING", "WAITING_SINGLE", "WAITING_PARALLEL", "READY_TO_RESUME"])
      .nullable()
      .describe(
        "RUNNING: the start of a node is stored. READY_TO_RESUME: no node is RUNNING, at least one is ready for a worker. WAITING_SINGLE, WAITING_PARALLEL: no node is RUNNING or ready, one or several wait. null: the job has not started, or has ended.",
      ),
    resume_token: z.string().describe("Changes after each resume."),
    progress_pct: z.number().int().min(0).max(100),
    nodes: z.array(node),
    edges: z.array(z.object({ from: z.string(), to: z.string() })),
    ready_queue: z.array(z.string()),
    waiting_for: z.array(z.looseObject({ node: z.string(), kind: z.string() })),
    pending_operations: z.number().int(),
    completed_operations: z.number().int(),
    usage: z.record(z.string(), z.number()),
    routes: z
      .union([z.array(route), z.array(pastRoute)])
      .nullable()
      .optional()
      .describe(
        "Only for a pipeline. With `at`: counted from the times of its messages and their lineage; null: not recorded, or not kept any more.",
      ),
    dead_letters: z
      .object({
        count: z.number().int().min(0),
        first: z
          .object({
            message: z.string(),
            error: z.looseObject({ code: z.string(), message: z.string() }),
          })
          .nullable(),
      })
      .optional()
      .describe(
        "For a pipeline: the number of messages that failed permanently and that no job has replayed, and the first of them by route and number.",
      ),
    live: liveGraph,
    unseen_operations: z
      .array(
        z.object({
          node: z.string(),
          item: z.number().int().optional(),
          provider: z.string(),
          since: time,
          held_until: time.describe("The time until which it holds a slot of its provider."),
        }),
      )
      .optional()
      .describe(
        "Operations that may be running at a provider although their id is unknown: the job ended while the submission was in flight.",
      ),
  })
  .meta({
    id: "Graph",
    examples: [
      {
        status: "PROCESSING",
        workflow_status: "WAITING_SINGLE",
        resume_token: "r0",
        progress_pct: 0,
        nodes: [nodeExample],
        edges: [{ from: "price", to: "result" }],
        ready_queue: [],
        waiting_for: [{ node: "price", kind: "retry", at: "2026-11-15T12:00:15.000Z" }],
        pending_operations: 1,
        completed_operations: 0,
        usage: { tokens: 1200 },
        live: { at: "2026-11-15T12:00:01.000Z", nodes: [] },
      },
    ],
  })

const eventExample = {
  type: "node.completed",
  source: "worker",
  at: "2026-11-15T12:00:01.250Z",
  seq: 17179869187,
  correlation_id: jobIdExample,
  idempotency_key: `${jobIdExample}:17179869187:2`,
  node: "price",
  attempt: 1,
  from: "RUNNING",
  to: "COMPLETED",
  payload: { output: 42 },
}

const event = z
  .looseObject({
    type: z.string(),
    source: z.string().describe("The author of the change."),
    at: time,
    seq: z.number().int().describe("The seq of the stored fact; several events may have the same seq."),
    correlation_id: z.string().describe("The job."),
    idempotency_key: z.string(),
  })
  .meta({ id: "Event", examples: [eventExample] })

export const eventPage = z
  .object({
    events: z.array(event),
    next: z.string().nullable().describe("The value of `after` for the next page."),
  })
  .meta({ examples: [{ events: [eventExample], next: "17179869187.2" }] })
