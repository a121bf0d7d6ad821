import { UmbraError } from "../../errors.ts"
import type { Fault } from "../run.ts"

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

function position(source: string, offset: number): { line: number; column: number } {
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

/** Converts faults to errors: they name the template, and the node once it is known. */
const SHOWN = 200

export function toError(fault: Fault, source: string, at: number): UmbraError {
  const template = source.length > SHOWN ? `${source.slice(0, SHOWN)}…` : source
  const { line, column } = position(source, at)
  const where = line > 1 || source.length > SHOWN ? ` (line ${line}, column ${column})` : ""
  const details = {
    template,
    line,
    column,
    ...(fault.code === "E201" ? { missing: fault.missing ?? "value", available: fault.available } : {}),
  }
  return new UmbraError(fault.code, `${fault.message}, in template ${template}${where}${advice(fault)}`, {
    details,
  })
}

const advice = (fault: Fault): string =>
  fault.code === "E201" ? '; correct the name, or add | default("…")' : ""

/** The same error with the name of its node. */
export function withNode(error: UmbraError, node: string): UmbraError {
  return new UmbraError(error.code, `node "${node}": ${error.message}`, {
    cause: error.cause,
    details: { ...error.details, node },
  })
}

export function withPath(error: UmbraError, path: readonly (string | number)[]): UmbraError {
  return new UmbraError(error.code, error.message, {
    cause: error.cause,
    details: { ...error.details, path },
  })
}
