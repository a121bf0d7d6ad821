/**
 * JWTs of one issuer (S3; docs/decisions/0012).
 *
 * 1. Signed by a key of the issuer's JWKS with an asymmetric algorithm, for our audience, within its time, and with an
 *    end: a token without `exp` is none.
 * 2. The token alone is at fault for a 401. Keys that cannot be fetched are a 503: the same token may be good.
 * 3. One that was good is good until its end: it is not checked again, so a key that is withdrawn counts for new ones.
 */
import { createHash } from "node:crypto"
import { errors, type JWTPayload, jwtVerify } from "jose"
import { localOwner } from "../../core/facts.ts"
import { UmbraError } from "../../errors.ts"
import type { Log } from "../../log.ts"
import { noLimitsOfItsOwn } from "../http/limits.ts"
import type { Caller } from "./caller.ts"
import { signingKeys } from "./jwt-keys.ts"
import type { JwtIssuer, JwtSettings } from "./jwt-settings.ts"
import { isOwnerName, knownScopes } from "./tokens.ts"

const LONGEST = 8192
const MANY = 10_000

/** Three parts, or the five of an encrypted one. */
export function looksLikeJwt(token: string): boolean {
  return /^[\w-]+(\.[\w-]*){2}((\.[\w-]*){2})?$/.test(token)
}

export class Jwts {
  readonly #issuer: JwtIssuer
  readonly #settings: JwtSettings
  readonly #keys: ReturnType<typeof signingKeys>
  /** By hash; the one not asked for the longest goes first. */
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
    const caller = { ...this.#callerOf(payload), isStillAllowed: async () => until > Date.now() }
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
      throw refused(reasonOf(error))
    }
  }

  #callerOf(payload: JWTPayload): Omit<Caller, "isStillAllowed"> {
    const claim = this.#settings.jwtOwnerClaim
    const owner = payload[claim]
    if (!isOwnerName(owner)) throw refused(`has a claim "${claim}" that is no owner's name`)
    // Users of an issuer may choose their names; the local owner has what is given to nobody by name (docs/security.md).
    if (owner === localOwner)
      throw refused(`has "${localOwner}" in the claim "${claim}", which is the operator's own name`)
    const subject = isOwnerName(payload.sub) ? payload.sub : owner
    return { owner, scopes: scopesOf(payload), name: `jwt ${subject}`, limits: noLimitsOfItsOwn }
  }
}

/** `scope` as OAuth has it, or a list in `scopes` or `permissions`. What is none of ours is somebody else's. */
function scopesOf({ scope, scopes, permissions }: JWTPayload): Caller["scopes"] {
  const named = [typeof scope === "string" ? scope.split(/\s+/) : [], scopes, permissions].flat()
  return knownScopes.filter(known => named.includes(known))
}

/** Said in our words: the library's may hold what the token holds. */
function reasonOf(error: unknown): string {
  if (error instanceof errors.JWTExpired) return "has expired"
  if (error instanceof errors.JWTClaimValidationFailed) {
    if (error.claim === "nbf") return "is not valid yet"
    if (error.claim === "iss") return "is of another issuer"
    if (error.claim === "aud") return "is for another audience"
    return error.reason === "missing" ? `has no claim "${error.claim}"` : `has a wrong claim "${error.claim}"`
  }
  if (error instanceof errors.JOSEAlgNotAllowed) return "is signed with an algorithm that is not allowed"
  if (error instanceof errors.JWKSNoMatchingKey)
    return "is signed with a key that the issuer does not publish"
  if (error instanceof errors.JWSSignatureVerificationFailed) return "has a wrong signature"
  return "cannot be read"
}

function refused(reason: string): UmbraError {
  return new UmbraError("E630", `The JWT ${reason}. Get a new one from its issuer.`)
}
