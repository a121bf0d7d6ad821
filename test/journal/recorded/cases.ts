import type { JsonObject } from "../../../src/core/json.ts"
import type { PipelineDefinition } from "../../../src/definition/pipeline/schema.ts"
import type { NodeDefinition, WorkflowDefinition } from "../../../src/definition/shape/schema.ts"

/** The workflows of a recorded database. A job has the name of its case as label `case`. */

/** `before` has completed when the process dies, `work` has not, and `after` shows the result of `work`. */
const around = (
  name: string,
  work: Omit<NodeDefinition, "id">,
  rest: Partial<WorkflowDefinition> = {},
): WorkflowDefinition => ({
  name,
  nodes: [
    { id: "before", handler: "step" },
    { id: "work", dependencies: ["before"], ...work },
    { id: "after", handler: "step", config: { from: "{{ work }}" } },
  ],
  ...rest,
})

const inAnHour = { max_attempts: 3, initial_seconds: 3600, max_seconds: 3600, jitter: 0 }
const external = (provider: string, operation: string) => ({
  handler: "external",
  provider,
  config: { operation },
})
const signal = (config: JsonObject = {}) => ({
  handler: "wait_for_signal",
  config: { signal: "go", ...config },
})
const child = (workflow: string) => ({ handler: "workflow", config: { workflow } })
const once = { max_attempts: 1 }

export const children = [
  around("child-signal", signal()),
  around("child-running", { handler: "hang" }),
  around("child-failing", { handler: "flaky", retry: once }),
  {
    name: "child-ending",
    nodes: [
      { id: "before", handler: "step" },
      { id: "last", handler: "last", dependencies: ["before"] },
    ],
  },
]

const pipeline = (name: string, numbers: readonly number[]): PipelineDefinition => ({
  name,
  init: numbers.map(number => ({ body: { number } })),
  routes: [
    {
      name: "work",
      inbound: "numbers",
      adapters: [{ type: "number" }],
      outbound: "gathered",
      concurrency: 8,
      backpressure: { adaptive: false },
      error_handling: {
        retries: 3,
        backoff: { initial_seconds: 3600, max_seconds: 7200, jitter: 0 },
        circuit_breaker: false,
      },
    },
    {
      name: "gather",
      inbound: "gathered",
      adapters: [{ type: "batch", config: { count: 5, seconds: 7200 } }, { type: "sum" }],
    },
  ],
})

/** Its messages 1 to 6: done, done, a dead letter, to be retried, in hand, in hand. */
export const running = pipeline("numbers", [1, 2, 3, 4, 5, 6])
/** Drains with one dead letter. */
const drained = pipeline("drained", [1, 2, 3, 1, 2, 1])

/** Jobs that the first life leaves running; the second one resumes them, and dies too. */
export const first = { lost: around("lost", { handler: "hang" }) }

/** Jobs that are unfinished when the second life dies. */
export const unfinished: Record<string, WorkflowDefinition | PipelineDefinition> = {
  running: around("running", { handler: "hang" }),
  retrying: around("retrying", { handler: "flaky", retry: inAnHour }),
  sleeping: around("sleeping", { handler: "sleep", config: { seconds: 3600 } }),
  signal: around("signal", signal()),
  "signal-default": around("signal-default", signal({ timeout_seconds: 3600, default: { ok: false } })),
  "signal-too-late": around("signal-too-late", signal({ timeout_seconds: 3600 })),
  "signal-buffered": {
    name: "signal-buffered",
    nodes: [
      { id: "before", handler: "hang" },
      { id: "work", dependencies: ["before"], ...signal() },
      { id: "after", handler: "step", config: { from: "{{ work }}" } },
    ],
  },
  expiring: around("expiring", signal(), { ttl_seconds: 3600 }),
  webhook: around("webhook", external("acme", "op-webhook")),
  poll: around("poll", external("polled", "op-poll")),
  preview: around("preview", external("showing", "op-preview")),
  "operation-failed": around("operation-failed", { ...external("acme", "op-failed"), retry: inAnHour }),
  submitting: around("submitting", external("slow", "op-early")),
  "slot-held": around("slot-held", external("narrow", "op-held")),
  "slot-granted": around("slot-granted", external("narrow", "op-granted")),
  "slot-awaited": around("slot-awaited", external("narrow", "op-awaited")),
  "child-signal": around("parent-signal", child("child-signal")),
  "child-running": around("parent-running", child("child-running")),
  "child-failed": around("parent-failed", { ...child("child-failing"), retry: inAnHour }),
  "child-ended": around("parent-ended", child("child-ending")),
  items: around("items", {
    handler: "item",
    for_each: [0, 1, 2, 3, 4, 5],
    max_parallel: 3,
    config: { item: "{{ item }}" },
    retry: inAnHour,
  }),
  "items-external": around("items-external", {
    ...external("acme", "op-item-{{ item }}"),
    for_each: [0, 1, 2],
  }),
  "items-children": around("items-children", { ...child("child-signal"), for_each: [0, 1] }),
  "no-handler": around("no-handler", { handler: "later" }),
  "no-provider": around("no-provider", external("absent", "op-absent")),
  "deleted-workflow": around("deleted-workflow", { handler: "sleep", config: { seconds: 3600 } }),
  "pipeline-running": running,
  "pipeline-node": around("pipeline-node", { handler: "pipeline", config: { pipeline: "numbers" } }),
  "webhook-unread": around("webhook-unread", external("acme", "op-unread")),
  "signal-unread": around("signal-unread", signal()),
  "cancel-unread": around("cancel-unread", signal()),
}

/** Jobs that have ended, with the states they ended in. */
export const ended: Record<string, readonly [WorkflowDefinition | PipelineDefinition, string]> = {
  completed: [around("completed", { handler: "step", config: { text: "as it was" } }), "COMPLETED"],
  large: [around("large", { handler: "large" }), "COMPLETED"],
  skipped: [around("skipped", { handler: "step", when: "{{ input.case == 'another' }}" }), "COMPLETED"],
  failed: [around("failed", { handler: "flaky", retry: once }), "FAILED"],
  declined: [around("declined", { handler: "declined" }), "FAILED"],
  expired: [around("expired", signal(), { ttl_seconds: 1 }), "EXPIRED"],
  "pipeline-drained": [drained, "COMPLETED"],
  "retry-unread": [around("retry-unread", { handler: "flaky", retry: once }), "FAILED"],
  "delete-unread": [around("delete-unread", { handler: "step" }), "COMPLETED"],
}

/** Jobs that are cancelled while they run. */
export const cancelled = {
  cancelled: around("cancelled", { handler: "hang" }),
  "cancelled-operation": around("cancelled-operation", external("acme", "op-cancelled")),
  "cancelled-parent": around("cancelled-parent", child("child-signal")),
}

/** Submitted when no engine is left. */
export const unread = {
  "submit-unread": around("submit-unread", { handler: "step", config: { text: "new" } }),
}

/** Two versions of one workflow. */
export const versioned = [1, 2].map(text => around("versioned", { handler: "step", config: { text } }))

/** The texts of two tokens, of which the second one is revoked. */
export const tokens = ["A", "B"].map(letter => `umbra_${letter.repeat(43)}`)
