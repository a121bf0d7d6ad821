/** Mutants that no test can catch, or that none should, each with the reason. */
import type { Mutant } from "./instrument.ts"

interface Explanation {
  readonly file: string
  /** The changed source text with what stands around it, `→`, and what it became. */
  readonly line: string
  readonly replacement: string
  readonly why: string
}

const EXPLANATIONS: readonly Explanation[] = []

export function explanationOf({ file, start, replacement }: Mutant, text: string): string | null {
  const from = text.lastIndexOf("\n", start - 1) + 1
  const line = text.slice(from, text.indexOf("\n", start)).trim()
  const known = EXPLANATIONS.find(
    one => one.file === file && one.line === line && one.replacement === replacement,
  )
  return known?.why ?? null
}
