/** Mutants that no test can catch, or that none should, each with the reason. */
import type { Mutant } from "./instrument.ts"

interface Explanation {
  readonly file: string
  /** The changed source text with what stands around it, `→`, and what it became. */
  readonly line: string
  readonly replacement: string
  readonly why: string
}

const swapped = "const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]"

const EXPLANATIONS: readonly Explanation[] = [
  ...["i >= 1", "j >= 1"].map(replacement => ({
    ...{ file: "src/template/nearest.ts", line: swapped, replacement },
    why: "Before the first character there is none: the comparison with it is false anyway.",
  })),
]

export function explanationOf({ file, start, replacement }: Mutant, text: string): string | null {
  const from = text.lastIndexOf("\n", start - 1) + 1
  const line = text.slice(from, text.indexOf("\n", start)).trim()
  const known = EXPLANATIONS.find(
    one => one.file === file && one.line === line && one.replacement === replacement,
  )
  return known?.why ?? null
}
