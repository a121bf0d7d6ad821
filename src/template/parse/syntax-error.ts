import { UmbraError } from "../../errors.ts"

/** A template that cannot be compiled (E110), with the position of the problem. Lines and columns count from 1. */
export class TemplateSyntaxError extends UmbraError {
  readonly offset: number
  readonly line: number
  readonly column: number

  constructor(problem: string, source: string, offset: number) {
    const { line, column } = position(source, offset)
    const shown = excerpt(source, offset)
    super("E110", `template syntax at line ${line}, column ${column}: ${problem} (near ${shown})`, {
      details: { problem, offset, line, column },
    })
    this.name = "TemplateSyntaxError"
    this.offset = offset
    this.line = line
    this.column = column
  }
}

export function position(source: string, offset: number): { line: number; column: number } {
  let line = 1
  let start = 0
  for (let at = source.indexOf("\n"); at !== -1 && at < offset; at = source.indexOf("\n", at + 1)) {
    line += 1
    start = at + 1
  }
  return { line, column: offset - start + 1 }
}

const EXCERPT = 40

function excerpt(source: string, offset: number): string {
  const from = Math.max(0, offset - EXCERPT / 2)
  const to = Math.min(source.length, from + EXCERPT)
  return `${from > 0 ? "…" : ""}${JSON.stringify(source.slice(from, to))}${to < source.length ? "…" : ""}`
}
