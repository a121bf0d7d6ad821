import { atOnce } from "../turns.ts"
import { type AnalysisOptions, analyseWorkflow } from "./graph/analysis.ts"
import type { Problem } from "./problem.ts"

export type ValidateOptions = AnalysisOptions

/** All problems of a workflow, none if it is valid. `source` is a parsed value, or an object in code. */
export function validateWorkflow(source: unknown, options: ValidateOptions): readonly Problem[] {
  return atOnce(analyseWorkflow(source, options)).problems
}
