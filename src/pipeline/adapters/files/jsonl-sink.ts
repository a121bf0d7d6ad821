/** `jsonl_sink`: appends values to a file, one JSON value per line. The message continues unchanged. */
import { z } from "zod"
import type { Json } from "../../../core/json.ts"
import type { AdapterSpec } from "../../../definition/adapter.ts"
import { defineAdapter } from "../../adapter.ts"
import type { AllowedFiles } from "./allowed.ts"
import { sinkConfig, writeOnce } from "./sink.ts"

const config = z.strictObject({
  ...sinkConfig,
  value: z.unknown().optional().describe("What to write. Default: the message."),
  each: z
    .boolean()
    .default(true)
    .describe("A list becomes one line per item. Default true; false: one line."),
})

export const jsonlSinkSpec = {
  type: "jsonl_sink",
  config,
  storesConfig: true,
  writesOnce: () => true,
} satisfies AdapterSpec

export const jsonlSink = (files: AllowedFiles) =>
  defineAdapter({
    ...jsonlSinkSpec,
    async process(message, context) {
      const { value, each } = context.config
      const given = value === undefined ? message.body : (value as Json)
      const values: readonly Json[] = each && Array.isArray(given) ? given : [given]
      const text = values.map(each => `${JSON.stringify(each)}\n`).join("")
      await writeOnce({ message, context, files, text })
      return message.body
    },
  })
