/** From what a user writes (YAML, JSON, an object) to a validated, immutable plan. */
export { type CompileResult, compileWorkflow } from "./compile.ts"
export { type DocumentFormat, type DocumentOptions, parseDocument, type SourceDocument } from "./document.ts"
export { type HandlerCatalog, type HandlerSpec, handlerCatalog } from "./handler.ts"
export { checkInput, type InputCheck, type InputProblem } from "./input.ts"
export { type DefinitionLimits, defaultLimits } from "./limits.ts"
export { type LoadOptions, loadWorkflow } from "./load.ts"
export { jobFields, reservedIds, rootNames } from "./names.ts"
export type { Plan, PlanNode } from "./plan.ts"
export {
  type DocumentPath,
  formatPath,
  type Locate,
  type Place,
  type Position,
  type Problem,
} from "./problem.ts"
export {
  defaultRetryPolicy,
  type NodeDefinition,
  type RetryDefinition,
  retryDefaults,
  type WorkflowDefinition,
  workflowJsonSchema,
  workflowSchema,
} from "./schema.ts"
export { type ValidateOptions, validateWorkflow } from "./validate.ts"
export { type NextVersion, nextVersion, type StoredVersion } from "./version.ts"
