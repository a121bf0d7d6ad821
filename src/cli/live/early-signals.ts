/**
 * Ctrl-C and SIGTERM that arrive while a command submits a job, which it cannot cancel or leave yet. They are stored and
 * take effect as soon as the job is followed (follow.ts): otherwise the process would end silently while the job
 * continues. A second signal ends the process at once.
 */
import { exitCode } from "../exit.ts"

export interface EarlySignals {
  /** The stored signal. From now on the caller handles signals. */
  release(): readonly NodeJS.Signals[]
}

const SIGNALS = ["SIGINT", "SIGTERM"] as const

export function earlySignals(): EarlySignals {
  const came: NodeJS.Signals[] = []
  const receive = (signal: NodeJS.Signals) => {
    came.push(signal)
    if (came.length > 1) process.exit(exitCode.failed)
    process.stderr.write(`umbra: ${signal} takes effect when the job is submitted (repeat to exit at once)\n`)
  }
  for (const signal of SIGNALS) process.on(signal, receive)
  return {
    release() {
      for (const signal of SIGNALS) process.off(signal, receive)
      return came.splice(0)
    },
  }
}
