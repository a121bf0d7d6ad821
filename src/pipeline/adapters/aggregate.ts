/** `aggregate`: gathers messages with the same key, and reduces them to one value. */
import { z } from "zod"
import type { Json } from "../../core/json.ts"
import { defineAdapter } from "../adapter.ts"
import { gatheringConfig } from "./batch.ts"
import { getField, unfit } from "./body.ts"

const ofNumbers = ["sum", "min", "max", "avg"] as const
const reductions = ["collect", "count", ...ofNumbers, "first", "last"] as const
type OfNumbers = (typeof ofNumbers)[number]

const config = z
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
    field: z
      .string()
      .min(1)
      .optional()
      .describe(
        "The field of each message that is used (`price`, `order.price`). Default: the whole message.",
      ),
  })
  .refine(({ reduce, field }) => field !== undefined || !isOfNumbers(reduce), {
    message: "Name the field that contains the number",
    path: ["field"],
  })

export const aggregate = defineAdapter({
  type: "aggregate",
  config,
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
