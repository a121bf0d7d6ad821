import type { Json, JsonObject } from "../core/json.ts"
import { isDone, largeParts, wholeOutput } from "../core/state.ts"
import { UmbraError } from "../errors.ts"
import type { Scope } from "../template/types.ts"
import type { LiveJob } from "./live-job.ts"

/** Outputs fetched from the journal for one rendering, by position: they are too large to stay. */
export type Fetched = ReadonlyMap<number, Json>

export const nothingFetched: Fetched = new Map()

/** What the config of a node with `for_each` can read besides. */
export interface Each {
  readonly item: Json
  readonly index: number
}

/** What a job's templates can read. Nothing is copied: a look-up goes to the state itself. */
export function scopeOf(job: LiveJob, fetched: Fetched, each?: Each): Scope {
  const names = {
    input: job.state.input,
    get job() {
      return jobName(job)
    },
  }
  return {
    names: each === undefined ? names : Object.assign(names, each),
    node: id => outputOf(job, job.plan.positions.get(id), fetched),
    nodeIds: () =>
      job.plan.nodes.filter((_, node) => isDone(job.state, node) || fetched.has(node)).map(node => node.id),
  }
}

function jobName({ id, state }: LiveJob): JsonObject {
  return {
    id,
    workflow: state.workflow,
    workflow_version: state.workflowVersion,
    owner: state.owner,
    created_at: new Date(state.createdAt).toISOString(),
  }
}

export function outputOf(job: LiveJob, node: number | undefined, fetched: Fetched): Json | undefined {
  if (node === undefined) return undefined
  const known = fetched.get(node)
  if (known !== undefined) return known
  if (!isDone(job.state, node)) return undefined
  const output = job.state.outputs[node]
  if (output === undefined || largeParts(output).length === 0)
    return output === undefined ? undefined : wholeOutput(output, () => null)
  throw new UmbraError(
    "E202",
    `The output of node "${job.plan.nodes[node]!.id}" is too large to be found by a computed name; refer to it by its id.`,
  )
}
