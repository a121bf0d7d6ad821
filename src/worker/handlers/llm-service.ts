/** `llm_service`: one chat completion of any endpoint with OpenAI's protocol (S8). */

import { setTimeout } from "node:timers/promises"
import { z } from "zod"
import type { Json, JsonObject } from "../../core/json.ts"
import { inputChecks } from "../../definition/index.ts"
import { UmbraError } from "../../errors.ts"
import { activeTraceHeader } from "../../trace.ts"
import { finalError, HandlerError } from "../fail.ts"
import { defineHandler, type HandlerContext } from "../handler.ts"
import { type HttpClient, type HttpRequest, type HttpResponse, parsed, statusFault } from "../http/client.ts"
import { type Caller, toCaller } from "./call-external-service.ts"
import { llmServiceSpec } from "./specs.ts"

type Config = z.output<typeof llmServiceSpec.config>

const maxResponseBytes = 16 * 1024 * 1024

const count = z.int().min(0).nullish().catch(null)

/** The part of an answer that is read; endpoints differ in the rest. */
const completion = z.object({
  model: z.string().optional(),
  choices: z
    .array(
      z.object({
        finish_reason: z.string().nullish(),
        message: z.object({
          content: z.union([z.string(), z.array(z.object({ text: z.string().optional() }))]).nullish(),
          refusal: z.string().nullish(),
        }),
      }),
    )
    .min(1),
})

/** Parsed separately: an unusable answer has a cost too. */
const cost = z.object({
  usage: z.object({ prompt_tokens: count, completion_tokens: count, total_tokens: count }),
})
const noUsage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }

type Completion = z.output<typeof completion>

export const llmService = (http: HttpClient) =>
  defineHandler({
    ...llmServiceSpec,
    run: (config, ctx: HandlerContext & { readonly owner?: string }) => {
      const { jobId, usage, owner } = ctx
      return completeChat(http, config, { ...toCaller(ctx), usage, owner: owner ?? jobId })
    },
  })

/**
 * `usage` is reported even if the answer is unusable. `owner`: of the job, whose time budget for checks is
 * used.
 */
export async function completeChat(
  http: HttpClient,
  config: Config,
  ctx: Caller & Partial<Pick<HandlerContext, "usage">> & { readonly owner: string },
) {
  const response = await http.send(buildRequest(config, ctx))
  if (response.status < 200 || response.status >= 300) throw statusFault(response, ctx.now())
  const body = parsed(response)
  const told = parseUsage(body)
  if (told !== null) ctx.usage?.(told)
  const answer = parseCompletion(response, body)
  const usage = told ?? noUsage
  if (told === null) ctx.usage?.(usage)
  const finish_reason = answer.choices[0]?.finish_reason ?? null
  const text = answerText(answer)
  const { owner, signal } = ctx
  const answered = { text, finish_reason, owner, signal }
  const json = config.json === false ? {} : { json: await jsonAnswer({ ...answered, schema: config.json }) }
  return { text, ...json, model: answer.model ?? config.model, usage, finish_reason }
}

function buildRequest(config: Config, ctx: Caller): HttpRequest {
  const headers = Object.entries(config.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value])
  return {
    method: "POST",
    url: new URL(`${config.base_url.replace(/\/+$/, "")}/chat/completions`),
    headers: {
      accept: "application/json",
      "content-type": "application/json",
      "idempotency-key": ctx.idempotencyKey,
      ...activeTraceHeader(),
      ...(config.api_key === undefined ? {} : { authorization: `Bearer ${config.api_key}` }),
      ...Object.fromEntries(headers),
    },
    body: JSON.stringify(buildBody(config)),
    timeoutSeconds: config.timeout_seconds,
    // Endpoints of this protocol do not redirect; a key must not be sent elsewhere.
    maxRedirects: 0,
    maxResponseBytes,
    signal: ctx.signal,
    again: ctx.again,
  }
}

/** Absent fields are undefined, which JSON omits too. */
function buildBody(config: Config): Record<string, unknown> {
  const { model, temperature, top_p, max_tokens, stop, seed, extra } = config
  return {
    model,
    messages: buildMessages(config),
    temperature,
    top_p,
    max_tokens,
    stop,
    seed,
    ...responseFormat(config),
    ...extra,
  }
}

function buildMessages({ system, messages, prompt }: Config): unknown[] {
  const conversation = messages ?? [{ role: "user", content: prompt }]
  return system === undefined ? conversation : [{ role: "system", content: system }, ...conversation]
}

function responseFormat({ json }: Config): Record<string, unknown> {
  if (json === false) return {}
  const format =
    json === true
      ? { type: "json_object" }
      : { type: "json_schema", json_schema: { name: "answer", schema: json } }
  return { response_format: format }
}

function parseCompletion(response: HttpResponse, body: unknown): Completion {
  const result = completion.safeParse(body)
  if (result.success) return result.data
  throw finalError(
    "E414",
    `${response.url.origin} answered with JSON that is not a chat completion. Check base_url: /chat/completions is added to it.`,
    { body: response.body.toString().slice(0, 500) },
  )
}

function answerText(answer: Completion): string {
  const { content, refusal } = answer.choices[0]!.message
  if (typeof content === "string") return content
  if (content) return content.map(part => part.text ?? "").join("")
  const what = refusal ? `refused to answer: ${refusal}` : "answered without any text"
  throw finalError("E414", `The model ${what}.`)
}

/** null: the answer does not report it. */
function parseUsage(body: unknown) {
  const result = cost.safeParse(body)
  if (!result.success) return null
  const { usage } = result.data
  const prompt_tokens = usage.prompt_tokens ?? 0
  const completion_tokens = usage.completion_tokens ?? 0
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: usage.total_tokens ?? prompt_tokens + completion_tokens,
  }
}

/** Parses a model's answer as the JSON that was requested. */
interface JsonAnswer {
  readonly text: string
  /** `true`: any JSON. */
  readonly schema: true | Readonly<Record<string, unknown>>
  readonly finish_reason: string | null
  /** The owner whose time budget for checks is used. */
  readonly owner: string
  readonly signal: AbortSignal
}

async function jsonAnswer(answer: JsonAnswer): Promise<Json> {
  const { text, schema, finish_reason } = answer
  const value = parse(text, finish_reason)
  if (schema === true) return value
  const { problems } = value === null ? nullProblem : await check(value, answer)
  if (problems === undefined) return value
  const list = problems.map(({ path, message }) => `${path.replace(/^input/, "answer")}: ${message}`)
  throw unusable(`The model's answer does not match the schema. ${list.slice(0, 5).join(" ")}`, text)
}

/** The answer was paid for: when the time budget for checks is used up, it is checked later. */
async function check(value: Json, { schema, owner, signal }: JsonAnswer) {
  for (;;) {
    try {
      return await inputChecks.check(schema as JsonObject, value, { owner })
    } catch (error) {
      if (!(error instanceof UmbraError && error.code === "E614")) throw error
      await setTimeout(1000 * Number(error.details.retry_after), undefined, { signal })
    }
  }
}

/** A check treats null as "no input"; a model that answers null has not answered. */
const nullProblem = { problems: [{ path: "input", message: "The value is null." }] }

function parse(text: string, finishReason: string | null): Json {
  // Models without a JSON mode put their JSON between fences.
  const inner = /^\s*```(?:json)?\s*\n([\s\S]*?)\n?\s*```\s*$/.exec(text)?.[1] ?? text
  try {
    return JSON.parse(inner) as Json
  } catch {
    if (finishReason !== "length") throw unusable("The model's answer is not JSON.", text)
    throw finalError(
      "E414",
      "The model's answer ended at max_tokens, in the middle of its JSON. Raise max_tokens.",
    )
  }
}

/** Another try may return a better answer: models are not deterministic. */
function unusable(message: string, text: string): HandlerError {
  return new HandlerError(message, { code: "E414", retryable: true, details: { answer: text.slice(0, 500) } })
}
