/** `file_sink`: appends text to a file, or writes it as a file. The message continues unchanged. */
import { z } from "zod"
import type { Json } from "../../../core/json.ts"
import type { AdapterSpec } from "../../../definition/adapter.ts"
import { defineAdapter } from "../../adapter.ts"
import type { AllowedFiles } from "./allowed.ts"
import { sinkConfig, writeOnce } from "./sink.ts"

const config = z.strictObject({
  ...sinkConfig,
  text: z
    .union([z.string(), z.array(z.string())])
    .optional()
    .describe(
      "What to write; a list is one line per item. Default: the message, unchanged if it is text, else as JSON.",
    ),
  newline: z
    .boolean()
    .default(true)
    .describe("Every line ends with a newline, including the last. Default true; false: no newlines."),
})

export const fileSinkSpec = {
  type: "file_sink",
  config,
  storesConfig: true,
  writesOnce: () => true,
} satisfies AdapterSpec

export const fileSink = (files: AllowedFiles) =>
  defineAdapter({
    ...fileSinkSpec,
    async process(message, context) {
      const { text, newline } = context.config
      const lines = text === undefined ? [asText(message.body)] : [text].flat()
      const end = newline ? "\n" : ""
      await writeOnce({ message, context, files, text: lines.map(line => `${line}${end}`).join("") })
      return message.body
    },
  })

const asText = (body: Json) => (typeof body === "string" ? body : JSON.stringify(body))
