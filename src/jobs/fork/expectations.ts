/** What the runs of a workflow's nodes usually take, by the statistics of the last week, for the preview of a fork. */
import type { StatisticsQueries } from "../statistics.ts"
import type { NodeExpectation } from "./preview.ts"

/** By node. A node without runs is left out. */
export async function nodeExpectations(
  statistics: Pick<StatisticsQueries, "recentNodes">,
  of: { readonly owner: string; readonly workflow: string },
): Promise<ReadonlyMap<string, NodeExpectation>> {
  return new Map(
    (await statistics.recentNodes(of)).map(({ node, duration_ms: time, usage }) => {
      const duration_ms = time === null ? null : { p50: time.p50, p90: time.p90 }
      const amounts = Object.entries(usage ?? {}).map(([key, { mean, p50, p90 }]) => [
        key,
        { mean, p50, p90 },
      ])
      return [node, { duration_ms, usage: usage === null ? null : Object.fromEntries(amounts) }]
    }),
  )
}
