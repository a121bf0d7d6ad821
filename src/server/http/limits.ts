/**
 * What one token may use: requests per second, unfinished jobs, bytes per body. The limits are stored with the token; a
 * limit that is not set is the server's default. A JWT has no row, so the defaults apply to its subject. A user of this
 * machine without a token has no limits.
 */
import { UmbraError } from "../../errors.ts"
import type { TokenLimits } from "../../journal/port/registry.ts"
import type { ServerSettings } from "../settings.ts"

export const noLimitsOfItsOwn: TokenLimits = { rateLimit: null, maxUnfinishedJobs: null, maxBodyBytes: null }

/** Upper bounds: a larger number is a typing error, and a body must fit into one string. */
export const bounds = {
  rateLimit: 1_000_000,
  maxUnfinishedJobs: 1_000_000_000,
  maxBodyBytes: 256 * 1024 * 1024,
} as const

const names = {
  rateLimit: "rate_limit",
  maxUnfinishedJobs: "max_unfinished_jobs",
  maxBodyBytes: "max_body_bytes",
} as const

const keys = Object.keys(names) as (keyof TokenLimits)[]

/** Their names in requests and answers. */
export interface LimitsView {
  readonly rate_limit: number | null
  readonly max_unfinished_jobs: number | null
  readonly max_body_bytes: number | null
}

export type WantedLimits = { readonly [K in keyof LimitsView]?: number | undefined }

export function toTokenLimits(wanted: WantedLimits): TokenLimits {
  return {
    rateLimit: wanted.rate_limit ?? null,
    maxUnfinishedJobs: wanted.max_unfinished_jobs ?? null,
    maxBodyBytes: wanted.max_body_bytes ?? null,
  }
}

export function limitsView({ rateLimit, maxUnfinishedJobs, maxBodyBytes }: TokenLimits): LimitsView {
  return { rate_limit: rateLimit, max_unfinished_jobs: maxUnfinishedJobs, max_body_bytes: maxBodyBytes }
}

/** E309. Checked at run time, since callers need not use TypeScript. */
export function checkLimits(limits: TokenLimits): void {
  for (const key of keys) {
    const limit: unknown = limits[key]
    if (limit === null) continue
    const isWhole = key === "rateLimit" || Number.isInteger(limit)
    if (typeof limit !== "number" || !isWhole || !(limit > 0 && limit <= bounds[key]))
      throw new UmbraError(
        "E309",
        `${names[key]} must be a ${key === "rateLimit" ? "" : "whole "}number above 0 and not above ${bounds[key]}.`,
      )
  }
}

/**
 * The limits of a token created over HTTP: they cannot exceed those of the token that creates it. A limit that is not
 * requested is copied from that token.
 */
export function limitsWithin(maker: TokenLimits, wanted: TokenLimits, settings: ServerSettings): TokenLimits {
  const most = {
    rateLimit: maker.rateLimit ?? settings.rateLimit,
    maxUnfinishedJobs: maker.maxUnfinishedJobs ?? settings.maxUnfinishedJobsPerToken,
    maxBodyBytes: maker.maxBodyBytes ?? settings.maxBodyBytes,
  }
  const given: { -readonly [K in keyof TokenLimits]: number | null } = { ...noLimitsOfItsOwn }
  for (const key of keys) {
    const [limit, top] = [wanted[key], most[key]]
    if (limit !== null && top !== null && limit > top)
      throw new UmbraError(
        "E631",
        `A token cannot create a token with higher limits: ${names[key]} may be at most ${top} here.`,
      )
    given[key] = limit ?? maker[key]
  }
  return given
}

export function cannotListen(host: string, port: number, cause: unknown): UmbraError {
  return new UmbraError(
    "E638",
    `Cannot listen on ${host} port ${port}: ${(cause as Error).message}. Choose another port with --port.`,
    { cause },
  )
}

/** Can only this machine reach the host? */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host)
}
