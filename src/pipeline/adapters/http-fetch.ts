/**
 * `http_fetch`: sends one HTTP request for each message, with the address checks and limits of
 * `call_external_service`.
 */
import { z } from "zod"
import type { Json } from "../../core/json.ts"
import type { AdapterSpec } from "../../definition/adapter.ts"
import { requestAnswer } from "../../worker/handlers/call-external-service.ts"
import { callExternalServiceSpec } from "../../worker/handlers/call-external-service-spec.ts"
import { type Body, parseBody, parsed } from "../../worker/http/answer.ts"
import type { HttpClient, HttpResponse } from "../../worker/http/client.ts"
import { defineAdapter } from "../adapter.ts"
import { named } from "./body.ts"

const config = callExternalServiceSpec.config.safeExtend({
  response: z
    .enum(["auto", "json", "text", "base64"])
    .default("auto")
    .describe(
      "The format of the answer's body. Default auto: parsed if its type is JSON, else text, else base64.",
    ),
  as: z
    .string()
    .min(1)
    .optional()
    .describe(
      "The answer is added to the message under this name. Default: the answer replaces the message.",
    ),
})

export const httpFetchSpec = { type: "http_fetch", config } satisfies AdapterSpec

export const httpFetch = (http: HttpClient) =>
  defineAdapter({
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
