/**
 * Verifies that a webhook comes from its provider (X2): a signature over the raw body.
 *
 * 1. Signatures are compared in constant time, with every secret in turn: the time does not reveal which
 *    secret matches, or how much of it.
 * 2. A signed time must be near: a recorded webhook cannot be replayed later. It is checked after the signature, so `TOO_OLD` means
 *    that the content is the provider's.
 * 3. The user may supply a function; one that throws has rejected.
 */
import {
  createHmac,
  createPublicKey,
  type KeyObject,
  timingSafeEqual,
  verify as verifyBytes,
} from "node:crypto"
import { UmbraError } from "../errors.ts"

export type Signature =
  | {
      /** HMAC-SHA256 of the body; with `timestampHeader`, of `<timestamp>.<body>`. */
      readonly scheme: "hmac-sha256"
      /** The header with the signature. Several signatures are separated by commas or spaces. */
      readonly header: string
      /** The text before the signature, for example `sha256=`. */
      readonly prefix?: string
      readonly encoding?: "hex" | "base64" | "base64url"
      /** Seconds since 1970. */
      readonly timestampHeader?: string | undefined
      /** Names of secrets; several while one is being replaced. */
      readonly secrets: readonly string[]
    }
  /** standardwebhooks.com: webhook-id, webhook-timestamp, and webhook-signature with `v1,` signatures. */
  | { readonly scheme: "standard-webhooks"; readonly secrets: readonly string[] }
  | {
      readonly scheme: "ed25519"
      readonly header: string
      readonly encoding?: "hex" | "base64" | "base64url"
      readonly timestampHeader?: string | undefined
      /** Between the time and the body where a time is signed: Discord uses none. Default `.`. */
      readonly separator?: string
      /** PEM, or the 32 bytes as hex or base64. */
      readonly publicKeys: readonly string[]
    }
  | SignatureCheck

/**
 * A check supplied by the user. `secret` reads a provider's secret by name (`UMBRA_PROVIDER_SECRET_NAME`).
 */
export type SignatureCheck = (
  request: SignedRequest,
  ctx: { readonly secret: (name: string) => string },
) => boolean | Promise<boolean>

export interface SignedRequest {
  readonly body: Buffer
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
}

export interface VerifyOptions {
  /** null: not available; a webhook signed with another secret is still accepted. */
  readonly secret: (name: string) => string | null
  /** Milliseconds since 1970. */
  readonly now: number
  readonly toleranceSeconds: number
  /** Receives the error that a function of the user threw. */
  readonly note?: (message: string) => void
}

/**
 * The names of the secrets that webhooks are signed with; those that a function of the user reads are not
 * known.
 */
export function signingSecrets(signature: Signature | undefined): readonly string[] {
  return typeof signature === "object" && "secrets" in signature ? signature.secrets : []
}

/** null: the webhook is genuine; else the reason of the rejection. */
export async function verifySignature(
  signature: Signature,
  request: SignedRequest,
  options: VerifyOptions,
): Promise<string | null> {
  if (typeof signature === "function") return ownRefusal(signature, request, options)
  switch (signature.scheme) {
    case "hmac-sha256":
      return hmacRefusal(signature, request, options)
    case "standard-webhooks":
      return standardRefusal(signature, request, options)
    case "ed25519":
      return ed25519Refusal(signature, request, options)
  }
}

/**
 * The reason of a rejection, or the error of the function, is for the operator only: the sender of the
 * webhook is not authenticated.
 */
async function ownRefusal(
  verify: SignatureCheck,
  request: SignedRequest,
  options: VerifyOptions,
): Promise<string | null> {
  const secret = (name: string) => {
    const value = options.secret(name)
    if (value === null) throw new Error(`The secret ${name} is not set.`)
    return value
  }
  try {
    return (await verify(request, { secret })) === true ? null : "the signature is wrong"
  } catch (error) {
    options.note?.(error instanceof Error ? error.message : String(error))
    return "the signature could not be checked"
  }
}

function hmacRefusal(
  signature: Extract<Signature, { scheme: "hmac-sha256" }>,
  { body, headers }: SignedRequest,
  options: VerifyOptions,
): string | null {
  const { header, prefix = "", encoding = "hex", timestampHeader, secrets } = signature
  const time = timestampHeader === undefined ? undefined : headers[timestampHeader.toLowerCase()]
  if (timestampHeader !== undefined && !isTime(time)) return NO_TIME
  const signed = time === undefined ? body : Buffer.concat([Buffer.from(`${time}.`), body])
  const given = signaturesIn(headers[header.toLowerCase()], prefix)
  if (given.length === 0) return `there is no signature in header ${header}`
  const made = known(secrets, options).map(secret => createHmac("sha256", secret).update(signed).digest())
  return matches(given, encoding, made) ? timeRefusal(time, options) : "the signature is wrong"
}

function standardRefusal(
  { secrets }: Extract<Signature, { scheme: "standard-webhooks" }>,
  { body, headers }: SignedRequest,
  options: VerifyOptions,
): string | null {
  const id = headers["webhook-id"]
  const time = headers["webhook-timestamp"]
  if (id === undefined || id === "") return "there is no header webhook-id"
  if (!isTime(time)) return NO_TIME
  const signed = Buffer.concat([Buffer.from(`${id}.${time}.`), body])
  const all = (headers["webhook-signature"] ?? "").split(" ")
  const given = all.flatMap(each => (each.startsWith("v1,") ? each.slice(3) : []))
  if (given.length === 0) return "there is no v1 signature in header webhook-signature"
  const keys = known(secrets, options).map(secret => Buffer.from(secret.replace(/^whsec_/, ""), "base64"))
  // Text that is not base64 decodes to almost nothing, and anybody could sign with that.
  const usable = keys.filter(({ length }) => length >= SHORTEST_KEY)
  const made = usable.map(key => createHmac("sha256", key).update(signed).digest())
  return matches(given, "base64", made) ? timeRefusal(time, options) : "the signature is wrong"
}

const SHORTEST_KEY = 8

function known(secrets: readonly string[], { secret }: VerifyOptions): string[] {
  return secrets.flatMap(name => secret(name) ?? [])
}

function ed25519Refusal(
  signature: Extract<Signature, { scheme: "ed25519" }>,
  { body, headers }: SignedRequest,
  options: VerifyOptions,
): string | null {
  const { header, encoding = "hex", timestampHeader, separator = ".", publicKeys } = signature
  const time = timestampHeader === undefined ? undefined : headers[timestampHeader.toLowerCase()]
  if (timestampHeader !== undefined && !isTime(time)) return NO_TIME
  const signed = time === undefined ? body : Buffer.concat([Buffer.from(`${time}${separator}`), body])
  const given = Buffer.from(headers[header.toLowerCase()] ?? "", encoding)
  if (given.length !== 64) return `there is no signature of 64 bytes in header ${header}`
  const isRight = publicKeys.some(key => verifyBytes(null, signed, parseKey(key), given))
  return isRight ? timeRefusal(time, options) : "the signature is wrong"
}

/** Node reads raw keys only inside their ASN.1 frame, which is constant for ed25519. */
const frame = Buffer.from("302a300506032b6570032100", "hex")

export function isPublicKey(text: string): boolean {
  try {
    return parseKey(text).asymmetricKeyType === "ed25519"
  } catch {
    return false
  }
}

function parseKey(text: string): KeyObject {
  if (text.includes("BEGIN")) return createPublicKey(text)
  const raw = Buffer.from(text, /^[0-9a-f]{64}$/i.test(text) ? "hex" : "base64")
  if (raw.length !== 32)
    throw new UmbraError("E605", "A public key of ed25519 is a PEM text, or 32 bytes as hex or base64.")
  return createPublicKey({ key: Buffer.concat([frame, raw]), format: "der", type: "spki" })
}

function signaturesIn(header: string | undefined, prefix: string): string[] {
  const all = (header ?? "").split(/[\s,]+/).filter(each => each !== "")
  return all.flatMap(each => (each.startsWith(prefix) ? each.slice(prefix.length) : []))
}

/** More signatures than a rotation needs are an attempt to guess. */
const MOST_SIGNATURES = 10

/** Compares every pair, also after one has matched. */
function matches(given: readonly string[], encoding: BufferEncoding, made: readonly Buffer[]): boolean {
  let found = false
  for (const text of given.slice(0, MOST_SIGNATURES)) {
    const bytes = Buffer.from(text, encoding)
    for (const digest of made) {
      const isSame = bytes.length === digest.length && timingSafeEqual(bytes, digest)
      found = found || isSame
    }
  }
  return found
}

function isTime(text: string | undefined): text is string {
  return text !== undefined && /^\d{1,15}$/.test(text)
}

const NO_TIME = "there is no signed time"

/** `time`: undefined: none is signed. */
function timeRefusal(time: string | undefined, { now, toleranceSeconds }: VerifyOptions): string | null {
  if (time === undefined || Math.abs(now / 1000 - Number(time)) <= toleranceSeconds) return null
  return TOO_OLD
}

/** The reason with which a replay is rejected. Its signature is genuine. */
export const TOO_OLD = "the signed time is too far away: it may be a replay"
