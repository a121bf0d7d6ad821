/** What the statistics of the last week say about the runs of a workflow's nodes, for the preview of a fork. */
import { recentNodes, type StatisticsParts } from "../statistics.ts"
import type { NodeExpectation } from "./preview.ts"

/** By node. A node without runs is left out. */
export async function nodeExpectations(
  parts: StatisticsParts,
  of: { readonly owner: string; readonly workflow: string },
): Promise<ReadonlyMap<string, NodeExpectation>> {
  return new Map(
    (await recentNodes(parts, of)).map(({ node, duration_ms: time, usage }) => {
      const means = Object.entries(usage ?? {}).map(([key, { mean }]) => [key, mean])
      const duration_ms = time === null ? null : { p50: time.p50, p90: time.p90 }
      return [node, { duration_ms, usage: usage === null ? null : Object.fromEntries(means) }]
    }),
  )
}
