/**
 * The inputs and outputs of the built-in handlers: the schemas that definitions are checked against, that
 * types are inferred from and that are documented. Unknown keys are rejected everywhere, so that a misspelt
 * one is not ignored.
 */
import { z } from "zod"
import { integerField, secondsField } from "../../definition/config-fields.ts"
import type { HandlerSpec } from "../../definition/handler.ts"

const httpUrl = z.url({ protocol: /^https?$/, error: "An http or https URL is required" })

const plainText = (longest: number) =>
  z
    .string()
    .min(1)
    .max(longest)
    .regex(/^[^\p{Cc}\p{Surrogate}]*$/u, "text without control characters and lone surrogates")

/** The node's output is the job's input. */
export const inputSpec = {
  name: "input",
  effects: false,
  config: z.strictObject({}).optional(),
  output: z.unknown(),
} satisfies HandlerSpec

/** The node's output is its config, or the outputs of its parents by id where it has none. */
export const outputSpec = {
  name: "output",
  effects: false,
  readsInput: false,
  config: z.record(z.string(), z.unknown()).optional(),
  output: z.unknown(),
  storesConfig: true,
} satisfies HandlerSpec

/** The node's output is the rendered value, of any type. */
export const transformSpec = {
  name: "transform",
  effects: false,
  readsInput: false,
  config: z.strictObject({ value: z.unknown().describe("The output, of any type.") }),
  output: z.unknown(),
  storesConfig: true,
} satisfies HandlerSpec

const hundredYears = 3_155_760_000

/** Waits without holding a worker, across restarts. */
export const sleepSpec = {
  name: "sleep",
  effects: false,
  readsInput: false,
  config: z
    .strictObject({
      seconds: z
        .number()
        .min(0)
        .max(hundredYears)
        .optional()
        .describe("The duration, from the start of the node."),
      until: z.iso
        .datetime({ offset: true })
        .optional()
        .describe(
          "The end of the wait: an ISO 8601 time with Z or an offset. A time in the past does not wait.",
        ),
    })
    .refine(({ seconds, until }) => (seconds === undefined) !== (until === undefined), {
      message: "Give either seconds or until, not both",
      path: ["seconds"],
    }),
  output: z.object({ woke_at: z.iso.datetime().describe("When the wait ended.") }),
  storesConfig: true,
} satisfies HandlerSpec

/**
 * Waits for an external event, without holding a worker: an approval, a payment, any event. The output is the
 * data of the signal. A signal that arrived before the node waited counts.
 */
export const waitForSignalSpec = {
  name: "wait_for_signal",
  effects: false,
  readsInput: false,
  config: z
    .strictObject({
      signal: plainText(255).describe(
        "The signal's name. Several nodes that wait for one name take its signals in turn.",
      ),
      timeout_seconds: z
        .number()
        .positive()
        .max(hundredYears)
        .optional()
        .describe("How long to wait, from the start of the node. Default: until the job expires."),
      default: z
        .unknown()
        .optional()
        .describe("The output if no signal arrives in time. Default: the node fails."),
      schema: z
        .record(z.string(), z.unknown())
        .optional()
        .describe(
          "JSON Schema (2020-12) of the signal's data. Other data is rejected, defaults in it are applied, and the dashboard makes a form from it. Neither it nor `signal` may contain templates then.",
        ),
    })
    .refine(config => config.default === undefined || config.timeout_seconds !== undefined, {
      message: "A default needs timeout_seconds: it is the output when that time has passed",
      path: ["default"],
    }),
  output: z.unknown(),
  storesConfig: true,
  schemas: ["schema"],
  signal: { name: "signal", schema: "schema" },
} satisfies HandlerSpec

const reference = plainText(300).describe(
  "The workflow: name, name@3 or name@stable. The version is fixed when the job begins.",
)
const childInput = z.unknown().optional().describe("The job's input. Default: an empty mapping.")

/** Another workflow, one with nodes, does the node's work, as a separate job; the output is that job's. */
export const workflowSpec = {
  name: "workflow",
  readsInput: false,
  config: z.strictObject({ workflow: reference, input: childInput }),
  output: z.unknown(),
  storesConfig: true,
} satisfies HandlerSpec

const total = z.number().int()

/**
 * A pipeline does the node's work, as a separate job: the node waits until all messages are done or dead
 * letters.
 */
export const pipelineSpec = {
  name: "pipeline",
  readsInput: false,
  config: z.strictObject({ pipeline: reference, input: childInput }),
  output: z.object({
    routes: z
      .record(
        z.string(),
        z.object({ messages: total, done: total, failed: total, failed_tries: total, dead_lettered: total }),
      )
      .describe("By route: messages received, done, failed permanently, failed deliveries, dead letters."),
  }),
  storesConfig: true,
} satisfies HandlerSpec

/**
 * The node's provider does the work; the config is the argument of its `submit`, and each provider defines
 * what it needs.
 */
export const externalSpec = {
  name: "external",
  readsInput: false,
  config: z.record(z.string(), z.unknown()).optional(),
  output: z.unknown(),
  needsProvider: true,
} satisfies HandlerSpec

/** `call_external_service`: one HTTP request. */
const MAX_BODY = 16 * 1024 * 1024
/** No artifact is larger than `artifact_max_bytes` anyway. */
const MAX_CONTENT = 2 ** 40
const artifactName = plainText(200)
const status = z.int().min(100).max(599)
/** The type of a query parameter or header; a number is written as text. */
const scalar = z.union([z.string(), z.number(), z.boolean()])

export const requestConfig = z
  .strictObject({
    method: z
      .enum(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
      .default("GET")
      .describe("Default GET."),
    url: httpUrl.describe("The URL, http or https."),
    headers: z.record(z.string(), scalar).optional().describe("Headers besides those set for the body."),
    query: z
      .record(z.string(), z.union([scalar, z.array(scalar).max(1000)]))
      .optional()
      .describe("Parameters added to the URL; a list repeats its parameter."),
    json: z.unknown().optional().describe("A body of any shape, sent as application/json."),
    text: z
      .string()
      .optional()
      .describe("A body sent unchanged, as text/plain unless a header sets another type."),
    expected_status: z
      .union([status, z.array(status).min(1).max(1000)])
      .optional()
      .describe("Statuses that mean success; any other fails the attempt. Default: 200 to 299."),
    timeout_seconds: secondsField(
      86_400,
      30,
      "The timeout of the whole request, including the body. Default 30.",
    ),
    follow_redirects: z
      .union([z.boolean(), z.int().min(0).max(20)])
      .default(true)
      .describe("Whether to follow redirects, or how many; true means 5. Each address is checked again."),
    max_response_bytes: integerField(
      MAX_BODY,
      10 * 1024 * 1024,
      "A longer body fails the attempt. Default 10 MiB.",
    ),
  })
  .refine(({ json, text }) => json === undefined || text === undefined, {
    message: "Give json or text, not both",
    path: ["text"],
  })

const savingConfig = requestConfig
  .safeExtend({
    save_as: artifactName
      .optional()
      .describe(
        "The body is stored as an artifact with this name, while it arrives, instead of in the output.",
      ),
    max_response_bytes: integerField(
      MAX_CONTENT,
      10 * 1024 * 1024,
      "A longer body fails the attempt. Default 10 MiB; at most 16 MiB without save_as.",
    ),
  })
  .refine(config => config.save_as !== undefined || config.max_response_bytes <= MAX_BODY, {
    message: "Without save_as it is at most 16777216",
    path: ["max_response_bytes"],
  })

const requestOutput = z.object({
  status: z.int().describe("The response's status."),
  headers: z.record(z.string(), z.string()).describe("Its headers, names in lower case."),
  body: z
    .unknown()
    .describe(
      "Parsed if its type is JSON, otherwise text; null if there was none; with save_as the artifact.",
    ),
  encoding: z
    .enum(["json", "text", "base64", "artifact"])
    .describe("The format of body; base64 if its bytes are not text."),
})

export const callExternalServiceSpec = {
  name: "call_external_service",
  readsInput: false,
  config: savingConfig,
  output: requestOutput,
  providerHeaders: ["host"],
} satisfies HandlerSpec

/** `store_media`: content of a URL, or of a text in base64, becomes an artifact. */
const mediaConfig = z
  .strictObject({
    url: httpUrl.optional().describe("Where the content is, http or https."),
    base64: z.base64().optional().describe("The content itself, instead of a URL."),
    headers: z.record(z.string(), scalar).optional().describe("Headers of the request."),
    name: artifactName
      .optional()
      .describe("The artifact's name. Default: the last part of the URL, or media."),
    types: z
      .array(z.string().regex(/^[a-z]+\/([a-z0-9.+-]+|\*)$/, 'a type as "image/png", or "image/*"'))
      .min(1)
      .max(50)
      .default(["image/*", "video/*", "audio/*"])
      .describe("What the content may be, by its bytes. Default: images, video and audio."),
    max_bytes: integerField(MAX_CONTENT, 1024 ** 3, "Longer content fails the attempt. Default 1 GiB."),
    timeout_seconds: secondsField(86_400, 300, "The timeout of the whole download. Default 300."),
  })
  .refine(({ url, base64 }) => (url === undefined) !== (base64 === undefined), {
    message: "Give either url or base64, not both",
    path: ["url"],
  })

export const storeMediaSpec = {
  name: "store_media",
  effects: false,
  readsInput: false,
  config: mediaConfig,
  output: z.object({
    artifact: z.string().describe("The reference to the content."),
    name: z.string(),
    type: z.string().describe("The media type, by the content's first bytes."),
    bytes: z.int(),
  }),
} satisfies HandlerSpec

/** `llm_service`: one chat completion of any endpoint with OpenAI's protocol. */
const chatMessage = z.strictObject({
  role: z.enum(["system", "developer", "user", "assistant", "tool"]),
  content: z
    .union([z.string(), z.array(z.record(z.string(), z.unknown()))])
    .describe("Text, or the endpoint's own list of parts (text, image, …)."),
  name: z.string().optional(),
  tool_call_id: z.string().optional(),
})

const chatConfig = z
  .strictObject({
    base_url: httpUrl
      .default("https://api.openai.com/v1")
      .describe("The endpoint; /chat/completions is added. Default https://api.openai.com/v1."),
    model: z.string().min(1).describe("Which model."),
    prompt: z.string().optional().describe("The question: short for a single user message."),
    messages: z.array(chatMessage).min(1).optional().describe("The conversation so far, instead of prompt."),
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
    timeout_seconds: secondsField(86_400, 120, "The timeout of the whole answer. Default 120."),
  })
  .refine(({ prompt, messages }) => (prompt === undefined) !== (messages === undefined), {
    message: "Give either prompt or messages, not both",
    path: ["prompt"],
  })

const chatOutput = z.object({
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

export const llmServiceSpec = {
  name: "llm_service",
  effects: false,
  readsInput: false,
  config: chatConfig,
  output: chatOutput,
  schemas: ["json"],
} satisfies HandlerSpec

/** The handlers that every workflow can use without registration. */
export const builtinSpecs = [
  inputSpec,
  outputSpec,
  transformSpec,
  sleepSpec,
  waitForSignalSpec,
  workflowSpec,
  pipelineSpec,
  callExternalServiceSpec,
  storeMediaSpec,
  llmServiceSpec,
  externalSpec,
] as const satisfies readonly HandlerSpec[]
