/**
 * `llm`: requests one chat completion for each message, as `llm_service` does. The result includes the tokens
 * used.
 */
import { z } from "zod"
import type { Json } from "../../core/json.ts"
import type { AdapterSpec } from "../../definition/adapter.ts"
import { completeChat } from "../../worker/handlers/llm-service.ts"
import { llmServiceSpec } from "../../worker/handlers/llm-service-spec.ts"
import type { HttpClient } from "../../worker/http/client.ts"
import { defineAdapter } from "../adapter.ts"
import { named } from "./body.ts"

const config = llmServiceSpec.config.safeExtend({
  as: z
    .string()
    .min(1)
    .optional()
    .describe(
      "The answer is added to the message under this name. Default: the answer replaces the message.",
    ),
})

export const llmSpec = { type: "llm", config, schemas: ["json"] } satisfies AdapterSpec

export const llm = (http: HttpClient) =>
  defineAdapter({
    ...llmSpec,
    async process(message, { config, signal, idempotencyKey, owner }) {
      const answer = await completeChat(http, config, { signal, idempotencyKey, owner, now: Date.now })
      return named(message, config.as, answer as Json)
    },
  })
