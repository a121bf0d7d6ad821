/** `llm_service`: one chat completion of any endpoint with OpenAI's protocol. */
import { z } from "zod"
import type { HandlerSpec } from "../../definition/handler.ts"

const message = z.strictObject({
  role: z.enum(["system", "developer", "user", "assistant", "tool"]),
  content: z
    .union([z.string(), z.array(z.record(z.string(), z.unknown()))])
    .describe("Text, or the endpoint's own list of parts (text, image, …)."),
  name: z.string().optional(),
  tool_call_id: z.string().optional(),
})

const config = z
  .strictObject({
    base_url: z
      .url({ protocol: /^https?$/, error: "An http or https URL is required" })
      .default("https://api.openai.com/v1")
      .describe("The endpoint; /chat/completions is added. Default https://api.openai.com/v1."),
    model: z.string().min(1).describe("Which model."),
    prompt: z.string().optional().describe("The question: short for a single user message."),
    messages: z.array(message).min(1).optional().describe("The conversation so far, instead of prompt."),
    system: z.string().optional().describe("Instructions put before everything else."),
    temperature: z.number().min(0).max(2).optional().describe("Default: the endpoint's."),
    top_p: z.number().min(0).max(1).optional().describe("Default: the endpoint's."),
    max_tokens: z.int().min(1).optional().describe("At most this many tokens are generated."),
    stop: z
      .union([z.string(), z.array(z.string()).min(1).max(4)])
      .optional()
      .describe("Generation ends before this text."),
    seed: z.int().optional().describe("For endpoints with repeatable answers."),
    json: z
      .union([z.boolean(), z.record(z.string(), z.unknown())])
      .default(false)
      .describe("true: the answer must be JSON. A JSON Schema: it must also match the schema."),
    api_key: z.string().min(1).optional().describe('Sent as a bearer token; write "{{ secrets.NAME }}".'),
    headers: z.record(z.string(), z.string()).optional().describe("Further headers that the endpoint needs."),
    extra: z
      .record(z.string(), z.unknown())
      .optional()
      .describe("Further fields of the request that only this endpoint knows."),
    timeout_seconds: z
      .number()
      .positive()
      .max(86_400)
      .default(120)
      .describe("The timeout of the whole answer. Default 120."),
  })
  .refine(({ prompt, messages }) => (prompt === undefined) !== (messages === undefined), {
    message: "Give either prompt or messages, not both",
    path: ["prompt"],
  })

const output = z.object({
  text: z.string().describe("The answer."),
  json: z.unknown().optional().describe("The parsed answer, if config requested json."),
  model: z.string().describe("The model that answered, as the endpoint names it."),
  usage: z
    .object({
      prompt_tokens: z.int().min(0),
      completion_tokens: z.int().min(0),
      total_tokens: z.int().min(0),
    })
    .describe("Zeros if the endpoint does not report it."),
  finish_reason: z
    .string()
    .nullable()
    .describe("Why generation ended: stop, length, …; null if not reported."),
})

export const llmServiceSpec = { name: "llm_service", config, output, schemas: ["json"] } satisfies HandlerSpec
