import { amount, amountOrNever, readSettings, type SettingTable, wholeNumber } from "../settings.ts"
import { type JwtSettings, jwtTable } from "./auth/jwt-settings.ts"

/** The figures of the HTTP server (S10). */
export interface ServerSettings extends JwtSettings {
  /** Larger bodies are refused, unless the token says otherwise. */
  readonly maxBodyBytes: number
  /** Requests a second of a token that says nothing itself, with a burst of twice that; null: no limit. */
  readonly rateLimit: number | null
  /** Jobs of one owner that have not ended, beyond which more are refused; null: no limit. */
  readonly maxUnfinishedJobs: number | null
  /** Jobs submitted with one token that have not ended, if the token says nothing itself; null: no limit. */
  readonly maxUnfinishedJobsPerToken: number | null
  /** Requests in progress, waiting ones included, beyond which more are refused. */
  readonly maxRequests: number
  /** Workflows of more than 32 KiB that are being checked, beyond which more are refused. */
  readonly maxLargeDocuments: number
  /** A request that has not arrived whole after this is given up. */
  readonly requestTimeoutSeconds: number
  /** The longest that `?wait` may ask for. */
  readonly maxWaitSeconds: number
  /** Open live streams beyond which more are refused. */
  readonly maxStreams: number
  /** Between two signs of life on a stream; also how long a revoked token is still served. */
  readonly streamHeartbeatSeconds: number
  /** A client for which more than this waits is dropped. */
  readonly streamBufferBytes: number
}

export const serverTable: SettingTable<ServerSettings> = {
  maxBodyBytes: wholeNumber("UMBRA_MAX_BODY_BYTES", 4 * 1024 * 1024),
  rateLimit: amountOrNever("UMBRA_RATE_LIMIT", 1000),
  maxUnfinishedJobs: amountOrNever("UMBRA_MAX_UNFINISHED_JOBS", null),
  maxUnfinishedJobsPerToken: amountOrNever("max_unfinished_jobs_per_token", null),
  maxRequests: wholeNumber("UMBRA_MAX_REQUESTS", 10_000),
  maxLargeDocuments: wholeNumber("max_large_documents", 32),
  requestTimeoutSeconds: amount("UMBRA_REQUEST_TIMEOUT_SECONDS", 60),
  maxWaitSeconds: amount("max_wait_seconds", 60),
  maxStreams: wholeNumber("UMBRA_MAX_STREAMS", 10_000),
  streamHeartbeatSeconds: {
    ...amount("stream_heartbeat_seconds", 25),
    wrong: value => (Number.isFinite(value) && value > 0 ? undefined : "a number above 0"),
  },
  streamBufferBytes: wholeNumber("stream_buffer_bytes", 256 * 1024),
  ...jwtTable,
}

export function serverSettings(given?: Partial<ServerSettings>): ServerSettings {
  return readSettings(serverTable, given)
}
