/**
 * Who asks, and whether they may (S3). Runs before a body is read.
 *
 * 1. A route that does not say which scope it needs is not served: forgetting it closes a door, never opens one.
 * 2. With no token in the store, and on loopback only, requests without a token are the local owner's. Then the browser
 *    of the person at this machine is the danger: a page from elsewhere must not reach us, by a name that resolves to
 *    127.0.0.1 (Host), by a form (Origin), or by a link or an image, which have no Origin (Sec-Fetch-Site).
 * 3. The local token counts for connections from this machine only. Who has it could read the folder itself, so it sees
 *    the jobs of every owner, and acts for the owner that `Umbra-Owner` names.
 */
import type { FastifyRequest } from "fastify"
import { localOwner } from "../../core/facts.ts"
import { UmbraError } from "../../errors.ts"
import type { TokenLimits } from "../../journal/port/registry.ts"
import { isLoopback } from "../http/loopback.ts"
import { Rate } from "../http/rate.ts"
import { type Jwts, looksLikeJwt } from "./jwt.ts"
import { isOwnerName, type LocalToken, type Scope, type Tokens } from "./tokens.ts"

export interface Caller {
  readonly owner: string
  readonly scopes: readonly Scope[]
  /** For histories: who did it. */
  readonly name: string
  /** Those of its token; null: it came without one, from this machine, and has none. */
  readonly limits: TokenLimits | null
  /** For what stays open: would it be let in again? */
  isStillAllowed(): Promise<boolean>
  /** Sees jobs and tokens of every owner; names of workflows are still those of `owner`. */
  readonly everyOwner?: boolean
}

/** Whose jobs the caller may see: what to add to a filter. */
export function ownersOf({ owner, everyOwner }: Caller): { readonly owner?: string } {
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
    /** What the caller's token must allow; `none`: anybody. */
    scope?: Scope | "none"
    /** A signature over the body is its proof: it may come by any host name, through a tunnel too. */
    isSigned?: boolean
  }
}

const localCaller: Caller = {
  owner: localOwner,
  scopes: ["admin"],
  name: "local",
  limits: null,
  isStillAllowed: async () => true,
}

/** Wrong tokens a second from one address; a look-up each. */
const GUESSES = 10

export interface Admission {
  readonly tokens: Tokens
  /** null: no JWTs are taken. */
  readonly jwts: Jwts | null
  /** Requests without a token are the local owner's. */
  readonly isOpen: boolean
  /** For tokens that say nothing themselves, and for JWTs; null: none. */
  readonly rateLimit: number | null
  readonly localToken?: LocalToken | undefined
}

export function admission({ tokens, jwts, isOpen, rateLimit, localToken }: Admission) {
  const guesses = new Rate()
  const rate = new Rate()

  const mustBeInTime = (key: string, own: number | null): void => {
    const perSecond = own ?? rateLimit
    if (perSecond !== null) mustWait(rate.take(key, perSecond))
  }

  const byToken = async (request: FastifyRequest, token: string): Promise<Caller> => {
    if (localToken !== undefined && isFromHere(request) && localToken.matches(token)) return atHome(request)
    // Behind a proxy all come from one address: who is known must not wait for somebody else's guesses.
    const wait = guesses.look(request.ip, GUESSES)
    if (wait > 0 && !tokens.hasBeenGood(token)) mustWait(wait)
    const row = await tokens.find(token)
    if (row === null) {
      guesses.take(request.ip, GUESSES)
      throw new UmbraError("E630", "The token is not known or was revoked. `umbra token create` makes one.")
    }
    mustBeInTime(row.id, row.rateLimit)
    return {
      owner: row.owner,
      scopes: row.scopes as readonly Scope[],
      name: `token ${row.id}`,
      limits: row,
      isStillAllowed: async () => (await tokens.find(token)) !== null,
    }
  }

  /** Nothing to guess here: a signature is right or wrong. The subject is limited, since its tokens come and go. */
  const byJwt = async (token: string): Promise<Caller> => {
    if (jwts === null)
      throw new UmbraError(
        "E630",
        "This looks like a JWT, and the server takes none. Set jwt_issuer, jwt_audience and jwks_url, or use an API token.",
      )
    const caller = await jwts.caller(token)
    mustBeInTime(caller.name, null)
    return caller
  }

  return async (request: FastifyRequest): Promise<void> => {
    const { scope } = request.routeOptions.config
    mustNameOneHost(request)
    if (isOpen && !request.routeOptions.config.isSigned) mustComeFromHere(request)
    if (scope === "none" || request.is404) return
    const token = bearer(request.headers.authorization)
    if (token === null && !isOpen)
      throw new UmbraError(
        "E630",
        "Send a token: `Authorization: Bearer umbra_…`. `umbra token create` makes one.",
      )
    if (token === null) request.caller = localCaller
    else request.caller = await (looksLikeJwt(token) ? byJwt(token) : byToken(request, token))
    if (scope === undefined || !allows(request.caller, scope))
      throw new UmbraError(
        "E631",
        `This needs a token with scope ${scope ?? "admin"}; ${has(request.caller)}.`,
      )
  }
}

/** A connection that has the same address at both ends has not left the machine. */
function isFromHere({ socket }: FastifyRequest): boolean {
  const { remoteAddress = "", localAddress } = socket
  return isLoopback(remoteAddress.replace(/^::ffff:/, "")) || remoteAddress === localAddress
}

function atHome({ headers }: FastifyRequest): Caller {
  const named = headers["umbra-owner"]
  if (named === undefined) return { ...localCaller, everyOwner: true }
  const owner = decoded(String(named))
  if (!isOwnerName(owner))
    throw new UmbraError("E633", "Umbra-Owner must be the name of an owner, percent-encoded.")
  return { ...localCaller, owner }
}

/** Headers hold no more than Latin-1: other names come percent-encoded. "" is the name of nobody. */
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
  return scopes.length === 0 ? "yours has none" : `yours has ${scopes.join(", ")}`
}

/** null: none was sent. Anything but a bearer token is a token that is not known. */
function bearer(header: string | undefined): string | null {
  if (header === undefined) return null
  return /^bearer +(\S+) *$/i.exec(header)?.[1] ?? ""
}

function mustWait(seconds: number): void {
  if (seconds > 0)
    throw new UmbraError("E632", "Too many requests. Wait as long as Retry-After says.", {
      details: { retry_after: Math.ceil(seconds) },
    })
}

const here = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i

/** Of two a proxy may have looked at the other one. The target may name one too: `GET http://host/jobs`. */
function mustNameOneHost({ raw: { rawHeaders, url = "" }, headers }: FastifyRequest): void {
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2) if (rawHeaders[i]!.toLowerCase() === "host") hosts++
  if (hosts > 1) throw new UmbraError("E633", "The request has more than one Host header. Send one.")
  const named = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i.exec(url)?.[1]
  if (named !== undefined && named.toLowerCase() !== headers.host?.toLowerCase())
    throw new UmbraError(
      "E633",
      "The request's target names another host than its Host header. Send the path alone.",
    )
}

/** Browsers send it with every request; `none` is what a person typed. */
const fromHere = [undefined, "same-origin", "none"]

function mustComeFromHere(request: FastifyRequest): void {
  const { host, origin, "sec-fetch-site": site } = request.headers
  if (!here.test(host ?? ""))
    throw new UmbraError("E631", "Without tokens only 127.0.0.1, [::1] and localhost are answered.")
  if (origin !== undefined && origin.toLowerCase() !== `http://${host}`.toLowerCase())
    throw new UmbraError("E631", "Without tokens a page from another origin is not answered.")
  if (!fromHere.includes(site as string | undefined))
    throw new UmbraError("E631", "Without tokens a page from another site is not answered (Sec-Fetch-Site).")
}
