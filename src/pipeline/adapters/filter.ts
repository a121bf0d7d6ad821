/** `filter`: the message continues, or ends here. */
import { z } from "zod"
import type { Json } from "../../core/json.ts"
import { isTruthy } from "../../template/run/values.ts"
import { defineAdapter } from "../adapter.ts"

export const filter = defineAdapter({
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
    otherwise: z
      .string()
      .min(1)
      .optional()
      .describe("The other messages are emitted with this kind. Default: they end here."),
  }),
  emits: ({ otherwise }) => (otherwise === undefined ? [] : [otherwise]),
  process(message, context) {
    const { config } = context
    if (isTruthy(config.when as Json)) return message.body
    if (config.otherwise !== undefined) context.emit(message.body, { kind: config.otherwise })
    return undefined
  },
})
