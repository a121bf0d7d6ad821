/** Compiles the templates of one value; a syntax error is an E110 at its position. */
import type { Json } from "../core/json.ts"
import { compileValue } from "../template/index.ts"
import type { ValueTemplate } from "../template/types.ts"
import type { DocumentPath, ProblemList } from "./problem.ts"

/** `path` is computed only for a problem: 100,000 nodes need no path each. */
export function compileTemplates(
  value: Json,
  path: () => DocumentPath,
  problems: ProblemList,
): ValueTemplate {
  const compiled = compileValue(value)
  for (const { path: inner, error } of compiled.problems) {
    const { problem } = error.details
    const message = `Template syntax: ${typeof problem === "string" ? problem : error.message}.`
    problems.add("E110", [...path(), ...inner], message.replace(/\.\.$/, "."), { offset: error.offset })
  }
  return compiled.value
}
