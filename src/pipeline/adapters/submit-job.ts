/** `submit_job`: submits a job for each message. The message does not wait for the job's end. */
import { z } from "zod"
import type { Json } from "../../core/json.ts"
import { defineAdapter } from "../adapter.ts"
import { named } from "./body.ts"

export const submitJob = defineAdapter({
  type: "submit_job",
  config: z.strictObject({
    workflow: z.string().min(1).describe("Name, or name@version, of a stored workflow or pipeline."),
    input: z.unknown().optional().describe("The job's input. Default: the message."),
    key: z
      .string()
      .min(1)
      .optional()
      .describe("Distinguishes the jobs of one message, if it submits several of one workflow."),
    as: z
      .string()
      .min(1)
      .optional()
      .describe(
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
