/**
 * Authenticates and authorizes each request (S3), before its body is read.
 *
 * 1. A route that does not declare its scope is not served: a forgotten scope closes the route, never opens it.
 * 2. If the store has no token, and on loopback only, requests without a token belong to the local owner. The danger is
 *    then the browser on this machine: a page of another origin must not reach the server, neither through a name that
 *    resolves to 127.0.0.1 (checked: Host), nor through a form (Origin), nor through a link or an image, which have no
 *    Origin (Sec-Fetch-Site).
 * 3. A cookie authenticates a request if no token was sent, and only from a page of the server's own origin (sessions.ts).
 * 4. The local token is valid for connections from this machine only. Its holder could read the folder itself, so it
 *    sees the jobs of every owner, and acts for the owner that `Umbra-Owner` names.
 */
import type { FastifyRequest, onRequestHookHandler } from "fastify"
import { localOwner } from "../../core/facts.ts"
import { UmbraError } from "../../errors.ts"
import type { TokenLimits } from "../../journal/port/registry.ts"
import { isLoopback } from "../http/limits.ts"
import type { Jwts } from "./jwt.ts"
import { looksLikeJwt } from "./jwt-settings.ts"
import type { Sessions } from "./sessions.ts"
import { isOwnerName, type LocalToken, type Scope, type Tokens } from "./tokens.ts"

export interface Caller {
  readonly owner: string
  readonly scopes: readonly Scope[]
  /** The author, for histories. */
  readonly name: string
  /** The limits of its token; null: the request came without a token, from this machine, and has no limits. */
  readonly limits: TokenLimits | null
  /** Authenticates again, for connections that stay open. */
  isStillAllowed(): Promise<boolean>
  /** Sees jobs and tokens of every owner; names of workflows are still those of `owner`. */
  readonly everyOwner?: boolean
  /** When its JWT or session ends. */
  readonly expiresAt?: number
  /** The request was authenticated by a cookie. */
  readonly isSession?: boolean
  /** The API token, also that of a session. */
  readonly tokenId?: string | undefined
  readonly isLocalToken?: boolean
}

/** The owner whose jobs the caller may see, as part of a filter. */
export function ownerFilter({ owner, everyOwner }: Caller): { readonly owner?: string } {
  return everyOwner ? {} : { owner }
}

export function sees(caller: Caller, owner: string): boolean {
  return caller.everyOwner === true || caller.owner === owner
}

declare module "fastify" {
  interface FastifyRequest {
    caller: Caller
  }
  interface FastifyContextConfig {
    /** The scope that the caller's token needs; `none`: no token. */
    scope?: Scope | "none"
    /** The body's signature authenticates the request, so any host name is accepted, also that of a tunnel. */
    isSigned?: boolean
    /** A file of the dashboard, which is the same for everyone: a link on a page of another site may lead to it. */
    isFile?: boolean
  }
}

const localCaller: Caller = {
  owner: localOwner,
  scopes: ["admin"],
  name: "local",
  limits: null,
  isStillAllowed: async () => true,
}

/** Wrong tokens per second from one address; each costs a look-up. */
const GUESSES = 10

export interface Admission {
  readonly tokens: Tokens
  /** null: JWTs are not accepted. */
  readonly jwts: Jwts | null
  /** Requests without a token belong to the local owner. */
  readonly isOpen: boolean
  /** For JWTs, and for tokens without a limit of their own; null: no limit. */
  readonly rateLimit: number | null
  readonly localToken?: LocalToken | undefined
  readonly sessions: Sessions
}

export interface Admitting {
  /** For every request, before its body is read. */
  readonly hook: onRequestHookHandler
  /** null: the request has neither a token nor a session, and the server is not open. */
  readonly identifyCaller: (request: FastifyRequest) => Promise<Caller | null> | Caller
  /** The caller that this token or JWT authenticates. */
  readonly callerWith: (request: FastifyRequest, token: string) => Promise<Caller>
}

export function admission(options: Admission): Admitting {
  const { tokens, jwts, isOpen, rateLimit, localToken, sessions } = options
  const guesses = new Rate()
  const rate = new Rate()

  const mustBeInTime = (key: string, own: number | null): void => {
    const perSecond = own ?? rateLimit
    if (perSecond !== null) mustWait(rate.take(key, perSecond))
  }

  const byToken = async (request: FastifyRequest, token: string): Promise<Caller> => {
    if (localToken !== undefined && isFromHere(request) && localToken.matches(token)) return atHome(request)
    // Behind a proxy all requests come from one address: known tokens must not be slowed down by wrong ones.
    const wait = guesses.look(request.ip, GUESSES)
    if (wait > 0 && !tokens.hasBeenGood(token)) mustWait(wait)
    const row = await tokens.find(token)
    if (row === null) {
      guesses.take(request.ip, GUESSES)
      throw new UmbraError("E630", "Unknown or revoked token. Create one with `umbra token create`.")
    }
    mustBeInTime(row.id, row.rateLimit)
    return {
      owner: row.owner,
      scopes: row.scopes as readonly Scope[],
      name: `token ${row.id}`,
      tokenId: row.id,
      limits: row,
      isStillAllowed: async () => (await tokens.find(token)) !== null,
    }
  }

  /** A JWT cannot be guessed, so wrong ones are not counted. The rate limit is by subject, since its tokens change. */
  const byJwt = async (token: string): Promise<Caller> => {
    if (jwts === null)
      throw new UmbraError(
        "E630",
        "The server does not accept JWTs. Set jwt_issuer, jwt_audience and jwks_url, or use an API token.",
      )
    const caller = await jwts.caller(token)
    mustBeInTime(caller.name, null)
    return caller
  }

  const bySession = async (request: FastifyRequest): Promise<Caller | null> => {
    const caller = await sessions.caller(request, jwts !== null)
    if (caller !== null) mustBeInTime(caller.tokenId ?? caller.name, caller.limits?.rateLimit ?? null)
    return caller
  }

  const callerWith = (request: FastifyRequest, token: string): Promise<Caller> =>
    looksLikeJwt(token) ? byJwt(token) : byToken(request, token)

  const authenticated = async (request: FastifyRequest, token: string | null): Promise<Caller | null> => {
    const caller = await (token === null ? bySession(request) : callerWith(request, token))
    return caller === null ? null : lookingAt(request, caller)
  }

  const identifyCaller: Admitting["identifyCaller"] = request => {
    const token = bearer(request.headers.authorization)
    return token === null && isOpen ? lookingAt(request, localCaller) : authenticated(request, token)
  }

  const hook: onRequestHookHandler = (request, _, done) => {
    const { scope, isSigned, isFile } = request.route
    mustNameOneHost(request)
    if (isOpen && !isSigned) mustComeFromHere(request, isFile === true)
    if (scope === "none" || request.is404) return done()
    const caller = identifyCaller(request)
    if (caller instanceof Promise) return caller.then(found => admit(request, found, scope))
    admit(request, caller, scope)
    done()
  }

  const admit = (request: FastifyRequest, caller: Caller | null, scope: Scope | undefined): void => {
    if (caller === null)
      throw new UmbraError(
        "E630",
        sessions.isNamed(request)
          ? "The session has ended. Log in again."
          : "Missing token. Send `Authorization: Bearer umbra_…`; create a token with `umbra token create`.",
      )
    request.caller = caller
    if (scope === undefined || !allows(request.caller, scope))
      throw new UmbraError(
        "E631",
        `This request needs a token with scope ${scope ?? "admin"}; ${has(request.caller)}.`,
      )
  }
  return { hook, identifyCaller, callerWith }
}

/**
 * The operator may view what another owner has: tokens and sessions of the local owner with scope admin, and programs
 * on an open server. Only for reading; the local token has its own rule.
 */
function lookingAt({ headers }: FastifyRequest, caller: Caller): Caller {
  if (headers["umbra-owner"] === undefined || caller.isLocalToken) return caller
  const owner = ownerIn(headers)
  if (owner === caller.owner) return caller
  if (caller.owner !== localOwner || !caller.scopes.includes("admin"))
    throw new UmbraError(
      "E631",
      `Umbra-Owner needs a token of the owner "${localOwner}" with scope admin. Remove the header, or use another token.`,
    )
  return { ...caller, owner, scopes: ["read"] }
}

/** A connection with the same address at both ends has not left the machine. */
function isFromHere({ socket }: FastifyRequest): boolean {
  const { remoteAddress = "", localAddress } = socket
  return isLoopback(remoteAddress.replace(/^::ffff:/, "")) || remoteAddress === localAddress
}

function atHome({ headers }: FastifyRequest): Caller {
  const caller = { ...localCaller, isLocalToken: true }
  return headers["umbra-owner"] === undefined
    ? { ...caller, everyOwner: true }
    : { ...caller, owner: ownerIn(headers) }
}

function ownerIn(headers: FastifyRequest["headers"]): string {
  const owner = decoded(String(headers["umbra-owner"]))
  if (!isOwnerName(owner))
    throw new UmbraError("E633", "Umbra-Owner must be the name of an owner, percent-encoded.")
  return owner
}

/** Headers are Latin-1, so other names are percent-encoded. "" is not a valid name. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ""
  }
}

function allows({ scopes }: Caller, scope: Scope): boolean {
  return scopes.includes(scope) || scopes.includes("admin")
}

function has({ scopes }: Caller): string {
  return scopes.length === 0 ? "your token has no scope" : `your token has ${scopes.join(", ")}`
}

/** null: no token was sent. Any scheme other than Bearer counts as an unknown token. */
function bearer(header: string | undefined): string | null {
  if (header === undefined) return null
  return /^bearer +(\S+) *$/i.exec(header)?.[1] ?? ""
}

export function mustWait(seconds: number): void {
  if (seconds > 0)
    throw new UmbraError("E632", "Too many requests. Wait as long as Retry-After says.", {
      details: { retry_after: Math.ceil(seconds) },
    })
}

const here = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i

/** Of two Host headers, a proxy may have checked the other one. The target may name a host too: `GET http://host/jobs`. */
function mustNameOneHost({ raw: { rawHeaders, url = "" }, headers }: FastifyRequest): void {
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]!.length === 4 && rawHeaders[i]!.toLowerCase() === "host") hosts++
  if (hosts > 1) throw new UmbraError("E633", "The request has more than one Host header. Send exactly one.")
  if (url.startsWith("/")) return
  const named = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i.exec(url)?.[1]
  if (named !== undefined && named.toLowerCase() !== headers.host?.toLowerCase())
    throw new UmbraError(
      "E633",
      "The request target and the Host header name different hosts. Send only the path as target.",
    )
}

/** Browsers send Sec-Fetch-Site with every request; `none` means that the user typed the URL. */
const fromHere = [undefined, "same-origin", "none"]

function mustComeFromHere(request: FastifyRequest, isFile: boolean): void {
  const { host, origin, "sec-fetch-site": site } = request.headers
  if (!here.test(host ?? ""))
    throw new UmbraError(
      "E631",
      "A server without tokens accepts requests for 127.0.0.1, [::1] and localhost only.",
    )
  if (isFile) return
  if (origin !== undefined && origin.toLowerCase() !== `http://${host}`.toLowerCase())
    throw new UmbraError("E631", "A server without tokens rejects requests from pages of another origin.")
  if (!fromHere.includes(site as string | undefined))
    throw new UmbraError(
      "E631",
      "A server without tokens rejects requests from pages of another site (Sec-Fetch-Site).",
    )
}

interface Bucket {
  left: number
  at: number
  perSecond: number
}

/** A token bucket per key: a rate per second, with a burst of twice that and of at least one. Idle keys use no memory. */
export class Rate {
  readonly #now: () => number
  readonly #buckets = new Map<string, Bucket>()

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Seconds to wait; 0: allowed, and one token was taken. */
  take(key: string, perSecond: number): number {
    const bucket = this.#filled(key, perSecond)
    if (bucket.left < 1) return (1 - bucket.left) / perSecond
    bucket.left--
    return 0
  }

  /** As `take`, but takes no token. */
  look(key: string, perSecond: number): number {
    const { left } = this.#filled(key, perSecond)
    return left < 1 ? (1 - left) / perSecond : 0
  }

  #filled(key: string, perSecond: number): Bucket {
    const now = this.#now()
    const bucket = this.#buckets.get(key) ?? { left: burst(perSecond), at: now, perSecond }
    bucket.left = tokensLeft(bucket, now)
    bucket.at = now
    if (this.#buckets.size > MANY) this.#forget(now)
    this.#buckets.set(key, bucket)
    return bucket
  }

  /** A full bucket has no information and is removed. */
  #forget(now: number): void {
    for (const [key, bucket] of this.#buckets)
      if (tokensLeft(bucket, now) >= burst(bucket.perSecond)) this.#buckets.delete(key)
    if (this.#buckets.size > MANY) this.#buckets.clear()
  }
}

/** Even a slow rate allows one request. */
function burst(perSecond: number): number {
  return Math.max(1, 2 * perSecond)
}

function tokensLeft({ left, at, perSecond }: Bucket, now: number): number {
  return Math.min(burst(perSecond), left + ((now - at) / 1000) * perSecond)
}

const MANY = 10_000
