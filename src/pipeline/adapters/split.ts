/** `split`: emits a message for each item of a list. */
import { z } from "zod"
import type { Json } from "../../core/json.ts"
import { defineAdapter, type Emission, emission } from "../adapter.ts"
import { named, unfit } from "./body.ts"

export const split = defineAdapter({
  type: "split",
  config: z.strictObject({
    items: z.unknown().optional().describe("The list. Default: the message itself."),
    kind: z
      .string()
      .min(1)
      .default("default")
      .describe('The kind of the emitted messages. Default "default".'),
    as: z
      .string()
      .min(1)
      .optional()
      .describe(
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
