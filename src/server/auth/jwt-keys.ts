/**
 * The issuer's signing keys (JWKS): fetched when first needed, kept for a while, fetched again for a key that is not
 * known, so that keys may rotate. Bounded in time, in size, and in how often, whatever tokens are sent: a token names
 * its key before anybody has checked it.
 */
import { createRemoteJWKSet, customFetch, errors, type JWTVerifyGetKey } from "jose"
import { UmbraError } from "../../errors.ts"
import type { Log } from "../../log.ts"
import type { JwtSettings } from "./jwt-settings.ts"

/** After a fetch that failed, the next. */
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
      log.warn({ url: url.href, error: String(error) }, "the signing keys of JWTs cannot be fetched")
      throw unavailable(url, error)
    }
  }
}

/** The keys are there; none of them is this token's. */
function isOfTheToken(error: unknown): boolean {
  return (
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JWKSMultipleMatchingKeys ||
    error instanceof errors.JOSENotSupported
  )
}

function unavailable(url: URL, cause?: unknown): UmbraError {
  const message = `The keys that JWTs are checked with cannot be fetched from ${url.host} right now. Try again shortly.`
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
      if (size > most) throw new Error(`the answer is larger than ${most} bytes (jwks_max_bytes)`)
      chunks.push(chunk)
    }
    return new Response(Buffer.concat(chunks), { status: answer.status === 200 ? 200 : 502 })
  }
}
