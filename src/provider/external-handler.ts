/** `external`: the node's provider does the work (X1). */
import { toFault } from "../core/faults.ts"
import type { Json } from "../core/json.ts"
import { HandlerError } from "../worker/fail.ts"
import { defineHandler, type Handler, type HandlerContext } from "../worker/handler.ts"
import { externalSpec } from "../worker/handlers/specs.ts"
import { checkOutput } from "../worker/output.ts"
import { Redactor, type Secret } from "../worker/redact.ts"
import { type ProviderSecretSource, providerSecret } from "../worker/secrets.ts"
import { isExternalId, isWait, submitted } from "../worker/waiting.ts"
import { declaredSecrets } from "./calls.ts"
import type { Provider, Submission, SubmitContext } from "./provider.ts"
import type { ProviderRegistry } from "./registry.ts"

export function externalHandler(registry: ProviderRegistry, secrets: ProviderSecretSource): Handler {
  return defineHandler({
    ...externalSpec,
    async run(config, ctx) {
      const provider = providerOf(registry, ctx)
      // An answer may contain what it was sent, and the keys that webhooks are signed with.
      const known = declaredSecrets(provider, secrets)
      const context = contextOf(ctx, name => {
        const value = providerSecret(name, secrets)
        known.push({ name, value })
        return value
      })
      try {
        const submission = await provider.submit!((config ?? {}) as Json, context)
        const concluded = await conclude(submission, provider, context)
        return known.length === 0 || isWait(concluded) ? concluded : withoutSecrets(concluded, known)
      } catch (thrown) {
        throw known.length === 0 ? thrown : cleaned(thrown, ctx.now(), known)
      }
    },
  })
}

function withoutSecrets(output: unknown, known: readonly Secret[]): Json {
  const { value } = checkOutput(output, { maxBytes: Number.POSITIVE_INFINITY, what: "output" })
  return new Redactor(known).value(value)
}

/** A provider's answer may echo what it was sent. */
function cleaned(thrown: unknown, now: number, known: readonly Secret[]): HandlerError {
  const fault = toFault(thrown, { now, clean: new Redactor(known).clean })
  const { code, message, retryable, details, retry_after_seconds: wait } = fault
  return new HandlerError(message, { code, retryable, details, retryAfterSeconds: wait })
}

function providerOf(registry: ProviderRegistry, { provider: name }: HandlerContext): Provider {
  const provider = name === null ? undefined : registry.get(name)
  if (name === null)
    throw new HandlerError("A node with handler external needs `provider:`, whose submit does the work.", {
      code: "E421",
      retryable: false,
    })
  if (provider?.submit !== undefined) return provider
  throw new HandlerError(`Provider "${name}" has no submit. Add one, or use a handler that submits itself.`, {
    code: "E421",
    retryable: false,
  })
}

function contextOf(ctx: HandlerContext, secret: SubmitContext["secret"]): SubmitContext {
  const { jobId, nodeId, signal, now, log, idempotencyKey, place } = ctx
  return { jobId, nodeId, signal, now, log, idempotencyKey, place, secret }
}

async function conclude(
  submission: Submission,
  provider: Provider,
  context: SubmitContext,
): Promise<unknown> {
  if (typeof submission === "object" && submission !== null && "externalId" in submission) {
    const { externalId } = submission
    if (!isExternalId(externalId)) throw notAnId(provider.name)
    // Nothing waits for the operation any more, and its id will not be stored: this is the last chance to
    // cancel it.
    if (context.signal.aborted) await provider.cancel?.({ externalId }, context)
    return submitted(externalId)
  }
  if (typeof submission === "object" && submission !== null && "output" in submission)
    return submission.output ?? null
  throw notAnId(provider.name)
}

function notAnId(provider: string): HandlerError {
  return new HandlerError(
    `submit of provider "${provider}" returned neither { externalId } (a text of 1 to 500 characters) nor { output }.`,
    { code: "E422", retryable: false },
  )
}
