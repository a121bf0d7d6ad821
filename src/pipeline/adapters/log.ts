/** `log`: writes a line about the message to the log. The message continues unchanged. */
import { z } from "zod"
import { cut } from "../../core/faults.ts"
import { defineAdapter } from "../adapter.ts"

export const log = defineAdapter({
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
