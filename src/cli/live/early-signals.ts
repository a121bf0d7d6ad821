/**
 * Ctrl-C and SIGTERM of a command that is submitting a job, and so cannot cancel or leave it yet. They are kept, and
 * count as soon as it is followed (follow.ts): otherwise the process would end with a job that goes on, and not a word
 * of it. A second one leaves at once.
 */
import { exitCode } from "../exit.ts"

export interface EarlySignals {
  /** What came. From now on others listen. */
  release(): readonly NodeJS.Signals[]
}

const SIGNALS = ["SIGINT", "SIGTERM"] as const

export function earlySignals(): EarlySignals {
  const came: NodeJS.Signals[] = []
  const receive = (signal: NodeJS.Signals) => {
    came.push(signal)
    if (came.length > 1) process.exit(exitCode.failed)
    process.stderr.write(`umbra: ${signal}, as soon as the job is submitted (again leaves at once)\n`)
  }
  for (const signal of SIGNALS) process.on(signal, receive)
  return {
    release() {
      for (const signal of SIGNALS) process.off(signal, receive)
      return came.splice(0)
    },
  }
}
