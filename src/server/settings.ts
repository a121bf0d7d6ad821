import { amount, amountOrNever, readSettings, type SettingTable, wholeNumber } from "../settings.ts"

/** The figures of the HTTP server (S10). */
export interface ServerSettings {
  /** Larger bodies are refused. */
  readonly maxBodyBytes: number
  /** Requests a second of one token, with a burst of twice that; null: no limit. */
  readonly rateLimit: number | null
  /** Requests in progress, waiting ones included, beyond which more are refused. */
  readonly maxRequests: number
  /** The longest that `?wait` may ask for. */
  readonly maxWaitSeconds: number
}

export const serverTable: SettingTable<ServerSettings> = {
  maxBodyBytes: wholeNumber("UMBRA_MAX_BODY_BYTES", 4 * 1024 * 1024),
  rateLimit: amountOrNever("UMBRA_RATE_LIMIT", 1000),
  maxRequests: wholeNumber("UMBRA_MAX_REQUESTS", 10_000),
  maxWaitSeconds: amount("UMBRA_MAX_WAIT_SECONDS", 60),
}

export function serverSettings(given?: Partial<ServerSettings>): ServerSettings {
  return readSettings(serverTable, given)
}
