/**
 * What a user writes to have work done by an external service: `defineProvider({ name, submit, poll, cancel,
 * verify, webhook })`.
 */
import type { Json, JsonObject } from "../core/json.ts"
import { UmbraError } from "../errors.ts"
import type { Log } from "../log.ts"
import { isPublicKey, type Signature } from "./signature.ts"

/** The context argument of a provider's functions. */
export interface ProviderContext {
  readonly jobId: string
  readonly nodeId: string
  /** Fires on timeout, when the answer is no longer needed, and on shutdown. */
  readonly signal: AbortSignal
  /**
   * A provider's secret by name (`UMBRA_PROVIDER_SECRET_NAME`). It is removed from everything that is stored
   * or shown.
   */
  secret(name: string): string
  /** Milliseconds since 1970, by the engine's clock. */
  now(): number
  /**
   * Waits for another place in the provider's rate, before every request but the first. Rejects where none is
   * available.
   */
  place(): Promise<void>
  readonly log: Log
}

export interface SubmitContext extends ProviderContext {
  /**
   * The same for every repetition of one operation, also after a crash: the provider recognises it by this.
   */
  readonly idempotencyKey: string
}

/** `externalId`: the provider does the work, under this id. `output`: it was done at once. */
export type Submission = { readonly externalId: string } | { readonly output: unknown }

/** The state of an operation. */
export type OperationNews =
  | {
      readonly status: "completed"
      readonly output: unknown
      readonly usage?: Readonly<Record<string, number>>
    }
  | {
      readonly status: "failed"
      readonly message: string
      readonly code?: string
      /** May a new operation succeed? Default true: the node's `retry` determines how often. */
      readonly retryable?: boolean
      readonly retryAfterSeconds?: number
      readonly details?: JsonObject
      /** The usage of an operation that failed. */
      readonly usage?: Readonly<Record<string, number>>
    }
  | {
      readonly status: "running"
      /** 0 to 100. */
      readonly progress?: number | null | undefined
      readonly message?: string | undefined
      /** Partial results, shown on the job. */
      readonly preview?: unknown
    }

/** A webhook as it arrived, with a verified signature. */
export interface WebhookRequest {
  readonly body: Json
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
}

export interface WebhookNews {
  readonly externalId: string
  /** Identifies a repeated delivery. Default: the Standard Webhooks id, or a hash of the body. */
  readonly eventId?: string | undefined
  /** Absent: the webhook only signals a change, and the provider is polled. */
  readonly news?: OperationNews | undefined
}

/** Thrown by a declarative provider for a webhook that names its operation, and cannot be read otherwise. */
export class UnreadableWebhook extends Error {
  readonly externalId: string

  constructor(externalId: string, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause })
    this.externalId = externalId
  }
}

type Awaitable<T> = T | Promise<T>

export interface ProviderDefinition {
  readonly name: string
  /** For nodes with `handler: external`. */
  readonly submit?: (config: Json, ctx: SubmitContext) => Awaitable<Submission>
  readonly poll?: (
    operation: { readonly externalId: string },
    ctx: ProviderContext,
  ) => Awaitable<OperationNews>
  readonly cancel?: (operation: { readonly externalId: string }, ctx: ProviderContext) => unknown
  /** How its webhooks are signed. Without it none is accepted. */
  readonly verify?: Signature
  /** Parses a webhook; null: it concerns no operation. */
  readonly webhook?: (request: WebhookRequest) => Awaitable<WebhookNews | null>
  /** A webhook is only a hint: its content is not trusted, and the provider is polled. */
  readonly webhookIsHint?: boolean
  /**
   * URLs in its results and previews are downloaded and stored as artifacts, whose references replace them: URLs of
   * providers expire. A webhook is then a hint.
   */
  readonly store?: boolean
  /**
   * The names of secrets that its functions read. They are removed from a webhook that echoes one of them.
   */
  readonly secrets?: readonly string[]
  /** Concurrent operations, over all processes; null: no limit. */
  readonly concurrency?: number | null | undefined
  /** Requests per second, over all processes; null: no limit. */
  readonly rate?: number | null | undefined
  /** The owners whose jobs may use it; absent: all owners. */
  readonly owners?: readonly string[] | undefined
  /** The number of slots that one owner may hold; null: all of them. */
  readonly concurrencyPerOwner?: number | null
  /** Requests per second for one owner's operations; null: no limit per owner. */
  readonly ratePerOwner?: number | null
  /** The intervals at which operations are polled: each of these once, then always the last. */
  readonly pollSeconds?: readonly number[] | undefined
  readonly pollJitter?: number | undefined
  /**
   * The number of consecutive polls that may fail before the operation counts as failed; null: the job's time
   * limit applies.
   */
  readonly maxPollErrors?: number | null | undefined
  /** A job whose operation takes longer expires; null: the job's own time limit applies. */
  readonly ttlSeconds?: number | null | undefined
  /** For one call of poll or cancel. */
  readonly timeoutSeconds?: number
  /**
   * A submission that is repeated with the same idempotency key never begins a second operation. Default: not
   * known.
   */
  readonly honoursKeys?: boolean
  /** For `call_external_service` with this provider: the external id in the answer. */
  readonly externalIdOf?: (response: Json) => string | undefined
  /**
   * Names the account at the service. Definitions with the same account share their operations: an id belongs
   * to one owner in all of them. Absent: definitions that have an origin in common share them.
   */
  readonly account?: string | undefined
  /**
   * The origins to which `call_external_service` with this provider may submit; null: any, for a provider
   * without credentials.
   */
  readonly origins?: readonly string[] | null
  /**
   * Its host is in a secret, so its origins do not tell whether another definition uses the same account: both
   * must name their `account`.
   */
  readonly hasSecretOrigin?: boolean
}

export interface Provider extends ProviderDefinition {
  readonly [brand]: true
}

/** A registered symbol: a user's module may have loaded a second copy of this one. */
const brand: unique symbol = Symbol.for("umbra.provider") as never

export function defineProvider(definition: ProviderDefinition): Provider {
  const problem = findProblem(definition)
  if (problem !== undefined) throw new UmbraError("E605", `defineProvider: ${problem}`)
  return Object.freeze({ ...definition, [brand]: true as const })
}

export function isProvider(value: unknown): value is Provider {
  return typeof value === "object" && value !== null && brand in value
}

const functions = ["submit", "poll", "cancel", "webhook", "externalIdOf"] as const

function findProblem(definition: ProviderDefinition): string | undefined {
  const { name, verify, webhook, poll, webhookIsHint, pollSeconds, owners, origins, account } = definition
  const isHint = webhookIsHint === true || (definition.store === true && webhook !== undefined)
  if (typeof name !== "string" || !/^[a-z0-9][a-z0-9._-]{0,99}$/i.test(name))
    return 'a name is needed: letters, digits, ".", "_" and "-", at most 100. It is part of the webhook\'s URL.'
  const wrong = functions.find(key => definition[key] !== undefined && typeof definition[key] !== "function")
  if (wrong !== undefined) return `${wrong} of provider "${name}" must be a function.`
  if ((verify === undefined) !== (webhook === undefined))
    return `provider "${name}" needs both verify and webhook, or neither: an unverified webhook is not accepted.`
  if (typeof verify === "object" && verify.scheme === "ed25519" && !verify.publicKeys.every(isPublicKey))
    return `a public key of provider "${name}" is not an ed25519 key: a PEM text, or 32 bytes as hex or base64.`
  if (isHint && poll === undefined)
    return `provider "${name}" has ${webhookIsHint === true ? "webhookIsHint" : "store"}, so it needs poll: a hint is followed by a poll.`
  if (pollSeconds !== undefined && !(pollSeconds.length > 0 && pollSeconds.every(seconds => seconds > 0)))
    return `pollSeconds of provider "${name}" must be a list of numbers above 0.`
  if (owners !== undefined && !(owners.length > 0 && owners.every(owner => typeof owner === "string")))
    return `owners of provider "${name}" must be a list of at least one owner; omit it to allow all owners.`
  if (origins != null && !origins.every(isOrigin))
    return `origins of provider "${name}" must be a list of http or https URLs, such as https://api.example.com.`
  if (account !== undefined && (typeof account !== "string" || account === ""))
    return `account of provider "${name}" must be a text.`
  return numberProblem(definition)
}

function isOrigin(origin: unknown): boolean {
  return typeof origin === "string" && URL.canParse(origin) && /^https?:$/.test(new URL(origin).protocol)
}

function numberProblem(definition: ProviderDefinition): string | undefined {
  const { name, concurrency, rate, pollJitter, maxPollErrors, ttlSeconds, timeoutSeconds } = definition
  const { concurrencyPerOwner, ratePerOwner } = definition
  const isCount = (value: number | null | undefined, least: number) =>
    value == null || (Number.isInteger(value) && value >= least)
  const isAmount = (value: number | null | undefined) =>
    value == null || (Number.isFinite(value) && value > 0)
  if (!isCount(concurrency, 1) || !isCount(concurrencyPerOwner, 1))
    return `concurrency and concurrencyPerOwner of provider "${name}" must be whole numbers of at least 1, or null.`
  if (!isCount(maxPollErrors, 0))
    return `maxPollErrors of provider "${name}" must be a whole number, or null.`
  if (![rate, ratePerOwner, ttlSeconds, timeoutSeconds].every(isAmount))
    return `rate, ratePerOwner, ttlSeconds and timeoutSeconds of provider "${name}" must be numbers above 0.`
  const isShare = pollJitter === undefined || (pollJitter >= 0 && pollJitter <= 1)
  return isShare ? undefined : `pollJitter of provider "${name}" must be between 0 and 1.`
}
