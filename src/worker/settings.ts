/** The settings of a worker, their defaults and their environment variables. */
import { availableParallelism } from "node:os"
import {
  amount,
  type Environment,
  readSettings,
  type Setting,
  type SettingTable,
  settingNames,
  wholeNumber,
} from "../settings.ts"

export interface WorkerSettings {
  /** The number of concurrent attempts. */
  readonly concurrency: number
  /** For nodes without `timeout_seconds`. */
  readonly timeoutSeconds: number
  /** From the abort signal until the attempt is given up. */
  readonly graceSeconds: number
  /** An attempt that runs longer is reported as started. */
  readonly startedAfterSeconds: number
  /** Larger outputs are rejected. */
  readonly maxOutputBytes: number
  /** Larger previews are rejected. */
  readonly maxPreviewBytes: number
  /** The number of worker threads for handlers that require one. */
  readonly threads: number
  /** The heap of one thread; a thread that needs more ends, and its attempt fails. */
  readonly threadMemoryMb: number
  /**
   * May handlers reach private, loopback and link-local addresses? `true`, `false`, or the ranges that they
   * may reach (`10.2.0.0/16`, `127.0.0.1`). The operator decides, not the workflow: otherwise the author of a
   * workflow could read what only this machine can access.
   */
  readonly allowPrivateAddresses: boolean | readonly string[]
}

const privateAddresses: Setting<WorkerSettings["allowPrivateAddresses"]> = {
  ...settingNames("UMBRA_ALLOW_PRIVATE_ADDRESSES"),
  default: false,
  read: text => allowedAddresses(text.toLowerCase()),
  wrong: () => undefined,
}

export const workerTable: SettingTable<WorkerSettings> = {
  concurrency: wholeNumber("UMBRA_CONCURRENCY", 100),
  timeoutSeconds: amount("UMBRA_TIMEOUT_SECONDS", 300),
  graceSeconds: amount("UMBRA_GRACE_SECONDS", 5),
  startedAfterSeconds: amount("started_after_seconds", 1),
  maxOutputBytes: wholeNumber("UMBRA_MAX_OUTPUT_BYTES", 16 * 1024 * 1024),
  maxPreviewBytes: wholeNumber("UMBRA_MAX_PREVIEW_BYTES", 256 * 1024),
  threads: wholeNumber("UMBRA_THREADS", Math.max(1, availableParallelism() - 1)),
  threadMemoryMb: wholeNumber("UMBRA_THREAD_MEMORY_MB", 512),
  allowPrivateAddresses: privateAddresses,
}

/** Precedence: the given value, then the environment, then the default. */
export function workerSettings(given?: Partial<WorkerSettings>, environment?: Environment): WorkerSettings {
  return readSettings(workerTable, given, environment)
}

function allowedAddresses(text: string): boolean | string[] {
  if (["1", "true", "yes", "on"].includes(text)) return true
  if (["0", "false", "no", "off"].includes(text)) return false
  return text.split(",").map(range => range.trim())
}
