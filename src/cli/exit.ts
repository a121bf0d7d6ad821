/** Exit codes, the same for every command. */
export const exitCode = {
  ok: 0,
  /** The command ran, and the result is negative: for example a job failed. */
  failed: 1,
  /** The arguments are invalid: an invalid document, a missing file, a wrong option. */
  invalid: 2,
} as const

/** Errors about invalid arguments. All other errors count as a negative result. */
const invalid = /^(E1\d\d|E304|E309|E504|E60\d|E620|E633|E637|E638|E651|E652|E660|E720)$/

export function exitCodeOf(errorCode: string): number {
  return invalid.test(errorCode) ? exitCode.invalid : exitCode.failed
}
