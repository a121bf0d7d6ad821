import { engineSettings } from "../engine/settings.ts"
import { exitCode } from "./exit.ts"

export interface Stop {
  /** Resolves when the process is told to stop. */
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
        // A second Ctrl-C is a person who does not want to wait.
        process.once(signal, () => process.exit(exitCode.failed))
      })
  })
  return { signalled, isTold: () => isTold }
}

export function sayThatItStops(signal: NodeJS.Signals): void {
  process.stderr.write(`umbra: ${signal}, stopping\n`)
}

/** From now on: how long running handlers may take. The process ends soon after that, whatever happens. */
export function beginToLeave(): { readonly drainSeconds: number } {
  const { drainSeconds } = engineSettings()
  setTimeout(() => process.exit(exitCode.failed), drainSeconds * 1000 + LEAVE_MS).unref()
  return { drainSeconds }
}

/** Beside the drain: for answers under way, and for handing over. With the default the process is gone within 10 s. */
const LEAVE_MS = 3500
