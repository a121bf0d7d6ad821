/**
 * Writes every drawn mutation into the sources of a copy, each behind a switch: `MUTANT=17` in the environment
 * of a process makes mistake 17. So the copy is written, built and transformed once for all of them, and processes and threads
 * that a test starts make the same mistake. With `MUTANT_HITS` a process notes which switches it came across.
 */
import type { Mutation } from "./mutations.ts"

/** A mutation with the number of its switch. */
export interface Mutant extends Mutation {
  readonly id: number
}

export const SWITCH_FILE = "src/mutant-switch.ts"

export const SWITCH_SOURCE = `import { appendFileSync } from "node:fs"

let active = Number(process.env.MUTANT ?? -1)

const place = globalThis as { hits?: { file: string | undefined; seen: Set<number>; isLoading: boolean } }
// In a process or a thread that a test starts.
place.hits ??= { file: process.env.MUTANT_HITS, seen: new Set(), isLoading: false }

/** For a process that makes several mistakes, one after another. */
export function makeMistake(id: number): void {
  active = id
}

export function mutant(id: number): boolean {
  const { file, seen } = place.hits!
  if (file !== undefined && !seen.has(id)) {
    seen.add(id)
    appendFileSync(file, id + (isLoading() ? " loading" : "") + "\\n")
  }
  return id === active
}

/** Is a module being loaded that is no test file? What is computed then stays in the process. */
function isLoading(): boolean {
  if (!place.hits!.isLoading) return false
  Error.stackTraceLimit = 200
  // A test file that awaits the module, behind the first "async", is not one that calls it.
  return !/\\.test\\.ts/.test(new Error().stack!.split(/^ +at async /m)[0]!)
}
`

/** The text with one mistake made. */
export function mutated(text: string, { start, end, replacement }: Mutation): string {
  return text.slice(0, start) + replacement + text.slice(end)
}

/** The text of `file` with all of its mutants behind their switches. */
export function instrumented(file: string, text: string, mutants: readonly Mutant[]): string {
  const up = "../".repeat(file.split("/").length - 2) || "./"
  const outerFirst = [...mutants].sort(
    (a, b) => a.start - b.start || b.end - a.end || (a.kind === "statement" ? -1 : 1),
  )
  const head = `import { mutant as $mutant } from "${up}mutant-switch.ts"\n`
  return head + write(text, { start: 0, end: text.length }, outerFirst)
}

interface Range {
  readonly start: number
  readonly end: number
}

function write(text: string, range: Range, mutants: readonly Mutant[]): string {
  let written = ""
  let at = range.start
  let rest = mutants
  while (rest.length > 0) {
    const [outer, ...others] = rest as [Mutant, ...Mutant[]]
    const inner = others.filter(({ start, end }) => start >= outer.start && end <= outer.end)
    const begins = outer.beginsStatement && (outer.start > range.start || range.end === text.length)
    written += text.slice(at, outer.start) + switched(outer, begins, write(text, outer, inner))
    at = outer.end
    rest = others.filter(({ start }) => start >= outer.end)
  }
  return written + text.slice(at, range.end)
}

function switched({ id, kind, replacement }: Mutant, begins: boolean, original: string): string {
  if (kind === "statement") return `if (!$mutant(${id})) { ${original} }`
  // Without the semicolon a parenthesis at the beginning of a line continues the line before it.
  return `${begins ? ";" : ""}($mutant(${id}) ? (${replacement}) : (${original}))`
}
