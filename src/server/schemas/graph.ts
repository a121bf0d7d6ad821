/** Answers about the shadow graph of a job: its nodes, their items, and its events. */
import { z } from "zod"
import {
  count,
  eg,
  flag,
  int,
  jobIdExample,
  jobPaused,
  json,
  named,
  namedLoose,
  nullableText,
  time,
} from "./job.ts"

const route = named("Route", {
  name: eg(z.string(), "fetch"),
  inbound: eg(z.string(), "pages", "The queue that it reads."),
  outbound: eg(
    z.record(z.string(), z.string()),
    { default: "chunks", link: "pages" },
    "Queues by kind of message.",
  ),
  adapters: z.array(
    z.object({
      type: eg(z.string(), "http_fetch"),
      breaker: z
        .enum(["closed", "open", "half_open"])
        .nullable()
        .describe("null: the adapter has no breaker, or the execution does not run."),
    }),
  ),
  queued: eg(count, 120),
  in_flight: eg(
    count,
    8,
    "Messages that adapters are processing, in any attempt, and messages that wait to be gathered.",
  ),
  waiting: eg(count, 2, "Messages that wait for their next attempt."),
  done: eg(count, 4711),
  failed: eg(count, 1, "Messages that failed permanently: dead letters, and those that failed the job."),
  failed_tries: eg(count, 9, "Failed deliveries, including those of messages that are retried."),
  dead_lettered: eg(count, 1, "Messages that failed permanently and were kept as dead letters."),
  rate: eg(z.number(), 85.4, "Recent messages per second."),
  latency_ms: eg(z.number(), 93.2, "Recent time of one message through all adapters."),
  concurrency: eg(
    count.nullable(),
    8,
    "How many messages may be in flight right now; null: the execution does not run.",
  ),
  max_queued: eg(count, 10_000_000, "With this many messages, the routes that write to its queue wait."),
  held_up_by: eg(
    nullableText,
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

const waitingOn = eg(z.looseObject({ kind: z.enum(waitKinds) }), {
  kind: "retry",
  at: "2026-11-15T12:00:15.000Z",
})

const liveTask = z.looseObject({
  status: z
    .enum(["RUNNING", "QUEUED", "WAITING"])
    .describe("RUNNING: its handler runs. QUEUED: no handler has started; `waiting_on` says why."),
  worker: nullableText,
  started_at: time.nullable().describe("When its handler started."),
  progress: z.looseObject({ percent: z.number().nullable(), message: nullableText }).nullable(),
  waiting_on: waitingOn
    .nullable()
    .describe(
      "For a task that waits for a worker, `reason` is: busy, with `queued` and `position`; none, with `last_worker` and `last_seen_at`; refused, with its `cause`; isolated (it runs alone after its process died); dispatching; moving (another engine takes the job over); unknown (a defect of the engine); owner_away (no live engine owns the job), with `cause` and `last_seen_at`; or job_queue (the job is QUEUED), with its `position` among the QUEUED jobs of its owner, workflow and time to live, or a later one with `position_is_minimum`. For a task that waits for a slot: its `position`.",
    ),
})

const liveDescription =
  "Live state that is never stored: which handlers run, and where tasks wait. null: the process that runs the job did not answer within 500 ms. Absent: the job has ended."

const liveGraph = eg(
  z
    .object({
      at: time,
      status: z
        .enum(["PROCESSING"])
        .optional()
        .describe("The job was dispatched; no fact records that yet, so `status` of the graph is QUEUED."),
      nodes: z.array(liveTask.extend({ id: z.string() })),
      engine: z
        .enum(["starting", "store_away"])
        .optional()
        .describe("starting: it is loading the job. store_away: its database does not answer."),
      storing: flag.describe("Facts of the job are on their way to the store."),
    })
    .nullable()
    .optional(),
  { at: "2026-11-15T12:00:01.000Z", nodes: [] },
  liveDescription,
)

const liveItems = eg(
  z
    .object({ at: time, items: z.array(liveTask.extend({ index: int })) })
    .nullable()
    .optional(),
  { at: "2026-11-15T12:00:01.000Z", items: [] },
  liveDescription,
)

const usage = eg(z.record(z.string(), z.number()), { tokens: 1200 })
const fault = z.looseObject({ code: eg(z.string(), "E410"), message: eg(z.string(), "it answered 500") })

/** Fields of nodes and items about their attempts. */
const numbers = {
  attempt: eg(
    int.min(1),
    2,
    "Number of the current attempt: of those that started and were not handed over. Before the first and between two attempts: the number of the next one.",
  ),
  max_attempts: eg(
    int,
    3,
    "The largest number of attempts: those of the retry policy, plus one for each attempt that was lost or that ran before a retry of the job.",
  ),
  losses: int.describe(
    "Number of these attempts that were running when their process died. They do not count against the retry policy.",
  ),
  usage: usage.optional().describe("The usage of all attempts, including failed and aborted ones."),
  reason: z.string().optional().describe("For status CANCELLED: the reason."),
}

const ms = eg(z.number().nullable(), null)

const times = {
  queued_at: time.nullable(),
  started_at: eg(
    time.nullable(),
    null,
    "When the handler started. For a running attempt this is known after one second.",
  ),
  finished_at: eg(time.nullable(), null),
  worker: eg(nullableText, null),
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
      worker: nullableText,
    })
    .optional()
    .describe("For a node that is retried: the attempt before the current one."),
}

const attempt = namedLoose("Attempt", {
  attempt: eg(int.min(1), 1),
  outcome: z
    .enum(["completed", "failed", "postponed", "lost", "handed_over", "cancelled", "skipped"])
    .nullable()
    .meta({ example: "failed" })
    .describe(
      "null: the attempt has not ended. `postponed`: the provider asked for a later try; this does not count as an attempt. `lost`: its process died. `handed_over`: its process was stopped normally.",
    ),
  queued_at: time,
  started_at: time.nullable().describe("null: the handler did not start, or the time is not known."),
  ended_at: time.nullable(),
  duration_ms: eg(ms, 250),
  queued_ms: eg(ms, 50),
  held_ms: eg(ms, 2, "The part of queued_ms during which the worker had the task."),
  worker: eg(nullableText, "local-4711"),
  error: fault.nullable(),
  reason: eg(nullableText, null, "For a cancelled attempt: the reason."),
  usage: usage.nullable(),
  waits: eg(
    z.array(z.looseObject({ kind: z.string(), from: time, until: time.nullable() })),
    [],
    "What the attempt waited for: a retry time, the limit of concurrent executions, the end of a pause, a slot, a timer, a signal, a provider, a child job, items.",
  ),
})

const node = namedLoose("Node", {
  id: eg(z.string(), "price"),
  handler: eg(z.string(), "call_external_service"),
  status: eg(z.string(), "QUEUED"),
  ...numbers,
  incoming: int.describe("Number of unfinished dependencies."),
  ...times,
  waiting_on: waitingOn
    .nullable()
    .describe(
      "Why the node does not run right now: `nodes` it depends on, a retry `at`, a timer `until`, a signal's `name`, a provider's `external_id`, `last_poll_at` and `next_poll_at`, a slot's `provider`, a `pipeline` that waits because `limit` executions run, a child's `job_id`, `waiting` items, a worker with the `handler`. `live` has more: the `position` in a queue, why no worker has started, and for a pipeline the `adapters` that its process lacks, and `redis` if the process has none.",
    ),
  error: fault.nullable(),
  reused_from: z.string().optional().describe("In a fork: the job whose result of this node was taken over."),
  pinned: flag.describe("In a fork: the request has set the output of this node."),
  items: z
    .looseObject({ total: int })
    .optional()
    .describe("For a node with for_each: the number of its items in each state."),
})

export const nodeWithOutput = node.extend({
  output: eg(json, null),
  live: liveGraph,
  attempts: z.array(attempt).describe("The newest 100 attempts, in the order in which they were queued."),
  attempts_total: eg(int, 1),
  item: int.optional().describe("The item to which these attempts belong."),
})
const item = namedLoose("Item", {
  index: int.describe("Starts at 0."),
  item: eg(json, { file: "a.png" }),
  status: eg(z.string(), "QUEUED"),
  ...numbers,
  ...times,
  waiting_on: waitingOn.nullable(),
  error: fault.nullable(),
})
const lastFact = z
  .object({ seq: int, index: int, at: time })
  .optional()
  .describe("With `at`: the last fact of that moment.")
export const itemPage = z.object({
  items: z.array(item),
  next: int.nullable(),
  live: liveItems,
  moment: lastFact,
})
export const graph = namedLoose("Graph", {
  moment: lastFact,
  status: eg(z.string(), "PROCESSING"),
  forked_from: z.string().optional().describe("For a fork: the job it was forked from."),
  workflow_status: z
    .enum(["RUNNING", "WAITING_SINGLE", "WAITING_PARALLEL", "READY_TO_RESUME"])
    .nullable()
    .meta({ example: "WAITING_SINGLE" })
    .describe(
      "RUNNING: the start of a node is stored. READY_TO_RESUME: no node is RUNNING, at least one is ready for a worker. WAITING_SINGLE, WAITING_PARALLEL: no node is RUNNING or ready, one or several wait. null: the job has not started, or has ended.",
    ),
  paused: jobPaused.optional().describe("Absent: the job is not paused."),
  resume_token: eg(z.string(), "r0", "Changes after each resume."),
  progress_pct: int.min(0).max(100),
  nodes: z.array(node),
  edges: z.array(z.object({ from: eg(z.string(), "price"), to: eg(z.string(), "result") })),
  ready_queue: eg(z.array(z.string()), []),
  waiting_for: eg(z.array(z.looseObject({ node: z.string(), kind: z.string() })), [
    { node: "price", kind: "retry", at: "2026-11-15T12:00:15.000Z" },
  ]),
  pending_operations: eg(int, 1),
  completed_operations: int,
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
      count: count,
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
        item: int.optional(),
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

const event = z
  .looseObject({
    type: z.string(),
    source: z.string().describe("The author of the change."),
    at: time,
    seq: int.describe("The seq of the stored fact; several events may have the same seq."),
    correlation_id: z.string().describe("The job."),
    idempotency_key: z.string(),
  })
  .meta({
    id: "Event",
    example: {
      ...{ type: "node.completed", source: "worker", at: "2026-11-15T12:00:01.250Z", seq: 17179869187 },
      correlation_id: jobIdExample,
      idempotency_key: `${jobIdExample}:17179869187:2`,
      ...{ node: "price", attempt: 1, from: "RUNNING", to: "COMPLETED", payload: { output: 42 } },
    },
  })
export const eventPage = z.object({
  events: z.array(event),
  next: eg(nullableText, "17179869187.2", "The value of `after` for the next page."),
})

export const nodeConfig = named("NodeConfig", {
  node: eg(z.string(), "fetch"),
  item: eg(int.nullable(), null, "null: the node itself."),
  attempt: eg(int, 2),
  config: eg(json, { order: 17, region: "eu", token: "***" }, "As the handler got it."),
  when: eg(z.boolean().nullable(), null, "The value of `when`; null: the node has none."),
  items: eg(int.nullable(), null, "For a node with for_each: the number of its items."),
  seq: eg(int, 17179869187, "The last fact before the attempt."),
  error: z
    .object({ code: z.string(), message: z.string() })
    .nullable()
    .describe("Why the config cannot be rendered."),
})
