/**
 * Converts Ctrl-C and similar signals to an AbortSignal: the code that started something ends it, in order,
 * and only then does the process exit, with the code a shell expects (128 plus the signal's number).
 */
import { constants } from "node:os"

/** The interval of the check whether npm, the parent process, still runs. */
const PARENT_MS = 500

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const

class Interruption extends Error {
  readonly exitCode: number

  constructor(signal: (typeof SIGNALS)[number]) {
    super(`interrupted by ${signal}`)
    this.exitCode = 128 + constants.signals[signal]
  }
}

/** Runs a script's main function and ends the process with the code it returns. */
export async function main(body: (signal: AbortSignal) => Promise<number>): Promise<void> {
  const controller = new AbortController()
  // Listeners stay registered: a second Ctrl-C must not end this process while services are being stopped.
  for (const name of SIGNALS) process.on(name, () => controller.abort(new Interruption(name)))
  if (process.env.npm_lifecycle_event !== undefined) {
    watchParent(() => controller.abort(new Interruption("SIGTERM")))
  }
  try {
    const code = await body(controller.signal)
    controller.signal.throwIfAborted()
    process.exit(code)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exit(error instanceof Interruption ? error.exitCode : 1)
  }
}

/**
 * A time limit often ends npm alone, with a signal that it cannot pass on: without this the run would
 * continue unnoticed. The scripts of package.json begin with `exec`, so that npm itself is the parent process
 * and not a shell that survives it.
 */
function watchParent(gone: () => void): void {
  const parent = process.ppid
  setInterval(() => process.ppid !== parent && gone(), PARENT_MS).unref()
}
