/**
 * The one statement of the shape of a document with nodes (those with routes: pipeline/schema.ts). Validation, the
 * types and the editors' JSON Schema all come from here. Optional keys may also be null, which means the same as leaving
 * them out: a YAML key with nothing behind it, or a serialiser that writes every field.
 */
import { z } from "zod"
import type { RetryPolicy } from "../../core/plan.ts"
import { idPattern } from "../names.ts"
import { backoffFields, documentFields, label, seconds } from "./fields.ts"

/** What `retry` means where it is left out: waits of 15 s and 30 s, each shortened by up to a tenth at random. */
export const retryDefaults = Object.freeze({
  max_attempts: 3,
  initial_seconds: 15,
  max_seconds: 300,
  multiplier: 2,
  jitter: 0.1,
})

export const defaultRetryPolicy: RetryPolicy = Object.freeze({
  maxAttempts: retryDefaults.max_attempts,
  initialSeconds: retryDefaults.initial_seconds,
  maxSeconds: retryDefaults.max_seconds,
  multiplier: retryDefaults.multiplier,
  jitter: retryDefaults.jitter,
})

const retrySchema = z
  .strictObject({
    max_attempts: z
      .int()
      .min(1)
      .max(1000)
      .nullish()
      .describe(`Tries in all, the first included. Default ${retryDefaults.max_attempts}.`),
    ...backoffFields(retryDefaults),
  })
  .describe("What happens when the node fails in a way that may pass.")

export const nodeSchema = z.strictObject({
  id: z
    .string()
    .regex(idPattern)
    .describe('Unique name of the node. An id with a hyphen is read in templates as nodes["my-id"].'),
  handler: label("Name of the handler that does the node's work."),
  config: z
    .record(z.string(), z.unknown())
    .nullish()
    .describe("What the handler gets. Strings may hold templates."),
  dependencies: z
    .array(z.string())
    .nullish()
    .describe("Ids of nodes that must be done first. Nodes read by templates need not be listed."),
  timeout_seconds: seconds("An attempt that takes longer is aborted and fails.").nullish(),
  heartbeat_seconds: seconds(
    "An attempt whose handler sends no heartbeat (ctx.heartbeat()) for so long is aborted and fails.",
  ).nullish(),
  retry: retrySchema.nullish(),
  when: z
    .union([z.boolean(), z.string()])
    .nullish()
    .describe('One expression, "{{ … }}"; if it yields false the node is skipped. Default true.'),
  provider: label("External service whose slots and rate limit the node uses.").nullish(),
  for_each: z
    .union([z.string(), z.array(z.unknown())])
    .nullish()
    .describe("A list, or a template that yields one: the node runs once per item, as `item` and `index`."),
  max_parallel: z.int().min(1).max(100_000).nullish().describe("Items of `for_each` that may run at once."),
  fail_fast: z
    .boolean()
    .nullish()
    .describe(
      "false: when an item of `for_each` fails, the others go on, and the node fails when all have ended. Default true.",
    ),
})

const workflowFields = {
  ...documentFields,
  output: z.unknown().optional().describe("Template of the job's output, of any shape."),
}

export const workflowSchema = z
  .strictObject({ ...workflowFields, nodes: z.array(nodeSchema) })
  .meta({ title: "Umbra workflow" })

/** The same without a look into the nodes: those are checked one by one, so that each has its own messages. */
export const headSchema = z.strictObject({ ...workflowFields, nodes: z.array(z.unknown()) })

export type WorkflowDefinition = z.input<typeof workflowSchema>
export type NodeDefinition = z.input<typeof nodeSchema>
export type RetryDefinition = z.input<typeof retrySchema>
