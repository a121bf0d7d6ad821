import { engineSettings } from "../engine/settings.ts"
import { exitCode } from "./exit.ts"

export interface Stop {
  /** Resolves when the process receives a signal to stop. */
  readonly signalled: Promise<NodeJS.Signals>
  readonly isTold: () => boolean
}

export function toldToStop(): Stop {
  let isTold = false
  const signalled = new Promise<NodeJS.Signals>(resolve => {
    for (const signal of ["SIGTERM", "SIGINT"] as const)
      process.once(signal, () => {
        isTold = true
        resolve(signal)
        // After a second Ctrl-C the process ends at once.
        process.once(signal, () => process.exit(exitCode.failed))
      })
  })
  return { signalled, isTold: () => isTold }
}

export function sayThatItStops(signal: NodeJS.Signals): void {
  process.stderr.write(`umbra: ${signal}, stopping\n`)
}

/** The time for which running handlers may continue. The process ends soon after it, in any case. */
export function beginToLeave(): { readonly drainSeconds: number } {
  const { drainSeconds } = engineSettings()
  setTimeout(() => process.exit(exitCode.failed), drainSeconds * 1000 + LEAVE_MS).unref()
  return { drainSeconds }
}

/** In addition to the drain time: to send answers and to hand over. With the default, the process ends within 10 s. */
const LEAVE_MS = 3500
