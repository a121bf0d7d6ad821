/**
 * API tokens (S3). The text of a token is shown once, when the token is created; the store has only its sha256. A token
 * has 256 random bits and cannot be guessed, so a fast hash is enough.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto"
import { isJobId, newJobId } from "../../engine/ids.ts"
import { SingleFlight } from "../../engine/single-flight.ts"
import { UmbraError } from "../../errors.ts"
import type { Registry, TokenFilter, TokenLimits, TokenRow } from "../../journal/port/registry.ts"
import { checkLimits, limitsView, noLimitsOfItsOwn } from "../http/limits.ts"

export const knownScopes = ["read", "submit", "manage", "admin"] as const
export type Scope = (typeof knownScopes)[number]

export const ownerPattern = /^[^\p{Cc}\p{Surrogate}]{1,200}$/u

export function isOwnerName(owner: unknown): owner is string {
  return typeof owner === "string" && ownerPattern.test(owner)
}

const PREFIX = "umbra_"
const MANY = 100_000
const pattern = /^umbra_[A-Za-z0-9_-]{43}$/

export class Tokens {
  readonly #registry: Registry
  readonly #answers = new SingleFlight<TokenRow | null>()
  /** Hashes of tokens that were valid at their last look-up. They may have been revoked since. */
  readonly #seen = new Set<string>()

  constructor(registry: Registry) {
    this.#registry = registry
  }

  /** The text is not stored: if it is lost, create a new token. */
  async create(wanted: {
    readonly owner: string
    readonly scopes: readonly Scope[]
    readonly limits?: TokenLimits
  }): Promise<{ readonly token: string; readonly row: TokenRow }> {
    const { owner, limits = noLimitsOfItsOwn } = wanted
    const { rateLimit, maxUnfinishedJobs, maxBodyBytes } = limits
    if (!isOwnerName(owner))
      throw new UmbraError("E309", "an owner name has 1 to 200 characters and no control characters.")
    checkLimits(limits)
    const token = newToken()
    const now = Date.now()
    const row: TokenRow = {
      id: newJobId(0, now),
      hash: hashToken(token),
      owner,
      scopes: knownScopes.filter(scope => wanted.scopes.includes(scope)),
      lastFour: token.slice(-4),
      createdAt: now,
      revokedAt: null,
      rateLimit,
      maxUnfinishedJobs,
      maxBodyBytes,
    }
    await this.#registry.putToken(row)
    return { token, row }
  }

  /** null: unknown or revoked. A revocation affects every request that arrives after it. */
  async find(token: string): Promise<TokenRow | null> {
    if (!pattern.test(token)) return null
    const hash = hashToken(token)
    const row = await this.#answers.run(hash, () => this.#registry.readToken(hash))
    const isGood = row !== null && timingSafeEqual(Buffer.from(row.hash), Buffer.from(hash))
    if (!isGood) this.#seen.delete(hash)
    else if (this.#seen.size < MANY) this.#seen.add(hash)
    return isGood ? row : null
  }

  /** Was the token valid at its last look-up? Then it does not count as a guess. */
  hasBeenGood(token: string): boolean {
    return this.#seen.size > 0 && this.#seen.has(hashToken(token))
  }

  /** Of all owners, or of one. Oldest first, including revoked tokens. */
  list(filter: TokenFilter = {}): Promise<TokenRow[]> {
    return this.#registry.listTokens(filter)
  }

  /** `owner`: only if the token belongs to this owner. */
  async revoke(id: string, { owner }: { readonly owner?: string } = {}): Promise<void> {
    const isTheirs = owner === undefined || (await this.list({ owner })).some(row => row.id === id)
    if (!isTheirs || !isJobId(id) || !(await this.#registry.revokeToken({ id, at: Date.now() })))
      throw noSuchToken(id)
  }

  async anyInUse(): Promise<boolean> {
    return (await this.#registry.listTokens()).some(({ revokedAt }) => revokedAt === null)
  }
}

function newToken(): string {
  return PREFIX + randomBytes(32).toString("base64url")
}

/**
 * A token of this process alone, never stored. Its file in the folder has mode 0600: a user who can read it can also open
 * the folder's database, so the token gives no access beyond that of the file system.
 */
export class LocalToken {
  readonly text = newToken()
  readonly #hash = hashToken(this.text)

  matches(token: string): boolean {
    return timingSafeEqual(Buffer.from(hashToken(token)), Buffer.from(this.#hash))
  }
}

export function tokenView(row: TokenRow) {
  const { id, owner, scopes: allowed, lastFour, createdAt, revokedAt } = row
  const time = (at: number) => new Date(at).toISOString()
  return {
    id,
    owner,
    scopes: allowed,
    last_four: lastFour,
    created_at: time(createdAt),
    revoked_at: revokedAt === null ? null : time(revokedAt),
    ...limitsView(row),
  }
}

function noSuchToken(id: string): UmbraError {
  return new UmbraError("E320", `There is no token ${id}. \`umbra token list\` shows the ids.`)
}

export function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex")
}
