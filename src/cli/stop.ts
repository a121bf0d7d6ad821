import { exitCode } from "./exit.ts"

/** Resolves when the process is told to stop. */
export function toldToStop(): Promise<NodeJS.Signals> {
  return new Promise(resolve => {
    for (const signal of ["SIGTERM", "SIGINT"] as const)
      process.once(signal, () => {
        resolve(signal)
        // A second Ctrl-C is a person who does not want to wait.
        process.once(signal, () => process.exit(exitCode.failed))
      })
  })
}
