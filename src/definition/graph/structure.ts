/**
 * Problems of the graph as a whole: cycles (E107), no nodes (E108), unreachable nodes (E109).
 *
 * A finite graph without a cycle always has an entry and an exit, and every node of it can be reached. So "no entry",
 * "no exit" and "unreachable" are always consequences of a cycle or a self-dependency, which is reported as the cause.
 * E108 itself remains for a workflow without nodes, E109 for a node that is missing in the order without a cycle before it.
 */
import type { Adjacency } from "../../core/plan.ts"
import type { DocumentPath, ProblemList } from "../problem.ts"
import { cycleText, findCycles } from "./cycles.ts"
import { type Sorted, topologicalOrder } from "./graph.ts"

/** Where node `from` declares that it needs node `to`. */
export interface EdgeOrigin {
  readonly path: DocumentPath
  readonly offset?: number
  readonly byTemplate: boolean
}

export interface Structure {
  readonly ids: readonly (string | undefined)[]
  readonly dependencies: Adjacency
  readonly successors: Adjacency
  readonly inDegrees: Int32Array
  readonly findOrigin: (from: number, to: number) => EdgeOrigin
}

export function checkStructure(structure: Structure, problems: ProblemList): Sorted {
  const sorted = topologicalOrder(structure.inDegrees, structure.successors)
  if (structure.ids.length === 0) {
    problems.add(
      "E108",
      ["nodes"],
      "The workflow has no nodes, so it has no entry and no exit. Add at least one.",
    )
  }
  if (sorted.order.length === structure.ids.length) return sorted
  const cycles = findCycles(structure.dependencies, sorted.remaining)
  for (const cycle of cycles) reportCycle(cycle, structure, problems)
  reportUnreachable(cycles, sorted.remaining, structure, problems)
  return sorted
}

function reportCycle(cycle: readonly number[], structure: Structure, problems: ProblemList): void {
  const names = cycle.map(position => structure.ids[position] ?? `nodes[${position}]`)
  const origins = cycle.slice(0, 100).map((from, i) => {
    const to = cycle[(i + 1) % cycle.length]!
    return { from, to, ...structure.findOrigin(from, to) }
  })
  const templates = origins.filter(origin => origin.byTemplate).slice(0, 3)
  const described = templates.map(
    ({ from, to }) => `"${structure.ids[to]}" in a template of "${structure.ids[from]}"`,
  )
  const because = described.length > 0 ? ` It is caused by reading ${described.join(", ")}.` : ""
  const first = origins[0]!
  const message = `Cycle: ${cycleText(names)} (each waits for the next).${because} Remove one of these dependencies.`
  problems.add("E107", first.path, message, first.offset === undefined ? {} : { offset: first.offset })
}

function reportUnreachable(
  cycles: number[][],
  remaining: Int32Array,
  structure: Structure,
  problems: ProblemList,
): void {
  const { starts, items } = structure.successors
  const explained = new Uint8Array(remaining.length)
  const queue = cycles.flat()
  for (const node of queue) explained[node] = 1
  for (let node = queue.pop(); node !== undefined; node = queue.pop()) {
    for (const successor of items.subarray(starts[node]!, starts[node + 1]!)) {
      if (explained[successor] === 0) queue.push(successor)
      explained[successor] = 1
    }
  }
  for (let node = 0; node < remaining.length; node++) {
    if (remaining[node] === 0 || explained[node] === 1) continue
    problems.add(
      "E109",
      ["nodes", node],
      `The node "${structure.ids[node]}" can never run. Correct its dependencies.`,
    )
  }
}
