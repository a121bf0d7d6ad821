import {
  amount,
  amountOrNever,
  type Setting,
  type SettingsOf,
  settingNames,
  settingsReader,
  wholeNumber,
} from "../settings.ts"
import { jwtTable } from "./auth/jwt-settings.ts"

/** The prefix that a proxy adds to all paths of this server, such as `/umbra`; "": none. */
const basePath: Setting<string> = {
  ...settingNames("base_path"),
  default: "",
  read: given => given.replace(/\/+$/, ""),
  wrong: value =>
    /^(\/[A-Za-z0-9._~-]+)*$/.test(value)
      ? undefined
      : "a path such as /umbra, of letters, digits and . _ ~ -",
}

export const serverTable = {
  /** Larger bodies are rejected, unless the token has its own limit. */
  maxBodyBytes: wholeNumber("UMBRA_MAX_BODY_BYTES", 4 * 1024 * 1024),
  /** Requests per second for tokens without their own limit, with a burst of twice that; null: no limit. */
  rateLimit: amountOrNever("UMBRA_RATE_LIMIT", 1000),
  /** Unfinished jobs of one owner; more are rejected. null: no limit. */
  maxUnfinishedJobs: amountOrNever("UMBRA_MAX_UNFINISHED_JOBS", null),
  /** Unfinished jobs submitted with one token, for tokens without their own limit; null: no limit. */
  maxUnfinishedJobsPerToken: amountOrNever("max_unfinished_jobs_per_token", null),
  /** Schedules of one owner; a new one beyond that is rejected. null: no limit. */
  maxSchedules: amountOrNever("max_schedules", 10_000),
  /** Requests in progress, including waiting ones; more are rejected. */
  maxRequests: wholeNumber("UMBRA_MAX_REQUESTS", 10_000),
  /** Checks in progress of workflows of more than 32 KiB; more are rejected. */
  maxLargeDocuments: wholeNumber("max_large_documents", 32),
  /** A request that has not arrived completely after this time is rejected. */
  requestTimeoutSeconds: amount("UMBRA_REQUEST_TIMEOUT_SECONDS", 60),
  /** Upper bound of `?wait`. */
  maxWaitSeconds: amount("max_wait_seconds", 60),
  /** Open live streams; more are rejected. */
  maxStreams: wholeNumber("UMBRA_MAX_STREAMS", 10_000),
  /** Between two heartbeats of a stream; also the longest time for which a revoked token still gets events. */
  streamHeartbeatSeconds: {
    ...amount("stream_heartbeat_seconds", 25),
    wrong: (value: number) => (Number.isFinite(value) && value > 0 ? undefined : "a number above 0"),
  },
  /** A client with more than this many unread bytes is disconnected. */
  streamBufferBytes: wholeNumber("stream_buffer_bytes", 256 * 1024),
  basePath,
  ...jwtTable,
}

/** The settings of the HTTP server (S10). */
export type ServerSettings = SettingsOf<typeof serverTable>

export const serverSettings = settingsReader<ServerSettings>(serverTable)
