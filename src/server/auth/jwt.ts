/**
 * JWTs of one issuer (S3; docs/decisions/0012).
 *
 * 1. A JWT must be signed by a key of the issuer's JWKS with an asymmetric algorithm, be made for our audience, be
 *    within its validity period, and have an end: a token without `exp` is rejected.
 * 2. 401 means that the token is at fault. If the keys cannot be fetched the answer is 503: the token may be valid.
 * 3. A token that was verified once stays valid until `exp`: it is not verified again, so the withdrawal of a key
 *    affects only tokens that are seen for the first time.
 */
import { createHash } from "node:crypto"
import {
  createRemoteJWKSet,
  customFetch,
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
} from "jose"
import { localOwner } from "../../core/facts.ts"
import { UmbraError } from "../../errors.ts"
import type { Log } from "../../log.ts"
import { noLimitsOfItsOwn } from "../http/limits.ts"
import type { Caller } from "./caller.ts"
import type { JwtIssuer, JwtSettings } from "./jwt-settings.ts"
import { isOwnerName, knownScopes } from "./tokens.ts"

const LONGEST = 8192
const MANY = 10_000

export class Jwts {
  readonly #issuer: JwtIssuer
  readonly #settings: JwtSettings
  readonly #keys: ReturnType<typeof signingKeys>
  /** By hash; the least recently used is evicted first. */
  readonly #good = new Map<string, { readonly caller: Caller; readonly until: number }>()

  constructor(issuer: JwtIssuer, settings: JwtSettings, log: Log) {
    this.#issuer = issuer
    this.#settings = settings
    this.#keys = signingKeys(issuer.keys, settings, log)
  }

  async caller(token: string): Promise<Caller> {
    if (token.length > LONGEST) throw refused(`is longer than ${LONGEST} characters`)
    const hash = createHash("sha256").update(token).digest("base64")
    const known = this.#good.get(hash)
    if (known !== undefined) this.#good.delete(hash)
    if (known !== undefined && known.until > Date.now()) {
      this.#good.set(hash, known)
      return known.caller
    }
    const payload = await this.#verified(token)
    const until = (payload.exp! + this.#settings.jwtClockToleranceSeconds) * 1000
    const caller = {
      ...this.#toCaller(payload),
      expiresAt: until,
      isStillAllowed: async () => until > Date.now(),
    }
    if (this.#good.size >= MANY) this.#good.delete(this.#good.keys().next().value!)
    this.#good.set(hash, { caller, until })
    return caller
  }

  async #verified(token: string): Promise<JWTPayload> {
    const { issuer, audience } = this.#issuer
    const { jwtAlgorithms, jwtClockToleranceSeconds, jwtOwnerClaim } = this.#settings
    try {
      const { payload } = await jwtVerify(token, this.#keys, {
        issuer,
        audience,
        algorithms: [...jwtAlgorithms],
        clockTolerance: jwtClockToleranceSeconds,
        requiredClaims: ["exp", jwtOwnerClaim],
      })
      return payload
    } catch (error) {
      if (error instanceof UmbraError) throw error
      throw refused(rejectionReason(error))
    }
  }

  #toCaller(payload: JWTPayload): Omit<Caller, "isStillAllowed"> {
    const claim = this.#settings.jwtOwnerClaim
    const owner = payload[claim]
    if (!isOwnerName(owner)) throw refused(`has a claim "${claim}" that is not a valid owner name`)
    // Users of an issuer may choose their names; the local owner may use all secrets without a rule (docs/operations/security.md).
    if (owner === localOwner)
      throw refused(`has "${localOwner}" in the claim "${claim}"; this name is reserved for the operator`)
    const subject = isOwnerName(payload.sub) ? payload.sub : owner
    return { owner, scopes: parseScopes(payload), name: `jwt ${subject}`, limits: noLimitsOfItsOwn }
  }
}

/** `scope` as in OAuth, or a list in `scopes` or `permissions`. Unknown scopes are ignored. */
function parseScopes({ scope, scopes, permissions }: JWTPayload): Caller["scopes"] {
  const named = [typeof scope === "string" ? scope.split(/\s+/) : [], scopes, permissions].flat()
  return knownScopes.filter(known => named.includes(known))
}

/** Our own texts: those of the library may contain parts of the token. */
function rejectionReason(error: unknown): string {
  if (error instanceof errors.JWTExpired) return "has expired"
  if (error instanceof errors.JWTClaimValidationFailed) {
    if (error.claim === "nbf") return "is not valid yet"
    if (error.claim === "iss") return "was issued by another issuer"
    if (error.claim === "aud") return "is for another audience"
    return error.reason === "missing"
      ? `has no claim "${error.claim}"`
      : `has an invalid claim "${error.claim}"`
  }
  if (error instanceof errors.JOSEAlgNotAllowed) return "is signed with an algorithm that is not allowed"
  if (error instanceof errors.JWKSNoMatchingKey)
    return "is signed with a key that its issuer does not publish"
  if (error instanceof errors.JWSSignatureVerificationFailed) return "has an invalid signature"
  return "cannot be read"
}

function refused(reason: string): UmbraError {
  return new UmbraError("E630", `The JWT ${reason}. Get a new one from its issuer.`)
}

/** Shortest time between a failed fetch and the next. */
const AGAIN_MS = 1000

/**
 * The issuer's signing keys (JWKS): fetched on first use, cached for a while, and fetched again for an unknown key, so
 * that keys can rotate. Time, size and frequency of fetches are bounded whatever tokens are sent: the key id in a token
 * is not verified yet.
 */
function signingKeys(url: URL, settings: JwtSettings, log: Log): JWTVerifyGetKey {
  const remote = createRemoteJWKSet(url, {
    timeoutDuration: Math.ceil(settings.jwksTimeoutSeconds * 1000),
    cooldownDuration: settings.jwksCooldownSeconds * 1000,
    cacheMaxAge: settings.jwksMaxAgeSeconds * 1000,
    [customFetch]: boundedFetch(settings.jwksMaxBytes),
  })
  let failedAt = Number.NEGATIVE_INFINITY
  return async (header, token) => {
    const isKnown = remote.fresh && remote.jwks()?.keys.some(({ kid }) => kid === header.kid)
    if (!isKnown && performance.now() - failedAt < AGAIN_MS) throw unavailable(url)
    try {
      return await remote(header, token)
    } catch (error) {
      if (isOfTheToken(error)) throw error
      failedAt = performance.now()
      log.warn({ url: url.href, error: String(error) }, "cannot fetch the signing keys for JWTs")
      throw unavailable(url, error)
    }
  }
}

/** The keys were fetched, and this token's key is not among them. */
function isOfTheToken(error: unknown): boolean {
  return (
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JWKSMultipleMatchingKeys ||
    error instanceof errors.JOSENotSupported
  )
}

function unavailable(url: URL, cause?: unknown): UmbraError {
  const message = `Cannot fetch the signing keys for JWTs from ${url.host}. Try again shortly.`
  return new UmbraError("E645", message, { cause })
}

type Fetch = (url: string, options: RequestInit) => Promise<Response>

function boundedFetch(most: number): Fetch {
  return async (url, options) => {
    const answer = await fetch(url, options)
    const chunks: Uint8Array[] = []
    let size = 0
    for await (const chunk of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
      size += chunk.length
      if (size > most) throw new Error(`the response exceeds ${most} bytes (jwks_max_bytes)`)
      chunks.push(chunk)
    }
    return new Response(Buffer.concat(chunks), { status: answer.status === 200 ? 200 : 502 })
  }
}
