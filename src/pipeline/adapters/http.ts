/**
 * `http_fetch`: sends one HTTP request for each message, with the address checks and limits of
 * `call_external_service`.
 */
import { z } from "zod"
import type { Json } from "../../core/json.ts"
import type { AdapterSpec } from "../../definition/adapter.ts"
import { requestAnswer } from "../../worker/handlers/call-external-service.ts"
import { completeChat } from "../../worker/handlers/llm-service.ts"
import { llmServiceSpec, requestConfig } from "../../worker/handlers/specs.ts"
import type { HttpClient, HttpResponse } from "../../worker/http/client.ts"
import { type Body, parseBody, parsed } from "../../worker/http/client.ts"
import { defineBuiltInAdapter } from "../adapter.ts"
import { named, optionalName } from "./body.ts"

const config = requestConfig.safeExtend({
  response: z
    .enum(["auto", "json", "text", "base64"])
    .default("auto")
    .describe(
      "The format of the answer's body. Default auto: parsed if its type is JSON, else text, else base64.",
    ),
  as: optionalName(
    "The answer is added to the message under this name. Default: the answer replaces the message.",
  ),
})

export const httpFetchSpec = { type: "http_fetch", config } satisfies AdapterSpec

export const httpFetch = (http: HttpClient) =>
  defineBuiltInAdapter({
    ...httpFetchSpec,
    async process(message, { config, signal, idempotencyKey }) {
      const response = await requestAnswer(http, config, { signal, idempotencyKey, now: Date.now })
      return named(message, config.as, {
        status: response.status,
        url: response.url.href,
        headers: { ...response.headers },
        ...given(response, config.response),
      })
    },
  })

function given(
  response: HttpResponse,
  how: z.output<typeof config>["response"],
): Body & { [key: string]: Json } {
  if (how === "auto") return parseBody(response)
  if (how === "json") return { encoding: "json", body: parsed(response) }
  return { encoding: how, body: response.body.toString(how === "text" ? "utf8" : "base64") }
}

/**
 * `llm`: requests one chat completion for each message, as `llm_service` does. The result includes the tokens
 * used.
 */
const llmConfig = llmServiceSpec.config.safeExtend({
  as: optionalName(
    "The answer is added to the message under this name. Default: the answer replaces the message.",
  ),
})

export const llmSpec = { type: "llm", config: llmConfig, schemas: ["json"] } satisfies AdapterSpec

export const llm = (http: HttpClient) =>
  defineBuiltInAdapter({
    ...llmSpec,
    async process(message, { config, signal, idempotencyKey, owner }) {
      const answer = await completeChat(http, config, { signal, idempotencyKey, owner, now: Date.now })
      return named(message, config.as, answer as Json)
    },
  })
