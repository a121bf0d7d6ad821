/**
 * The definition of the shape of a document with nodes (those with routes: pipeline/schema.ts). Validation, the types and
 * the JSON Schema for editors are derived from it. Optional keys may also be null, which means the same as leaving them
 * out: a YAML key without a value, or a serialiser that writes every field.
 */
import { z } from "zod"
import type { RetryPolicy } from "../../core/plan.ts"
import { idPattern } from "../names.ts"
import { pipelineSchema } from "../pipeline/schema.ts"
import { anyMapping, backoffFields, count, documentFields, flag, label, seconds } from "./fields.ts"

/** The defaults of `retry`: waits of 15 s and 30 s, each shortened by up to a tenth at random. */
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
    max_attempts: count(
      `Largest number of attempts, including the first. Default ${retryDefaults.max_attempts}.`,
      { max: 1000 },
    ),
    ...backoffFields(retryDefaults),
  })
  .describe("What happens when the node fails with a retryable error.")

export const nodeSchema = z.strictObject({
  id: z
    .string()
    .regex(idPattern)
    .describe('Unique name of the node. An id with a hyphen is read in templates as nodes["my-id"].'),
  handler: label("Name of the handler that does the node's work."),
  config: anyMapping("The handler's configuration. Strings may contain templates."),
  dependencies: z
    .array(z.string())
    .nullish()
    .describe("Ids of nodes that must be done first. Nodes read by templates need not be listed."),
  timeout_seconds: seconds("An attempt that takes longer is aborted and fails.").nullish(),
  heartbeat_seconds: seconds(
    "An attempt is aborted and fails if its handler sends no heartbeat (ctx.heartbeat()) for this time.",
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
  max_parallel: count("Items of `for_each` that may run at the same time.", { max: 100_000 }),
  fail_fast: flag(
    "false: when an item of `for_each` fails, the others continue, and the node fails when all have ended. Default true.",
  ),
})

const workflowFields = {
  ...documentFields,
  output: z.unknown().optional().describe("Template of the job's output, of any shape."),
}

export const workflowSchema = z
  .strictObject({ ...workflowFields, nodes: z.array(nodeSchema) })
  .meta({ title: "Umbra workflow" })

/** The same without the nodes: they are checked one by one, so that each has its own messages. */
export const headSchema = z.strictObject({ ...workflowFields, nodes: z.array(z.unknown()) })

export type WorkflowDefinition = z.input<typeof workflowSchema>
export type NodeDefinition = z.input<typeof nodeSchema>
export type RetryDefinition = z.input<typeof retrySchema>

/** The JSON Schema for editors: `routes` decides the kind of document, so problems refer to one kind only. */
export function workflowJsonSchema(): Record<string, unknown> {
  const { $schema, ...workflow } = toJsonSchema(workflowSchema)
  const { $schema: _, ...pipeline } = toJsonSchema(pipelineSchema)
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  return { $schema, title: "Umbra workflow", if: { required: ["routes"] }, then: pipeline, else: workflow }
}

function toJsonSchema(schema: z.ZodType): Record<string, unknown> {
  return z.toJSONSchema(schema, { target: "draft-2020-12", io: "input" }) as Record<string, unknown>
}
