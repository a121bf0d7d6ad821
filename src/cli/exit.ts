import { errorTable } from "../errors.ts"

/** Exit codes, the same for every command. */
export const exitCode = {
  ok: 0,
  /** The command ran, and the result is negative: for example a job failed. */
  failed: 1,
  /** The arguments are invalid: an invalid document, a missing file, a wrong option. */
  invalid: 2,
} as const

/**
 * Reports that a loaded module ended the process before the command had finished (E602). `validate --json` replaces it,
 * and reports any exit code: otherwise a code other than 0 is sufficient.
 */
export const earlyExit = {
  isAnyCodeReported: false,
  report: (message: string): void => void process.stderr.write(`umbra: E602 ${message}\n`),
}

export function exitCodeFor(errorCode: string): number {
  return Object.hasOwn(errorTable, errorCode)
    ? errorTable[errorCode as keyof typeof errorTable].exitCode
    : exitCode.failed
}
