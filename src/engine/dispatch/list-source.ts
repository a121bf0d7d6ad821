import type { ListSource } from "../../core/facts.ts"
import { valueAt } from "../../core/item-list.ts"
import type { Json } from "../../core/json.ts"
import { ListOutput, wholeOutput } from "../../core/state.ts"
import type { PlanNode } from "../../definition/plan.ts"
import type { Reference } from "../../template/types.ts"
import type { LiveJob } from "../owner/live-job.ts"

/**
 * A list of `for_each` is usually one that the job already has: the output of another list, or a part of the input. Its
 * fact then refers to that instead of storing it again: for 10,000 items of 10 KB that was 100 MB in one row.
 */
export interface ItemsToRun {
  readonly items: readonly Json[]
  readonly source?: ListSource
}

/** A template that only names a list yields the same array object, so identity proves the source. */
export function listSource(job: LiveJob, { forEach }: PlanNode, list: readonly Json[]): Partial<ItemsToRun> {
  for (const { template } of forEach!.templates)
    for (const reference of template.references) {
      const source = findSource(job, reference, list)
      if (source !== null) return { source: { count: list.length, ...source } }
    }
  return {}
}

function findSource({ state, plan }: LiveJob, { name, path }: Reference, list: readonly Json[]) {
  if (name === "input") return valueAt(state.input, path) === list ? { input: path } : null
  const node = plan.positions.get(name === "nodes" ? String(path[0]) : name)
  const output = node === undefined ? undefined : state.outputs[node]
  if (!(output instanceof ListOutput) || output.large.length > 0) return null
  return wholeOutput(output, () => null) === list ? { node: node! } : null
}
