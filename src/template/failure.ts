/** Converts faults to errors: they name the template, and the node once it is known. */
import { UmbraError } from "../errors.ts"
import { position } from "./parse/syntax-error.ts"
import type { Fault } from "./run.ts"

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
