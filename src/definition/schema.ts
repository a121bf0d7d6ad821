/**
 * The one statement of a workflow document's shape. Validation, the types and the editors' JSON Schema all come
 * from here. Optional keys may also be null, which means the same as leaving them out: a YAML key with nothing
 * behind it, or a serialiser that writes every field.
 */
import { z } from "zod"
import type { RetryPolicy } from "../core/plan.ts"
import { idPattern } from "./names.ts"

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

/** A hundred years. Timers beyond it are a mistake, and would overflow a date. */
const maxSeconds = 3_155_760_000

const seconds = (what: string) => z.number().positive().max(maxSeconds).describe(what)
/** Names are stored and compared as text, which holds no control character and no half of a character. */
const label = (what: string) =>
  z
    .string()
    .min(1)
    .max(200)
    .regex(/^[^\p{Cc}\p{Surrogate}]*$/u, "text without control characters and halves of characters")
    .describe(what)

const retrySchema = z
  .strictObject({
    max_attempts: z
      .int()
      .min(1)
      .max(1000)
      .nullish()
      .describe(`Tries in all, the first included. Default ${retryDefaults.max_attempts}.`),
    initial_seconds: z
      .number()
      .min(0)
      .max(maxSeconds)
      .nullish()
      .describe(`Wait before the second try. Default ${retryDefaults.initial_seconds}.`),
    max_seconds: z
      .number()
      .min(0)
      .max(maxSeconds)
      .nullish()
      .describe(`No wait is longer. Default ${retryDefaults.max_seconds}.`),
    multiplier: z
      .number()
      .min(1)
      .max(100)
      .nullish()
      .describe(`Each wait is this many times the one before. Default ${retryDefaults.multiplier}.`),
    jitter: z
      .number()
      .min(0)
      .max(1)
      .nullish()
      .describe(`Share of the wait that is random, 0 to 1. Default ${retryDefaults.jitter}.`),
  })
  .describe("What happens when the node fails in a way that may pass.")

export const retryKeys: readonly string[] = retrySchema.keyof().options

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
  retry: retrySchema.nullish(),
  when: z
    .union([z.boolean(), z.string()])
    .nullish()
    .describe("A template; if it yields false the node is skipped. Default true."),
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
  $schema: z.string().nullish().describe("For editors; not part of the workflow."),
  name: label("Name of the workflow."),
  description: z.string().max(10_000).nullish(),
  input: z
    .record(z.string(), z.unknown())
    .nullish()
    .describe("JSON Schema (2020-12) of the job's input. Defaults in it are applied."),
  output: z.unknown().optional().describe("Template of the job's output, of any shape."),
  ttl_seconds: seconds("A job that is not done by then becomes EXPIRED.").nullish(),
}

export const workflowSchema = z
  .strictObject({ ...workflowFields, nodes: z.array(nodeSchema) })
  .meta({ title: "Umbra workflow" })

/** The same without a look into the nodes: those are checked one by one, so that each has its own messages. */
export const headSchema = z.strictObject({ ...workflowFields, nodes: z.array(z.unknown()) })

export type WorkflowDefinition = z.input<typeof workflowSchema>
export type NodeDefinition = z.input<typeof nodeSchema>
export type RetryDefinition = z.input<typeof retrySchema>

/** The JSON Schema that editors use. */
export function workflowJsonSchema(): Record<string, unknown> {
  return z.toJSONSchema(workflowSchema, { target: "draft-2020-12", io: "input" }) as Record<string, unknown>
}
