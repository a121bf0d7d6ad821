/** The adapters that need nothing but the message. */
import { z } from "zod"
import { cut } from "../../core/faults.ts"
import type { Json } from "../../core/json.ts"
import { integerField, secondsField } from "../../definition/config-fields.ts"
import { isTruthy } from "../../template/run/values.ts"
import { defineBuiltInAdapter, type Emission, emission } from "../adapter.ts"
import { getField, named, optionalName, unfit } from "./body.ts"

/** `transform`: replaces the message by the rendered value, of any type. */
export const transform = defineBuiltInAdapter({
  type: "transform",
  config: z.strictObject({ value: z.unknown().describe("The message for the next adapter, of any type.") }),
  storesConfig: true,
  process: (_, { config }) => config.value as Json,
})

/** `filter`: the message continues, or ends here. */
export const filter = defineBuiltInAdapter({
  type: "filter",
  config: z.strictObject({
    when: z
      .unknown()
      .superRefine((value, context) => {
        if (typeof value !== "string") return
        const message =
          "Text is not a condition. Write one expression that yields true or false, such as \"{{ message.kind == 'order' }}\""
        context.addIssue({ code: "invalid_type", expected: "boolean", input: value, message })
      })
      .describe(
        "The message continues if this is true: not null, false, 0, an empty list or mapping. Text is rejected.",
      ),
    otherwise: optionalName("The other messages are emitted with this kind. Default: they end here."),
  }),
  emits: ({ otherwise }) => (otherwise === undefined ? [] : [otherwise]),
  process(message, context) {
    const { config } = context
    if (isTruthy(config.when as Json)) return message.body
    if (config.otherwise !== undefined) context.emit(message.body, { kind: config.otherwise })
    return undefined
  },
})

/** `split`: emits a message for each item of a list. */
export const split = defineBuiltInAdapter({
  type: "split",
  config: z.strictObject({
    items: z.unknown().optional().describe("The list. Default: the message itself."),
    kind: z
      .string()
      .min(1)
      .default("default")
      .describe('The kind of the emitted messages. Default "default".'),
    as: optionalName(
      "Each emitted message is the message with the item under this name. Default: the item alone.",
    ),
    max_items: z.int().min(1).default(10_000).describe("A longer list fails the message. Default 10000."),
  }),
  storesConfig: true,
  emits: ({ kind = "default" }) => [kind],
  *process(message, { config }): Generator<Emission> {
    const items = config.items === undefined ? message.body : (config.items as Json)
    if (!Array.isArray(items)) throw unfit("split needs a list, not", items)
    if (items.length > config.max_items) {
      throw unfit(`The list is longer than max_items (${config.max_items}): it has`, items.length)
    }
    for (const item of items) yield emission(named(message, config.as, item), { kind: config.kind })
  },
})

/** `batch`: gathers messages by count and time; the next adapter receives the list of their bodies. */
const gatheringConfig = {
  count: integerField(10_000, 100, "The most messages in one group, up to 10000. Default 100."),
  seconds: secondsField(
    86_400,
    1,
    "The longest wait after the first message of a group; then the group is complete as it is. Default 1.",
  ),
}

export const batch = defineBuiltInAdapter({
  type: "batch",
  config: z.strictObject(gatheringConfig),
  gather: ({ count, seconds }) => ({ count, seconds }),
  process: message => message.body,
})

/** `log`: writes a line about the message to the log. The message continues unchanged. */
export const log = defineBuiltInAdapter({
  type: "log",
  config: z.strictObject({
    level: z.enum(["debug", "info", "warn", "error"]).default("info").describe("Default info."),
    message: z.string().default("message").describe('The text of the log line. Default "message".'),
    fields: z
      .record(z.string(), z.unknown())
      .optional()
      .describe("The fields of the log line. Default: the message's body, as text."),
    max_characters: z
      .int()
      .min(1)
      .default(2_000)
      .describe("A longer body is truncated to this length. Default 2000."),
  }),
  storesConfig: true,
  process(message, { config, log }) {
    const { level, fields, max_characters } = config
    log[level](fields ?? { body: cut(JSON.stringify(message.body), max_characters) }, config.message)
    return message.body
  },
})

/** `submit_job`: submits a job for each message. The message does not wait for the job's end. */
export const submitJob = defineBuiltInAdapter({
  type: "submit_job",
  config: z.strictObject({
    workflow: z.string().min(1).describe("Name, or name@version, of a stored workflow or pipeline."),
    input: z.unknown().optional().describe("The job's input. Default: the message."),
    key: optionalName("Distinguishes the jobs of one message, if it submits several of one workflow."),
    as: optionalName(
      "The job's id is added to the message under this name. Default: { job_id } replaces the message.",
    ),
  }),
  storesConfig: true,
  needsEngine: true,
  async process(message, context) {
    const { config } = context
    const input = config.input === undefined ? message.body : (config.input as Json)
    const id = await context.submit(config.workflow, input, { key: config.key })
    return config.as === undefined ? { job_id: id } : named(message, config.as, id)
  },
})

/** `aggregate`: gathers messages with the same key, and reduces them to one value. */
const ofNumbers = ["sum", "min", "max", "avg"] as const
const reductions = ["collect", "count", ...ofNumbers, "first", "last"] as const
type OfNumbers = (typeof ofNumbers)[number]

const aggregateConfig = z
  .strictObject({
    ...gatheringConfig,
    key: z
      .union([z.string(), z.number(), z.boolean(), z.null()])
      .default(null)
      .describe("Messages with different keys are gathered separately. Default: all together."),
    reduce: z
      .enum(reductions)
      .default("collect")
      .describe("How they are combined: collect (their list), count, sum, min, max, avg, first or last."),
    field: optionalName(
      "The field of each message that is used (`price`, `order.price`). Default: the whole message.",
    ),
  })
  .refine(({ reduce, field }) => field !== undefined || !isOfNumbers(reduce), {
    message: "Name the field that contains the number",
    path: ["field"],
  })

export const aggregate = defineBuiltInAdapter({
  type: "aggregate",
  config: aggregateConfig,
  storesConfig: true,
  gather: ({ count, seconds, key }) => ({ count, seconds, key: JSON.stringify(key) }),
  process(message, { config: { key, reduce, field } }) {
    const bodies = message.body
    if (!Array.isArray(bodies)) throw unfit("aggregate needs the list of the gathered messages, not", bodies)
    return { key, count: bodies.length, value: valueFrom(reduce, field, bodies) }
  },
})

function valueFrom(
  reduce: (typeof reductions)[number],
  field: string | undefined,
  bodies: readonly Json[],
): Json {
  if (reduce === "count") return bodies.length
  if (isOfNumbers(reduce)) return reduced(reduce, numbersIn(field ?? "", bodies))
  const values = field === undefined ? bodies : bodies.map(body => getField(body, field) ?? null)
  if (reduce === "collect") return values
  return values.at(reduce === "first" ? 0 : -1) ?? null
}

function isOfNumbers(reduce: string): reduce is OfNumbers {
  return (ofNumbers as readonly string[]).includes(reduce)
}

function numbersIn(field: string, bodies: readonly Json[]): number[] {
  return bodies.map((body, index) => {
    const value = getField(body, field)
    if (typeof value === "number") return value
    throw unfit(`"${field}" must be a number; in gathered message ${index + 1} it is`, value ?? null)
  })
}

function reduced(reduce: OfNumbers, numbers: readonly number[]): number {
  const sum = () => numbers.reduce((total, each) => total + each, 0)
  if (reduce === "sum") return sum()
  if (reduce === "avg") return sum() / numbers.length
  return numbers.reduce((a, b) => (reduce === "min" ? Math.min(a, b) : Math.max(a, b)))
}
