/** The shadow graph of a job, its nodes, their items, and what happened, as answers show them. */
import { z } from "zod"
import { route } from "./route-schema.ts"
import { jobIdExample, json, time } from "./schema.ts"

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

const nodeExample = {
  id: "price",
  handler: "call_external_service",
  status: "QUEUED",
  attempt: 2,
  tries: 1,
  losses: 0,
  incoming: 0,
  queued_at: "2026-11-15T12:00:00.000Z",
  started_at: null,
  finished_at: null,
  worker: null,
  waiting_on: { kind: "retry", at: "2026-11-15T12:00:15.000Z" },
  error: { code: "E410", message: "it answered 500" },
  progress: null,
}

const node = z
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
      .meta({
        description:
          "Why the node does not run right now: `nodes` it depends on, a retry `at`, a timer `until`, a signal's `name`, a provider's `external_id` and `next_poll_at`, a slot's `provider` and `position`, a child's `job_id`, `waiting` items, a worker with the `handler`; of a pipeline also the `adapters` that its process lacks, and `redis` if it lacks that.",
      }),
    error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
    items: z
      .looseObject({ total: z.number().int() })
      .optional()
      .meta({ description: "Of a node with for_each: how many of its items are in each state." }),
  })
  .meta({ id: "Node", examples: [nodeExample] })

export const nodeWithOutput = node.extend({ output: json }).meta({
  examples: [
    {
      ...nodeExample,
      ...{ status: "COMPLETED", finished_at: "2026-11-15T12:00:16.000Z", waiting_on: null, error: null },
      output: 42,
    },
  ],
})

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
    unseen_operations: z
      .array(
        z.object({
          node: z.string(),
          item: z.number().int().optional(),
          provider: z.string(),
          since: time,
          held_until: time.meta({ description: "Until when it holds a slot of its provider." }),
        }),
      )
      .optional()
      .meta({
        description:
          "Operations that may be running at a provider, whose id nobody knows: the job ended while the submission was in flight.",
      }),
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
    source: z.string().meta({ description: "Who made it happen." }),
    at: time,
    seq: z.number().int().meta({ description: "Of what is stored; several events may have the same." }),
    correlation_id: z.string().meta({ description: "The job." }),
    idempotency_key: z.string(),
  })
  .meta({ id: "Event", examples: [eventExample] })

export const eventPage = z
  .object({
    events: z.array(event),
    next: z.string().nullable().meta({ description: "`after` of the next page." }),
  })
  .meta({ examples: [{ events: [eventExample], next: "17179869187.2" }] })
