/**
 * Receives webhooks at `POST /webhooks/{provider}` (X2).
 *
 * 1. Nothing is parsed before its signature is verified; nothing is acted on before it is stored; `receive`
 *    resolves once both are durable.
 * 2. A provider may echo what it was sent: its secrets, and its signing secrets, are removed from what is
 *    stored, as far as this process has them.
 * 3. Rejected webhooks are recorded, without their body, and at most a limited number per second of each
 *    provider: forgeries must neither fill the store nor hide those of another provider.
 * 4. One that is genuine, and names its operation, is recorded with it, and the log of its nodes shows it. What others name is not
 *    read: anybody could write lines into a log.
 */
import { createHash } from "node:crypto"
import type { External, OperationResult } from "../core/commands.ts"
import { cut, type Fault } from "../core/faults.ts"
import type { Json } from "../core/json.ts"
import { UmbraError } from "../errors.ts"
import type { ProviderStore, WebhookEventRow } from "../journal/port/providers.ts"
import { Redactor, type Secret } from "../worker/redact.ts"
import { type ProviderSecretSource, providerSecret } from "../worker/secrets.ts"
import { externalIdProblem, isExternalId } from "../worker/waiting.ts"
import { declaredSecrets, parseResult } from "./calls.ts"
import { type Provider, UnreadableWebhook, type WebhookNews } from "./provider.ts"
import type { ProviderRegistry } from "./registry.ts"
import { type SignedRequest, TOO_OLD, verifySignature } from "./signature.ts"

export interface WebhooksParts {
  readonly registry: ProviderRegistry
  readonly store: ProviderStore
  readonly secrets: ProviderSecretSource
  readonly now: () => number
  /** The inboxes of these partitions have new messages. */
  readonly inboxChanged: (partitions: readonly number[]) => void
  readonly maxOutputBytes: number
  readonly maxPreviewBytes: number
}

export interface Received {
  /** false: it was delivered before. It is processed again in any case. */
  readonly isNew: boolean
}

export class Webhooks {
  readonly #parts: WebhooksParts
  readonly #refusals = new Map<string, { second: number; count: number }>()

  constructor(parts: WebhooksParts) {
    this.#parts = parts
  }

  /** The last webhooks of a provider, including rejected ones; newest first. */
  async list(provider: string, limit: number): Promise<WebhookEventRow[]> {
    if (this.#parts.registry.get(provider) === undefined)
      throw new UmbraError("E660", `There is no provider "${cut(provider, 100)}" here.`)
    return this.#parts.store.listEvents({ provider, limit })
  }

  get maxBytes(): number {
    return this.#parts.registry.settings.webhookMaxBytes
  }

  /** Throws E660 (no such provider), E661 (not authentic), E635 (too large) or E662 (cannot be read). */
  async receive(name: string, request: SignedRequest): Promise<Received> {
    const provider = this.#parts.registry.get(name)
    if (provider?.verify === undefined || provider.webhook === undefined)
      throw new UmbraError("E660", `No provider "${cut(name, 100)}" accepts webhooks here.`)
    const bytes = request.body.length
    if (bytes > this.maxBytes) throw await this.tooLarge(name, bytes)
    await this.#verify(provider, request)
    const webhook = await this.#parse(provider, request)
    return webhook === null ? { isNew: false } : this.#store(provider, request, webhook)
  }

  /** For a caller that stopped reading the body: recorded like other rejections. */
  async tooLarge(name: string, bytes: number): Promise<UmbraError> {
    const error = new UmbraError(
      "E635",
      `A webhook may have at most ${this.maxBytes} bytes (webhook_max_bytes).`,
    )
    const provider = this.#parts.registry.get(name)
    return provider === undefined ? error : this.#refused(provider, bytes, { error })
  }

  /**
   * Which secrets are not set, and what `verify` threw, is for the operator: it is recorded, and not sent to
   * the sender.
   */
  async #verify(provider: Provider, request: SignedRequest): Promise<void> {
    const { secrets, now, registry } = this.#parts
    const notes: string[] = []
    const asked: Secret[] = []
    const refusal = await verifySignature(provider.verify!, request, {
      secret: name => {
        const value = secretOr(name, secrets, notes)
        if (value !== null) asked.push({ name, value })
        return value
      },
      now: now(),
      toleranceSeconds: registry.settings.webhookToleranceSeconds,
      note: message =>
        notes.push(new Redactor([...this.#redactor(provider).secrets, ...asked]).clean(message)),
    })
    if (refusal === null) return
    const error = new UmbraError("E661", `The webhook is rejected: ${refusal}.`)
    const externalId = refusal === TOO_OLD ? await this.#readOperation(provider, request) : null
    throw await this.#refused(provider, request.body.length, { error, notes, externalId })
  }

  /** The operation that a genuine webhook names; null: none can be read from it. */
  async #readOperation(provider: Provider, { body, headers }: SignedRequest): Promise<string | null> {
    try {
      const news = await provider.webhook!({ body: parsed(body), headers })
      return news !== null && isExternalId(news.externalId) ? news.externalId : null
    } catch (error) {
      return operationIn(error)
    }
  }

  /** null: it concerns no operation. */
  async #parse(provider: Provider, { body, headers }: SignedRequest): Promise<ParsedWebhook | null> {
    const redactor = this.#redactor(provider)
    let named: unknown
    try {
      const news = await provider.webhook!({ body: parsed(body), headers })
      named = news?.externalId
      return news === null ? null : this.#checked(provider, news, redactor)
    } catch (thrown) {
      const message = redactor.clean(thrown instanceof Error ? thrown.message : String(thrown))
      const error = new UmbraError("E662", `The webhook cannot be read: ${cut(message, 300)}`)
      const externalId = isExternalId(named) ? named : operationIn(thrown)
      throw await this.#refused(provider, body.length, { error, externalId })
    }
  }

  #redactor(provider: Provider): Redactor {
    return new Redactor(declaredSecrets(provider, this.#parts.secrets))
  }

  #checked(
    provider: Provider,
    { externalId, eventId, news }: WebhookNews,
    redactor: Redactor,
  ): ParsedWebhook {
    const problem = externalIdProblem(externalId)
    if (problem !== undefined) throw new TypeError(`it does not name an operation: ${problem}.`)
    const isHint = provider.webhookIsHint === true || provider.store === true || news === undefined
    const result: OperationResult = isHint
      ? { type: "hint" }
      : parseResult(news, { ...this.#parts, redactor })
    return { externalId, eventId: eventName(eventId), result }
  }

  async #store(provider: Provider, request: SignedRequest, webhook: ParsedWebhook): Promise<Received> {
    const { store, now, inboxChanged, registry } = this.#parts
    const { name } = provider
    const { externalId, result } = webhook
    const poll = registry.terms(name)?.poll ?? null
    const news = { externalId, source: "webhook", poll, result } satisfies Omit<External, "type" | "node">
    const isNew = await store.receiveEvent({
      provider: name,
      eventId: webhook.eventId === undefined ? eventId(provider, request) : storable(webhook.eventId),
      externalId,
      receivedAt: now(),
      verdict: "parked",
      reason: result.type === "failed" ? refusalReason(result.fault) : null,
      bytes: request.body.length,
      news: JSON.stringify(news),
    })
    // Also when it is not new: the process that received it first may have died before this step.
    inboxChanged(await store.deliverEvents({ operation: { provider: name, externalId }, at: now() }))
    return { isNew }
  }

  async #refused(
    provider: Provider,
    bytes: number,
    { error, notes = [], externalId = null }: Rejection,
  ): Promise<UmbraError> {
    const { store, now } = this.#parts
    const { name } = provider
    const second = Math.floor(now() / 1000)
    const known = this.#refusals.get(name)
    const refusals = known?.second === second ? known : { second, count: 0 }
    this.#refusals.set(name, refusals)
    if (++refusals.count <= REFUSALS_A_SECOND)
      await store.receiveEvent({
        ...{ provider: name, eventId: null, externalId, receivedAt: now(), bytes, news: null },
        // Notes are for operators, and the owner of the job sees what names an operation.
        ...{ verdict: "refused", reason: refusalReason(error, externalId === null ? notes : []) },
      })
    return error
  }
}

interface Rejection {
  readonly error: UmbraError
  readonly notes?: readonly string[]
  /** The operation that a genuine webhook names. */
  readonly externalId?: string | null
}

interface ParsedWebhook {
  readonly externalId: string
  readonly eventId: string | undefined
  readonly result: OperationResult
}

const REFUSALS_A_SECOND = 10

/** The operation that a webhook names whose other content cannot be read. */
function operationIn(error: unknown): string | null {
  return error instanceof UnreadableWebhook && isExternalId(error.externalId) ? error.externalId : null
}

function refusalReason(
  { code, message }: Pick<Fault, "code" | "message">,
  notes: readonly string[] = [],
): string {
  return cut([code, message, ...notes].join(" "), 500)
}

/** null, with the reason in `missing`. */
function secretOr(name: string, secrets: ProviderSecretSource, missing: string[]): string | null {
  try {
    return providerSecret(name, secrets)
  } catch (error) {
    if (!(error instanceof UmbraError)) throw error
    missing.push(error.message)
    return null
  }
}

function parsed(body: Buffer): Json {
  const text = new TextDecoder("utf-8", { fatal: true }).decode(body)
  return JSON.parse(text) as Json
}

/**
 * Standard Webhooks identify each event; for others an equal body is the same event. Their headers are not
 * signed: with a forged webhook-id a replay would be new, and a future event could be made to look like a
 * repetition.
 */
function eventId({ verify }: Provider, { body, headers }: SignedRequest): string {
  const isSigned = typeof verify === "function" || verify?.scheme === "standard-webhooks"
  const id = isSigned ? headers["webhook-id"] : undefined
  return id === undefined ? hash(body) : storable(id)
}

/**
 * undefined: it has none. A provider written in JavaScript may pass on anything it was sent: nothing, or a
 * number.
 */
function eventName(id: unknown): string | undefined {
  if (id === undefined || id === null || id === "") return undefined
  if (typeof id === "string") return id
  if (typeof id === "number" || typeof id === "bigint") return String(id)
  throw new TypeError("the id of its event is neither a text nor a number.")
}

/** An index accepts only short texts, and text in PostgreSQL does not hold every character. */
function storable(id: string): string {
  return isExternalId(id) ? id : hash(id)
}

function hash(bytes: Buffer | string): string {
  return createHash("sha256").update(bytes).digest("hex")
}
