/** The settings of a worker, their defaults and their environment variables. */
import { availableParallelism } from "node:os"
import { amount, type SettingsOf, settingsReader, switchOrList, wholeNumber } from "../settings.ts"

export const workerTable = {
  /** The number of concurrent attempts. */
  concurrency: wholeNumber("UMBRA_CONCURRENCY", 100),
  /** For nodes without `timeout_seconds`. */
  timeoutSeconds: amount("UMBRA_TIMEOUT_SECONDS", 300),
  /** From the abort signal until the attempt is given up. */
  graceSeconds: amount("UMBRA_GRACE_SECONDS", 5),
  /** An attempt that runs longer is reported as started. */
  startedAfterSeconds: amount("started_after_seconds", 1),
  /** Larger outputs are rejected. */
  maxOutputBytes: wholeNumber("UMBRA_MAX_OUTPUT_BYTES", 16 * 1024 * 1024),
  /** Larger previews are rejected. */
  maxPreviewBytes: wholeNumber("UMBRA_MAX_PREVIEW_BYTES", 256 * 1024),
  /** The log lines of one attempt that are stored; the rest is dropped, which the last line reports. */
  maxLogLines: wholeNumber("max_log_lines", 10_000),
  maxLogBytes: wholeNumber("max_log_bytes", 1024 * 1024),
  /** Log lines of this process that are not stored yet: beyond this the oldest are dropped. */
  logBufferBytes: wholeNumber("log_buffer_bytes", 16 * 1024 * 1024),
  /** The number of worker threads for handlers that require one. */
  threads: wholeNumber("UMBRA_THREADS", Math.max(1, availableParallelism() - 1)),
  /** The heap of one thread; a thread that needs more ends, and its attempt fails. */
  threadMemoryMb: wholeNumber("UMBRA_THREAD_MEMORY_MB", 512),
  /**
   * May handlers reach private, loopback and link-local addresses? `true`, `false`, or the ranges that they
   * may reach (`10.2.0.0/16`, `127.0.0.1`). The operator decides, not the workflow: otherwise the author of a
   * workflow could read what only this machine can access.
   */
  allowPrivateAddresses: switchOrList("UMBRA_ALLOW_PRIVATE_ADDRESSES"),
}

export type WorkerSettings = SettingsOf<typeof workerTable>

export const workerSettings = settingsReader<WorkerSettings>(workerTable)
