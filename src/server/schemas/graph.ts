/** Answers about the shadow graph of a job: its nodes, their items, and its events. */
import { z } from "zod"
import * as schema from "./job.ts"

const route = schema.named("Route", {
  name: schema.eg(z.string(), "fetch"),
  inbound: schema.eg(z.string(), "pages", "The queue that it reads."),
  outbound: schema.eg(
    z.record(z.string(), z.string()),
    { default: "chunks", link: "pages" },
    "Queues by kind of message.",
  ),
  adapters: z.array(
    z.object({
      type: schema.eg(z.string(), "http_fetch"),
      breaker: z
        .enum(["closed", "open", "half_open"])
        .nullable()
        .describe("null: the adapter has no breaker, or the execution does not run."),
    }),
  ),
  queued: schema.eg(schema.count, 120),
  in_flight: schema.eg(
    schema.count,
    8,
    "Messages that adapters are processing, in any attempt, and messages that wait to be gathered.",
  ),
  waiting: schema.eg(schema.count, 2, "Messages that wait for their next attempt."),
  done: schema.eg(schema.count, 4711),
  failed: schema.eg(
    schema.count,
    1,
    "Messages that failed permanently: dead letters, and those that failed the job.",
  ),
  failed_tries: schema.eg(
    schema.count,
    9,
    "Failed deliveries, including those of messages that are retried.",
  ),
  dead_lettered: schema.eg(
    schema.count,
    1,
    "Messages that failed permanently and were kept as dead letters.",
  ),
  rate: schema.eg(z.number(), 85.4, "Recent messages per second."),
  latency_ms: schema.eg(z.number(), 93.2, "Recent time of one message through all adapters."),
  concurrency: schema.eg(
    schema.count.nullable(),
    8,
    "How many messages may be in flight right now; null: the execution does not run.",
  ),
  max_queued: schema.eg(
    schema.count,
    10_000_000,
    "With this many messages, the routes that write to its queue wait.",
  ),
  held_up_by: schema.eg(
    schema.nullableText,
    null,
    "The route behind it that it waits for, since that has `max_queued` messages.",
  ),
})

const notRecorded = z.null().describe("Not recorded for a past moment.")

const pastRoute = route.extend({
  in_flight: notRecorded,
  rate: notRecorded,
  latency_ms: notRecorded,
  concurrency: notRecorded,
  held_up_by: notRecorded,
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
  "rate",
  "paused",
  "start_time",
] as const

const waitingOn = schema.eg(z.looseObject({ kind: z.enum(waitKinds) }), {
  kind: "retry",
  at: "2026-11-15T12:00:15.000Z",
})

const liveTask = z.looseObject({
  status: z
    .enum(["RUNNING", "QUEUED", "WAITING"])
    .describe("RUNNING: its handler runs. QUEUED: no handler has started; `waiting_on` says why."),
  worker: schema.nullableText,
  started_at: schema.time.nullable().describe("When its handler started."),
  progress: z.looseObject({ percent: z.number().nullable(), message: schema.nullableText }).nullable(),
  waiting_on: waitingOn
    .nullable()
    .describe(
      "For a task that waits for a worker, `reason` is: busy, with `queued` and `position`; none, with `last_worker` and `last_seen_at`; refused, with its `cause`; isolated (it runs alone after its process died); dispatching; moving (another engine takes the job over); unknown (a defect of the engine); owner_away (no live engine owns the job), with `cause` and `last_seen_at`; or job_queue (the job is QUEUED), with its `position` among the QUEUED jobs of its owner, workflow and time to live, or a later one with `position_is_minimum`. For a task that waits for a slot: its `position`.",
    ),
})

const liveDescription =
  "Live state that is never stored: which handlers run, and where tasks wait. null: the process that runs the job did not answer within 500 ms. Absent: the job has ended."

const liveGraph = schema.eg(
  z
    .object({
      at: schema.time,
      status: z
        .enum(["PROCESSING"])
        .optional()
        .describe("The job was dispatched; no fact records that yet, so `status` of the graph is QUEUED."),
      nodes: z.array(liveTask.extend({ id: z.string() })),
      engine: z
        .enum(["starting", "store_away"])
        .optional()
        .describe("starting: it is loading the job. store_away: its database does not answer."),
      storing: schema.flag.describe("Facts of the job are on their way to the store."),
    })
    .nullable()
    .optional(),
  { at: "2026-11-15T12:00:01.000Z", nodes: [] },
  liveDescription,
)

const liveItems = schema.eg(
  z
    .object({ at: schema.time, items: z.array(liveTask.extend({ index: schema.int })) })
    .nullable()
    .optional(),
  { at: "2026-11-15T12:00:01.000Z", items: [] },
  liveDescription,
)

const usage = schema.eg(z.record(z.string(), z.number()), { tokens: 1200 })
const fault = z.looseObject({
  code: schema.eg(z.string(), "E410"),
  message: schema.eg(z.string(), "it answered 500"),
})

/** Fields of nodes and items about their attempts. */
const numbers = {
  attempt: schema.eg(
    schema.int.min(1),
    2,
    "Number of the current attempt: of those that started and were not handed over. Before the first and between two attempts: the number of the next one.",
  ),
  max_attempts: schema.eg(
    schema.int,
    3,
    "The largest number of attempts: those of the retry policy, plus one for each attempt that was lost or that ran before a retry of the job.",
  ),
  losses: schema.int.describe(
    "Number of these attempts that were running when their process died. They do not count against the retry policy.",
  ),
  usage: usage.optional().describe("The usage of all attempts, including failed and aborted ones."),
  reason: z.string().optional().describe("For status CANCELLED: the reason."),
}

const ms = schema.eg(z.number().nullable(), null)

const times = {
  queued_at: schema.time.nullable(),
  started_at: schema.eg(
    schema.time.nullable(),
    null,
    "When the handler started. For a running attempt this is known after one second.",
  ),
  finished_at: schema.eg(schema.time.nullable(), null),
  worker: schema.eg(schema.nullableText, null),
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
      started_at: schema.time.nullable(),
      ended_at: schema.time,
      duration_ms: ms,
      worker: schema.nullableText,
    })
    .optional()
    .describe("For a node that is retried: the attempt before the current one."),
}

const attempt = schema.namedLoose("Attempt", {
  attempt: schema.eg(schema.int.min(1), 1),
  outcome: z
    .enum(["completed", "failed", "postponed", "lost", "handed_over", "cancelled", "skipped"])
    .nullable()
    .meta({ example: "failed" })
    .describe(
      "null: the attempt has not ended. `postponed`: the provider asked for a later try; this does not count as an attempt. `lost`: its process died. `handed_over`: its process was stopped normally.",
    ),
  queued_at: schema.time,
  started_at: schema.time.nullable().describe("null: the handler did not start, or the time is not known."),
  ended_at: schema.time.nullable(),
  duration_ms: schema.eg(ms, 250),
  queued_ms: schema.eg(ms, 50),
  held_ms: schema.eg(ms, 2, "The part of queued_ms during which the worker had the task."),
  worker: schema.eg(schema.nullableText, "local-4711"),
  error: fault.nullable(),
  reason: schema.eg(schema.nullableText, null, "For a cancelled attempt: the reason."),
  usage: usage.nullable(),
  waits: schema.eg(
    z.array(z.looseObject({ kind: z.string(), from: schema.time, until: schema.time.nullable() })),
    [],
    "What the attempt waited for: a retry time, the limit of concurrent executions, the end of a pause, a slot, a timer, a signal, a provider, a child job, items.",
  ),
})

const node = schema.namedLoose("Node", {
  id: schema.eg(z.string(), "price"),
  handler: schema.eg(z.string(), "call_external_service"),
  status: schema.eg(z.string(), "QUEUED"),
  ...numbers,
  incoming: schema.int.describe("Number of unfinished dependencies."),
  ...times,
  waiting_on: waitingOn
    .nullable()
    .describe(
      "Why the node does not run right now: `nodes` it depends on, a retry `at`, a timer `until`, a signal's `name`, a provider's `external_id`, `last_poll_at` and `next_poll_at`, a slot's `provider`, a `pipeline` that waits because `limit` executions run, a child's `job_id`, `waiting` items, a worker with the `handler`. `live` has more: the `position` in a queue, why no worker has started, and for a pipeline the `adapters` that its process lacks, and `redis` if the process has none.",
    ),
  error: fault.nullable(),
  reused_from: z.string().optional().describe("In a fork: the job whose result of this node was taken over."),
  pinned: schema.flag.describe("In a fork: the request has set the output of this node."),
  items: z
    .looseObject({ total: schema.int })
    .optional()
    .describe("For a node with for_each: the number of its items in each state."),
})

export const nodeWithOutput = node.extend({
  output: schema.eg(schema.json, null),
  live: liveGraph,
  attempts: z.array(attempt).describe("The newest 100 attempts, in the order in which they were queued."),
  attempts_total: schema.eg(schema.int, 1),
  item: schema.int.optional().describe("The item to which these attempts belong."),
})
const item = schema.namedLoose("Item", {
  index: schema.int.describe("Starts at 0."),
  item: schema.eg(schema.json, { file: "a.png" }),
  status: schema.eg(z.string(), "QUEUED"),
  ...numbers,
  ...times,
  waiting_on: waitingOn.nullable(),
  error: fault.nullable(),
})
const lastFact = z
  .object({ seq: schema.int, index: schema.int, at: schema.time })
  .optional()
  .describe("With `at`: the last fact of that moment.")
export const itemPage = z.object({
  items: z.array(item),
  next: schema.int.nullable(),
  live: liveItems,
  moment: lastFact,
})
export const graph = schema.namedLoose("Graph", {
  moment: lastFact,
  status: schema.eg(z.string(), "PROCESSING"),
  forked_from: z.string().optional().describe("For a fork: the job it was forked from."),
  workflow_status: z
    .enum(["RUNNING", "WAITING_SINGLE", "WAITING_PARALLEL", "READY_TO_RESUME"])
    .nullable()
    .meta({ example: "WAITING_SINGLE" })
    .describe(
      "RUNNING: the start of a node is stored. READY_TO_RESUME: no node is RUNNING, at least one is ready for a worker. WAITING_SINGLE, WAITING_PARALLEL: no node is RUNNING or ready, one or several wait. null: the job has not started, or has ended.",
    ),
  paused: schema.jobPaused.optional().describe("Absent: the job is not paused."),
  resume_token: schema.eg(z.string(), "r0", "Changes after each resume."),
  progress_pct: schema.int.min(0).max(100),
  nodes: z.array(node),
  edges: z.array(z.object({ from: schema.eg(z.string(), "price"), to: schema.eg(z.string(), "result") })),
  ready_queue: schema.eg(z.array(z.string()), []),
  waiting_for: schema.eg(z.array(z.looseObject({ node: z.string(), kind: z.string() })), [
    { node: "price", kind: "retry", at: "2026-11-15T12:00:15.000Z" },
  ]),
  pending_operations: schema.eg(schema.int, 1),
  completed_operations: schema.int,
  usage,
  routes: z
    .union([z.array(route), z.array(pastRoute)])
    .nullable()
    .optional()
    .describe(
      "Only for a pipeline. With `at`: counted from the times of its messages and their lineage; null: not recorded, or not kept any more.",
    ),
  dead_letters: z
    .object({
      count: schema.count,
      first: z.object({ message: z.string(), error: fault }).nullable(),
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
        item: schema.int.optional(),
        provider: z.string(),
        since: schema.time,
        held_until: schema.time.describe("The time until which it holds a slot of its provider."),
      }),
    )
    .optional()
    .describe(
      "Operations that may be running at a provider although their id is unknown: the job ended while the submission was in flight.",
    ),
})

const event = z
  .looseObject({
    type: z.string(),
    source: z.string().describe("The author of the change."),
    at: schema.time,
    seq: schema.int.describe("The seq of the stored fact; several events may have the same seq."),
    correlation_id: z.string().describe("The job."),
    idempotency_key: z.string(),
  })
  .meta({
    id: "Event",
    example: {
      ...{ type: "node.completed", source: "worker", at: "2026-11-15T12:00:01.250Z", seq: 17179869187 },
      correlation_id: schema.jobIdExample,
      idempotency_key: `${schema.jobIdExample}:17179869187:2`,
      ...{ node: "price", attempt: 1, from: "RUNNING", to: "COMPLETED", payload: { output: 42 } },
    },
  })
export const eventPage = z.object({
  events: z.array(event),
  next: schema.eg(schema.nullableText, "17179869187.2", "The value of `after` for the next page."),
})

export const nodeConfig = schema.named("NodeConfig", {
  node: schema.eg(z.string(), "fetch"),
  item: schema.eg(schema.int.nullable(), null, "null: the node itself."),
  attempt: schema.eg(schema.int, 2),
  config: schema.eg(schema.json, { order: 17, region: "eu", token: "***" }, "As the handler got it."),
  when: schema.eg(z.boolean().nullable(), null, "The value of `when`; null: the node has none."),
  items: schema.eg(schema.int.nullable(), null, "For a node with for_each: the number of its items."),
  seq: schema.eg(schema.int, 17179869187, "The last fact before the attempt."),
  error: z
    .object({ code: z.string(), message: z.string() })
    .nullable()
    .describe("Why the config cannot be rendered."),
})
