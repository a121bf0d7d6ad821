/** `call_external_service`: one HTTP request (S8). */
import type { z } from "zod"
import type { Json } from "../../core/json.ts"
import { activeTraceHeader } from "../../trace.ts"
import { finalError } from "../fail.ts"
import { defineHandler, type HandlerContext } from "../handler.ts"
import {
  type HttpClient,
  type HttpRequest,
  type HttpResponse,
  parseBody,
  statusFault,
} from "../http/client.ts"
import { externalIdProblem, submitted } from "../waiting.ts"
import { callExternalServiceSpec } from "./specs.ts"

type Config = z.output<typeof callExternalServiceSpec.config>

const repeatable = new Set(["GET", "HEAD", "OPTIONS"])

/** How a request of this handler becomes a submission to the node's provider. */
export interface SubmissionRules {
  /** The id of the operation in an answer; undefined: the answer is the node's output. */
  externalId(answer: Json): string | undefined
  /** The origins to which the request may go; null: any. */
  readonly origins: ReadonlySet<string> | null
}

/** null: the provider follows no operations of this handler. */
export type SubmissionRulesOf = (provider: string) => SubmissionRules | null

export const callExternalService = (http: HttpClient, rulesOf: SubmissionRulesOf = () => null) =>
  defineHandler({
    ...callExternalServiceSpec,
    async run(config, ctx) {
      if (ctx.provider !== null) checkProviderHeaders(config)
      const rules = ctx.provider === null ? null : rulesOf(ctx.provider)
      const caller = { ...toCaller(ctx), origins: rules?.origins ?? undefined }
      const response = await requestAnswer(http, config, caller)
      const answer = { status: response.status, headers: { ...response.headers }, ...parseBody(response) }
      const externalId = rules?.externalId(answer)
      if (externalId === undefined) return answer
      const problem = externalIdProblem(externalId)
      if (problem === undefined) return submitted(externalId)
      throw finalError(
        "E422",
        `The answer contains no usable id of an operation (external_id of provider "${ctx.provider}"): ${problem}.`,
      )
    },
  })

/** Behind a shared front end a Host header would let another site answer in the provider's place. */
function checkProviderHeaders(config: Config): void {
  const name = Object.keys(buildHeaders(config)).find(header =>
    callExternalServiceSpec.providerHeaders.includes(header),
  )
  if (name === undefined) return
  throw finalError(
    "E424",
    `A node with a provider cannot set the header "${name}", so nothing was sent. Remove the header.`,
    { header: name },
  )
}

/** What a request needs to know about its caller. */
export interface Caller
  extends Pick<HandlerContext, "signal" | "idempotencyKey" | "now">,
    Pick<HttpRequest, "origins" | "again"> {}

/** With a provider, every request beyond the first takes a place in its rate. */
export function toCaller({ signal, idempotencyKey, now, provider, place }: HandlerContext): Caller {
  return { signal, idempotencyKey, now, again: provider === null ? undefined : place }
}

/** The answer, with one of the expected statuses. */
export async function requestAnswer(http: HttpClient, config: Config, ctx: Caller): Promise<HttpResponse> {
  const response = await http.send(buildRequest(config, ctx))
  if (isExpected(response.status, config.expected_status)) return response
  throw statusFault(response, ctx.now())
}

function isExpected(status: number, expected: Config["expected_status"]): boolean {
  if (expected === undefined) return status >= 200 && status < 300
  return Array.isArray(expected) ? expected.includes(status) : status === expected
}

function buildRequest(config: Config, ctx: Caller): HttpRequest {
  const { method, timeout_seconds, follow_redirects, max_response_bytes } = config
  const key = repeatable.has(method) ? {} : { "idempotency-key": ctx.idempotencyKey }
  return {
    method,
    url: buildUrl(config),
    headers: {
      accept: "application/json, */*;q=0.8",
      ...activeTraceHeader(),
      ...key,
      ...contentType(config),
      ...buildHeaders(config),
    },
    body: config.json === undefined ? config.text : JSON.stringify(config.json),
    timeoutSeconds: timeout_seconds,
    maxRedirects: follow_redirects === true ? 5 : Number(follow_redirects),
    maxResponseBytes: max_response_bytes,
    signal: ctx.signal,
    origins: ctx.origins,
    again: ctx.again,
  }
}

function contentType(config: Config): Record<string, string> {
  if (config.json !== undefined) return { "content-type": "application/json" }
  return config.text === undefined ? {} : { "content-type": "text/plain; charset=utf-8" }
}

function buildHeaders(config: Config): Record<string, string> {
  const entries = Object.entries(config.headers ?? {})
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), String(value)]))
}

function buildUrl(config: Config): URL {
  const url = new URL(config.url)
  for (const [name, value] of Object.entries(config.query ?? {})) {
    for (const each of [value].flat()) url.searchParams.append(name, String(each))
  }
  return url
}
