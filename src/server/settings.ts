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
  maxRequests: wholeNumber("UMBRA_MAX_REQUESTS", 10_000),
  maxWaitSeconds: amount("UMBRA_MAX_WAIT_SECONDS", 60),
  maxStreams: wholeNumber("UMBRA_MAX_STREAMS", 10_000),
  streamHeartbeatSeconds: {
    ...amount("UMBRA_STREAM_HEARTBEAT_SECONDS", 25),
    wrong: value => (Number.isFinite(value) && value > 0 ? undefined : "a number above 0"),
  },
  streamBufferBytes: wholeNumber("UMBRA_STREAM_BUFFER_BYTES", 256 * 1024),
}

export function serverSettings(given?: Partial<ServerSettings>): ServerSettings {
  return readSettings(serverTable, given)
}
