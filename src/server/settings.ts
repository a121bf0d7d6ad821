import { amount, amountOrNever, readSettings, type SettingTable, wholeNumber } from "../settings.ts"
import { type JwtSettings, jwtTable } from "./auth/jwt-settings.ts"

/** The settings of the HTTP server (S10). */
export interface ServerSettings extends JwtSettings {
  /** Larger bodies are rejected, unless the token has its own limit. */
  readonly maxBodyBytes: number
  /** Requests per second for tokens without their own limit, with a burst of twice that; null: no limit. */
  readonly rateLimit: number | null
  /** Unfinished jobs of one owner; more are rejected. null: no limit. */
  readonly maxUnfinishedJobs: number | null
  /** Unfinished jobs submitted with one token, for tokens without their own limit; null: no limit. */
  readonly maxUnfinishedJobsPerToken: number | null
  /** Requests in progress, including waiting ones; more are rejected. */
  readonly maxRequests: number
  /** Checks in progress of workflows of more than 32 KiB; more are rejected. */
  readonly maxLargeDocuments: number
  /** A request that has not arrived completely after this time is rejected. */
  readonly requestTimeoutSeconds: number
  /** Upper bound of `?wait`. */
  readonly maxWaitSeconds: number
  /** Open live streams; more are rejected. */
  readonly maxStreams: number
  /** Between two heartbeats of a stream; also the longest time for which a revoked token still gets events. */
  readonly streamHeartbeatSeconds: number
  /** A client with more than this many unread bytes is disconnected. */
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
