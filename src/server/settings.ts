import { amount, amountOrNever, readSettings, type SettingTable, wholeNumber } from "../settings.ts"
import { type JwtSettings, jwtTable } from "./jwt-settings.ts"

/** The figures of the HTTP server (S10). */
export interface ServerSettings extends JwtSettings {
  /** Larger bodies are refused. */
  readonly maxBodyBytes: number
  /** Requests a second of one token, with a burst of twice that; null: no limit. */
  readonly rateLimit: number | null
  /** Jobs of one owner that have not ended, beyond which more are refused; null: no limit. */
  readonly maxUnfinishedJobs: number | null
  /** Requests in progress, waiting ones included, beyond which more are refused. */
  readonly maxRequests: number
  /** A request that has not arrived whole after this is given up. */
  readonly requestTimeoutSeconds: number
  /** The longest that `?wait` may ask for. */
  readonly maxWaitSeconds: number
}

export const serverTable: SettingTable<ServerSettings> = {
  maxBodyBytes: wholeNumber("UMBRA_MAX_BODY_BYTES", 4 * 1024 * 1024),
  rateLimit: amountOrNever("UMBRA_RATE_LIMIT", 1000),
  maxUnfinishedJobs: amountOrNever("UMBRA_MAX_UNFINISHED_JOBS", null),
  maxRequests: wholeNumber("UMBRA_MAX_REQUESTS", 10_000),
  requestTimeoutSeconds: amount("UMBRA_REQUEST_TIMEOUT_SECONDS", 60),
  maxWaitSeconds: amount("UMBRA_MAX_WAIT_SECONDS", 60),
  ...jwtTable,
}

export function serverSettings(given?: Partial<ServerSettings>): ServerSettings {
  return readSettings(serverTable, given)
}
