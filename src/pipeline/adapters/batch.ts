/** `batch`: gathers messages by count and time; the next adapter receives the list of their bodies. */
import { z } from "zod"
import { defineAdapter } from "../adapter.ts"

export const gatheringConfig = {
  count: z.int().min(1).max(10_000).default(100).describe("So many at most, up to 10000. Default 100."),
  seconds: z
    .number()
    .positive()
    .max(86_400)
    .default(1)
    .describe("Since the first of them came; then as many as there are. Default 1."),
}

export const batch = defineAdapter({
  type: "batch",
  config: z.strictObject(gatheringConfig),
  gather: ({ count, seconds }) => ({ count, seconds }),
  process: message => message.body,
})
