/** `llm_service`: one chat completion of any endpoint with OpenAI's protocol (S8). */
import { z } from "zod"
import { activeTraceHeader } from "../../trace.ts"
import { HandlerError } from "../fail.ts"
import { defineHandler, type HandlerContext } from "../handler.ts"
import { parsed, statusFault } from "../http/answer.ts"
import type { HttpClient, HttpRequest, HttpResponse } from "../http/client.ts"
import { type Caller, toCaller } from "./call-external-service.ts"
import { jsonAnswer } from "./llm-json.ts"
import { llmServiceSpec } from "./llm-service-spec.ts"

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
  throw new HandlerError(
    `${response.url.origin} answered with JSON that is not a chat completion. Check base_url: /chat/completions is added to it.`,
    { code: "E414", retryable: false, details: { body: response.body.toString().slice(0, 500) } },
  )
}

function answerText(answer: Completion): string {
  const { content, refusal } = answer.choices[0]!.message
  if (typeof content === "string") return content
  if (content) return content.map(part => part.text ?? "").join("")
  const what = refusal ? `refused to answer: ${refusal}` : "answered without any text"
  throw new HandlerError(`The model ${what}.`, { code: "E414", retryable: false })
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
