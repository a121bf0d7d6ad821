/**
 * The issuer's signing keys (JWKS): fetched on first use, cached for a while, and fetched again for an unknown key, so
 * that keys can rotate. Time, size and frequency of fetches are bounded whatever tokens are sent: the key id in a token
 * is not verified yet.
 */
import { createRemoteJWKSet, customFetch, errors, type JWTVerifyGetKey } from "jose"
import { UmbraError } from "../../errors.ts"
import type { Log } from "../../log.ts"
import type { JwtSettings } from "./jwt-settings.ts"

/** Shortest time between a failed fetch and the next. */
const AGAIN_MS = 1000

export function signingKeys(url: URL, settings: JwtSettings, log: Log): JWTVerifyGetKey {
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
