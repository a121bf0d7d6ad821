/** `batch`: gathers messages by count and time; the next adapter receives the list of their bodies. */
import { z } from "zod"
import { defineAdapter } from "../adapter.ts"

export const gatheringConfig = {
  count: z
    .int()
    .min(1)
    .max(10_000)
    .default(100)
    .describe("The most messages in one group, up to 10000. Default 100."),
  seconds: z
    .number()
    .positive()
    .max(86_400)
    .default(1)
    .describe(
      "The longest wait after the first message of a group; then the group is complete as it is. Default 1.",
    ),
}

export const batch = defineAdapter({
  type: "batch",
  config: z.strictObject(gatheringConfig),
  gather: ({ count, seconds }) => ({ count, seconds }),
  process: message => message.body,
})
