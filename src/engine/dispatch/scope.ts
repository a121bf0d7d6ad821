import type { Json, JsonObject } from "../../core/json.ts"
import { isDone, largeParts, wholeOutput } from "../../core/state.ts"
import { UmbraError } from "../../errors.ts"
import type { Scope } from "../../template/types.ts"
import type { LiveJob } from "../owner/live-job.ts"

/** Outputs fetched from the journal for one rendering, by position: they are too large to stay in memory. */
export type Fetched = ReadonlyMap<number, Json>

export const nothingFetched: Fetched = new Map()

/** What the config of a node with `for_each` can read in addition. */
export interface Each {
  readonly item: Json
  readonly index: number
}

/**
 * What the templates of a node can read: its dependencies, and no other node, whether that has ended or not. `node` null:
 * the job's output, which can read all nodes. Nothing is copied: a look-up reads the state itself.
 */
export function templateScope(job: LiveJob, fetched: Fetched, node: number | null, each?: Each): Scope {
  const names = {
    input: job.state.input,
    get job() {
      return jobVariables(job)
    },
  }
  return {
    names: each === undefined ? names : Object.assign(names, each),
    node: id => {
      const other = job.plan.positions.get(id)
      return other !== undefined && canRead(job, node, other) ? nodeOutput(job, other, fetched) : undefined
    },
    nodeIds: () =>
      readable(job, node)
        .filter(other => isDone(job.state, other) || fetched.has(other))
        .map(other => job.plan.nodes[other]!.id),
  }
}

function canRead({ plan }: LiveJob, node: number | null, other: number): boolean {
  if (node === null) return true
  // Rows are sorted.
  const { starts, items } = plan.dependencies
  let low = starts[node]!
  let high = starts[node + 1]!
  while (low < high) {
    const middle = (low + high) >>> 1
    if (items[middle]! < other) low = middle + 1
    else high = middle
  }
  return low < starts[node + 1]! && items[low] === other
}

function readable({ plan }: LiveJob, node: number | null): readonly number[] {
  if (node === null) return [...plan.nodes.keys()]
  const { starts, items } = plan.dependencies
  return [...items.subarray(starts[node], starts[node + 1])]
}

function jobVariables({ id, state }: LiveJob): JsonObject {
  return {
    id,
    workflow: state.workflow,
    workflow_version: state.workflowVersion,
    owner: state.owner,
    created_at: new Date(state.createdAt).toISOString(),
  }
}

export function nodeOutput(job: LiveJob, node: number | undefined, fetched: Fetched): Json | undefined {
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
