/** `transform`: replaces the message by the rendered value, of any type. */
import { z } from "zod"
import type { Json } from "../../core/json.ts"
import { defineAdapter } from "../adapter.ts"

export const transform = defineAdapter({
  type: "transform",
  config: z.strictObject({ value: z.unknown().describe("The message for the next adapter, of any type.") }),
  storesConfig: true,
  process: (_, { config }) => config.value as Json,
})
