/**
 * Logins of people in browsers (docs/decisions/0058): an API token or a JWT is exchanged for a cookie with a random id.
 *
 * 1. The store has the sha256 of the id alone. A session ends after 12 hours, with its token, or by logging out; every
 *    process that serves the API sees that with the next request.
 * 2. Browsers send cookies to every port of a host and, for pages of the same site, whatever SameSite says. So a cookie
 *    counts only if the request comes from a page of the server's own origin: `Origin`, or `Sec-Fetch-Site`. Browsers send
 *    neither with a GET over plain HTTP to another machine; then `Umbra-Csrf: 1` is needed, which pages of other origins
 *    cannot send. Methods that change something need `Umbra-Csrf: 1` and, with a body, JSON, in any case.
 * 3. A login always creates a new id, and ends the session whose cookie came with it: nobody can choose the id of another.
 */
import { randomBytes } from "node:crypto"
import type { FastifyRequest } from "fastify"
import { SingleFlight } from "../../engine/single-flight.ts"
import { UmbraError } from "../../errors.ts"
import type { Registry, SessionRow, TokenLimits } from "../../journal/port/registry.ts"
import { noLimitsOfItsOwn } from "../http/limits.ts"
import type { Caller } from "./caller.ts"
import { hashToken, type Scope } from "./tokens.ts"

const HOURS_12 = 12 * 3600 * 1000
/** Of one token or subject; a login more ends the oldest. */
const KEPT = 100
const pattern = /^[A-Za-z0-9_-]{43}$/

type Found = SessionRow & TokenLimits

export class Sessions {
  readonly #registry: Registry
  readonly #answers = new SingleFlight<Found | null>()

  constructor(registry: Registry) {
    this.#registry = registry
  }

  /** Returns the value of the header Set-Cookie. */
  async create(request: FastifyRequest, caller: Caller): Promise<{ cookie: string; expiresAt: number }> {
    const id = randomBytes(32).toString("base64url")
    const createdAt = Date.now()
    const expiresAt = Math.min(createdAt + HOURS_12, caller.expiresAt ?? Number.POSITIVE_INFINITY)
    await this.end(request)
    await this.#registry.putSession({
      hash: hashToken(id),
      tokenId: caller.tokenId ?? null,
      subject: caller.name,
      owner: caller.owner,
      scopes: caller.scopes,
      createdAt,
      expiresAt,
      keep: KEPT,
    })
    return { cookie: formatCookie(request, id, Math.floor((expiresAt - createdAt) / 1000)), expiresAt }
  }

  /** Returns the value of the header Set-Cookie that removes the cookie. */
  async end(request: FastifyRequest): Promise<string> {
    const id = idIn(request)
    if (id !== null) await this.#registry.deleteSession(hashToken(id))
    return formatCookie(request, "", 0)
  }

  isNamed(request: FastifyRequest): boolean {
    return idIn(request) !== null
  }

  /** null: no session, or one that has ended. Throws if the request may come from a page of another origin. */
  async caller(request: FastifyRequest, acceptsJwts: boolean): Promise<Caller | null> {
    const id = idIn(request)
    if (id === null) return null
    mustBeSameOrigin(request)
    const row = await this.#find(id)
    if (row === null || (row.tokenId === null && !acceptsJwts)) return null
    const { owner, scopes, subject: name, tokenId, expiresAt } = row
    return {
      owner,
      scopes: scopes as readonly Scope[],
      name,
      limits: tokenId === null ? noLimitsOfItsOwn : row,
      expiresAt,
      isSession: true,
      tokenId: tokenId ?? undefined,
      isStillAllowed: async () => (await this.#find(id)) !== null,
    }
  }

  #find(id: string): Promise<Found | null> {
    const hash = hashToken(id)
    return this.#answers.run(hash, () => this.#registry.readSession({ hash, at: Date.now() }))
  }
}

const safe: ReadonlySet<string> = new Set(["GET", "HEAD"])

/** E631 if the request may come from a page of another origin. */
export function mustBeSameOrigin({ method, headers }: FastifyRequest): void {
  const { origin, host = "", "sec-fetch-site": site, "umbra-csrf": csrf, "content-type": type } = headers
  const [, scheme, named] = /^(https?):\/\/(.+)$/i.exec(origin ?? "") ?? []
  if (origin !== undefined && (scheme === undefined || !isSameHost(named!, host, scheme)))
    throw refused("Its Origin is not that of this server; a proxy must pass the header Host on unchanged.")
  if (site !== undefined && site !== "same-origin") throw refused(`It has Sec-Fetch-Site: ${String(site)}.`)
  const isProven = origin !== undefined || site !== undefined || csrf === "1"
  if (!isProven) throw refused("It has none of the headers Origin, Sec-Fetch-Site and Umbra-Csrf.")
  if (safe.has(method)) return
  if (csrf !== "1") throw refused("Methods that change something need the header Umbra-Csrf: 1.")
  // Pages of other origins cannot send either without asking first.
  if (type !== undefined && !/^application\/(json|yaml) *(;|$)/i.test(type))
    throw refused("Send JSON with Content-Type: application/json.")
}

function refused(why: string): UmbraError {
  return new UmbraError(
    "E631",
    `A cookie is accepted only from the dashboard's own pages. ${why} Programs send an API token instead.`,
  )
}

/** Browsers leave out the default port of the scheme, proxies may add it. */
function isSameHost(a: string, b: string, scheme: string): boolean {
  const whole = (host: string) =>
    (/:\d+$/.test(host) ? host : `${host}:${defaultPorts[scheme]}`).toLowerCase()
  return whole(a) === whole(b)
}

const defaultPorts: Readonly<Record<string, string>> = { http: "80", https: "443" }

/**
 * Cookies do not tell ports apart, so the name has the port: two servers on one host do not overwrite each other's. Over
 * HTTPS the name begins with `__Host-`, which no other host and no page over HTTP can set.
 */
function cookieName({ headers: { host = "" } }: FastifyRequest, isSecure: boolean): string {
  const port = /:(\d+)$/.exec(host)?.[1] ?? (isSecure ? "443" : "80")
  return `${isSecure ? "__Host-" : ""}umbra_session_${port}`
}

/** The server itself uses HTTP; a header of the browser, or of the proxy, shows whether it is reached over HTTPS. */
function isHttps({ headers: { origin, "x-forwarded-proto": proto } }: FastifyRequest): boolean {
  return origin === undefined ? proto === "https" : /^https:/i.test(origin)
}

function formatCookie(request: FastifyRequest, id: string, seconds: number): string {
  const isSecure = isHttps(request)
  const flags = `Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${isSecure ? "; Secure" : ""}`
  return `${cookieName(request, isSecure)}=${id}; ${flags}`
}

/** null: none, or several of the same name: a page of another host below the same domain may have set one of them. */
function idIn(request: FastifyRequest): string | null {
  const names = [cookieName(request, true), ...(isHttps(request) ? [] : [cookieName(request, false)])]
  const cookies = (request.headers.cookie ?? "").split(";").map(pair => pair.trim().split("=", 2))
  for (const name of names) {
    const found = cookies.filter(([key]) => key === name)
    if (found.length > 0) return found.length === 1 && pattern.test(found[0]![1] ?? "") ? found[0]![1]! : null
  }
  return null
}
