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
  type HttpStream,
  parseBody,
  streamFault,
  whole,
} from "../http/client.ts"
import { checkComplete, storeAnswer } from "../http/download.ts"
import { externalIdProblem, submitted } from "../waiting.ts"
import { callExternalServiceSpec, type requestConfig } from "./specs.ts"

type Config = z.output<typeof callExternalServiceSpec.config>
type Request = z.output<typeof requestConfig>

const repeatable = new Set(["GET", "HEAD", "OPTIONS"])

/** How a request of this handler becomes a submission to the node's provider. */
export interface SubmissionRules {
  /** The id of the operation in an answer; undefined: the answer is the node's output. */
  externalId(answer: Json): string | undefined
  /** The origins to which the request may go; null: any. */
  readonly origins: ReadonlySet<string> | null
}

/** null: the provider follows no operations of this handler. */
export type FindSubmissionRules = (provider: string) => SubmissionRules | null

export const callExternalService = (http: HttpClient, findRules: FindSubmissionRules = () => null) =>
  defineHandler({
    ...callExternalServiceSpec,
    async run(config, ctx) {
      if (ctx.provider !== null) checkProviderHeaders(config)
      const rules = ctx.provider === null ? null : findRules(ctx.provider)
      const caller = { ...toCaller(ctx), origins: rules?.origins ?? undefined }
      if (config.save_as !== undefined) return saved(http, config, { ctx, caller, name: config.save_as })
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

/** The response is the output, also with a provider: an operation's id would be in a body that nobody reads. */
async function saved(
  http: HttpClient,
  config: Config,
  { ctx, caller, name }: { readonly ctx: HandlerContext; readonly caller: Caller; readonly name: string },
) {
  const stream = await openAnswer(http, config, caller)
  if (config.expected_status === undefined) await checkComplete(stream, buildHeaders(config))
  const body = await storeAnswer(ctx.artifacts, stream, { name })
  return { status: stream.status, headers: { ...stream.headers }, encoding: "artifact" as const, body }
}

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
export async function requestAnswer(http: HttpClient, config: Request, ctx: Caller): Promise<HttpResponse> {
  return whole(await openAnswer(http, config, ctx))
}

async function openAnswer(http: HttpClient, config: Request, ctx: Caller): Promise<HttpStream> {
  const stream = await http.open(buildRequest(config, ctx))
  if (isExpected(stream.status, config.expected_status)) return stream
  throw await streamFault(stream, ctx.now())
}

function isExpected(status: number, expected: Request["expected_status"]): boolean {
  if (expected === undefined) return status >= 200 && status < 300
  return Array.isArray(expected) ? expected.includes(status) : status === expected
}

function buildRequest(config: Request, ctx: Caller): HttpRequest {
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

function contentType(config: Request): Record<string, string> {
  if (config.json !== undefined) return { "content-type": "application/json" }
  return config.text === undefined ? {} : { "content-type": "text/plain; charset=utf-8" }
}

function buildHeaders(config: Pick<Request, "headers">): Record<string, string> {
  const entries = Object.entries(config.headers ?? {})
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), String(value)]))
}

function buildUrl(config: Request): URL {
  const url = new URL(config.url)
  for (const [name, value] of Object.entries(config.query ?? {})) {
    for (const each of [value].flat()) url.searchParams.append(name, String(each))
  }
  return url
}
