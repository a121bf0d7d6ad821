/**
 * Graphs of one node, whose work resumes where it was when its process died. The process that owns the job runs the node
 * itself, not a worker: an execution of a pipeline, and a bulk operation.
 */
import { compileValue } from "../template/index.ts"
import { emptyObject } from "./document/json-value.ts"
import type { Plan, PlanNode } from "./plan.ts"
import { defaultRetryPolicy } from "./shape/schema.ts"

const noEdges = { starts: new Int32Array(2), items: new Int32Array(0) }

/** The output of the node is the output of the job. */
export function graphOfOne(id: string, handler: string) {
  const node: PlanNode = Object.freeze({
    id,
    handler,
    timeoutSeconds: null,
    retry: defaultRetryPolicy,
    resumes: true,
    config: compileValue(emptyObject).value,
    when: null,
    forEach: null,
    reads: new Int32Array(0),
    maxParallel: null,
    failFast: true,
    provider: null,
  })
  return {
    nodes: Object.freeze([node]),
    positions: new Map([[id, 0]]),
    inDegrees: new Int32Array(1),
    successors: noEdges,
    dependencies: noEdges,
    order: new Int32Array(1),
    exits: new Int32Array(1),
    providers: Object.freeze([]),
    output: compileValue(`{{ ${id} }}`).value,
  }
}

/**
 * The workflow of bulk operations. It is in no registry: versions of users begin with 1, so that a user's workflow may
 * have the same name.
 */
export const bulkWorkflow = { name: "umbra.bulk", version: 0 } as const
export const bulkHandler = "umbra.bulk"

export const bulkPlan: Plan = Object.freeze({
  ...graphOfOne("bulk", bulkHandler),
  name: bulkWorkflow.name,
  hash: "",
  input: null,
  canonical: emptyObject,
  document: emptyObject,
  rules: 0,
  pipeline: null,
  ttlSeconds: null,
})

export function isBulkOperation(job: {
  readonly workflow: string
  readonly workflowVersion: number
}): boolean {
  return job.workflow === bulkWorkflow.name && job.workflowVersion === bulkWorkflow.version
}
