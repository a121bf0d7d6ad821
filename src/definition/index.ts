/** Compiles a definition (YAML, JSON, an object) to a validated, immutable plan. */
export { adapterCatalog } from "./adapter.ts"
export {
  type CompileResult,
  compilation,
  compileWorkflow,
  loadInTurns,
  loadWorkflow,
  validateWorkflow,
} from "./compile.ts"
export { parseDocument } from "./document/document.ts"
export { type HandlerCatalog, handlerCatalog } from "./handler.ts"
export { type CheckedRequest, checkSubmission, inputChecks } from "./input/checks.ts"
export { yamlInOnePiece } from "./limits.ts"
export type { Plan } from "./plan.ts"
export type { Problem } from "./problem.ts"
export {
  defaultRetryPolicy,
  retryDefaults,
  type WorkflowDefinition,
  workflowJsonSchema,
} from "./shape/schema.ts"
