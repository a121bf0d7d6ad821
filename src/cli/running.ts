/** What `umbra serve` and `umbra worker` share: they run until a signal stops them, and send heartbeats. */
import { redisSettings } from "../broker/redis/settings.ts"
import { engineSettings } from "../engine/settings.ts"
import { UmbraError } from "../errors.ts"
import { exitCode } from "./exit.ts"

export interface Stop {
  /** Resolves when the process receives a signal to stop. */
  readonly signalled: Promise<NodeJS.Signals>
  readonly isSignalled: () => boolean
}

export function listenForStop(): Stop {
  let isSignalled = false
  const signalled = new Promise<NodeJS.Signals>(resolve => {
    for (const signal of ["SIGTERM", "SIGINT"] as const)
      process.once(signal, () => {
        isSignalled = true
        resolve(signal)
        // After a second Ctrl-C the process ends at once.
        process.once(signal, () => process.exit(exitCode.failed))
      })
  })
  return { signalled, isSignalled: () => isSignalled }
}

export function printStopping(signal: NodeJS.Signals): void {
  process.stderr.write(`umbra: ${signal}, stopping\n`)
}

/** The time for which running handlers may continue. The process ends soon after it, in any case. */
export function startShutdown(): { readonly drainSeconds: number } {
  const { drainSeconds } = engineSettings()
  setTimeout(() => process.exit(exitCode.failed), drainSeconds * 1000 + SHUTDOWN_MS).unref()
  return { drainSeconds }
}

/** In addition to the drain time: to send answers and to hand over. With the default, the process ends within 10 s. */
const SHUTDOWN_MS = 3500

/** Rejects a heartbeat interval longer than half of its timeout: live processes would be taken for dead. */
export function checkWorkerHeartbeat(): void {
  const { workerBeatSeconds, workerDeadSeconds } = redisSettings()
  mustFit(["worker_beat_seconds", workerBeatSeconds], ["worker_dead_seconds", workerDeadSeconds])
}

export function checkEngineHeartbeat(): void {
  const { beatSeconds, leaseSeconds } = engineSettings()
  mustFit(["beat_seconds", beatSeconds], ["lease_seconds", leaseSeconds])
}

type Interval = readonly [name: string, seconds: number]

/** One heartbeat may be late. */
function mustFit([beatName, beat]: Interval, [deathName, death]: Interval): void {
  if (beat > 0 && beat * 2 <= death) return
  throw new UmbraError(
    "E620",
    `The setting ${beatName} (${beat}) must be above 0 and at most half of ${deathName} (${death}); otherwise live processes would be taken for dead. Lower ${beatName} or raise ${deathName}, in all processes.`,
  )
}
