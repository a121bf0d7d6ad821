/**
 * The inputs and outputs of the built-in handlers: the schemas that definitions are checked against, that
 * types are inferred from and that are documented. Unknown keys are rejected everywhere, so that a misspelt
 * one is not ignored.
 */
import { z } from "zod"
import type { HandlerSpec } from "../../definition/handler.ts"
import { callExternalServiceSpec } from "./call-external-service-spec.ts"
import { llmServiceSpec } from "./llm-service-spec.ts"

export { callExternalServiceSpec, llmServiceSpec }

/** The node's output is the job's input. */
export const inputSpec = {
  name: "input",
  config: z.strictObject({}).optional(),
  output: z.unknown(),
} satisfies HandlerSpec

/** The node's output is its config, or the outputs of its parents by id where it has none. */
export const outputSpec = {
  name: "output",
  config: z.record(z.string(), z.unknown()).optional(),
  output: z.unknown(),
  storesConfig: true,
} satisfies HandlerSpec

/** The node's output is the rendered value, of any type. */
export const transformSpec = {
  name: "transform",
  config: z.strictObject({ value: z.unknown().describe("The output, of any type.") }),
  output: z.unknown(),
  storesConfig: true,
} satisfies HandlerSpec

const hundredYears = 3_155_760_000

/** Waits without holding a worker, across restarts. */
export const sleepSpec = {
  name: "sleep",
  config: z
    .strictObject({
      seconds: z
        .number()
        .min(0)
        .max(hundredYears)
        .optional()
        .describe("The duration, from the start of the node."),
      until: z.iso
        .datetime({ offset: true })
        .optional()
        .describe(
          "The end of the wait: an ISO 8601 time with Z or an offset. A time in the past does not wait.",
        ),
    })
    .refine(({ seconds, until }) => (seconds === undefined) !== (until === undefined), {
      message: "Give either seconds or until, not both",
      path: ["seconds"],
    }),
  output: z.object({ woke_at: z.iso.datetime().describe("When the wait ended.") }),
  storesConfig: true,
} satisfies HandlerSpec

/**
 * Waits for an external event, without holding a worker: an approval, a payment, any event. The output is the
 * data of the signal. A signal that arrived before the node waited counts.
 */
export const waitForSignalSpec = {
  name: "wait_for_signal",
  config: z
    .strictObject({
      signal: z
        .string()
        .min(1)
        .max(255)
        .regex(/^[^\p{Cc}\p{Surrogate}]*$/u, "text without control characters and lone surrogates")
        .describe("The signal's name. Several nodes that wait for one name take its signals in turn."),
      timeout_seconds: z
        .number()
        .positive()
        .max(hundredYears)
        .optional()
        .describe("How long to wait, from the start of the node. Default: until the job expires."),
      default: z
        .unknown()
        .optional()
        .describe("The output if no signal arrives in time. Default: the node fails."),
    })
    .refine(config => config.default === undefined || config.timeout_seconds !== undefined, {
      message: "A default needs timeout_seconds: it is the output when that time has passed",
      path: ["default"],
    }),
  output: z.unknown(),
  storesConfig: true,
} satisfies HandlerSpec

const reference = z
  .string()
  .min(1)
  .max(300)
  .regex(/^[^\p{Cc}\p{Surrogate}]*$/u, "text without control characters and lone surrogates")
  .describe("The workflow: name, name@3 or name@stable. The version is fixed when the job begins.")
const childInput = z.unknown().optional().describe("The job's input. Default: an empty mapping.")

/** Another workflow, one with nodes, does the node's work, as a separate job; the output is that job's. */
export const workflowSpec = {
  name: "workflow",
  config: z.strictObject({ workflow: reference, input: childInput }),
  output: z.unknown(),
  storesConfig: true,
} satisfies HandlerSpec

const total = z.number().int()

/**
 * A pipeline does the node's work, as a separate job: the node waits until all messages are done or dead
 * letters.
 */
export const pipelineSpec = {
  name: "pipeline",
  config: z.strictObject({ pipeline: reference, input: childInput }),
  output: z.object({
    routes: z
      .record(
        z.string(),
        z.object({ messages: total, done: total, failed: total, failed_tries: total, dead_lettered: total }),
      )
      .describe("By route: messages received, done, failed permanently, failed deliveries, dead letters."),
  }),
  storesConfig: true,
} satisfies HandlerSpec

/**
 * The node's provider does the work; the config is the argument of its `submit`, and each provider defines
 * what it needs.
 */
export const externalSpec = {
  name: "external",
  config: z.record(z.string(), z.unknown()).optional(),
  output: z.unknown(),
  needsProvider: true,
} satisfies HandlerSpec

/** The handlers that every workflow can use without registration. */
export const builtinSpecs = [
  inputSpec,
  outputSpec,
  transformSpec,
  sleepSpec,
  waitForSignalSpec,
  workflowSpec,
  pipelineSpec,
  callExternalServiceSpec,
  llmServiceSpec,
  externalSpec,
] as const satisfies readonly HandlerSpec[]
