/** What the statistics of a workflow say about the runs of its nodes, for the preview of a fork. */
import type { Plans } from "../../engine/plans.ts"
import { UmbraError } from "../../errors.ts"
import type { Journal } from "../../journal/port/journal.ts"
import { workflowStatistics } from "../statistics.ts"
import type { NodeExpectation } from "./preview.ts"

/** A week: nodes of a workflow that rarely runs have data too. */
const FROM_MS = 7 * 24 * 3_600_000

/** Of all versions together, by node. A node without runs is left out. */
export async function nodeExpectations(
  parts: { readonly journal: Journal; readonly plans: Plans; now(): number },
  of: { readonly owner: string; readonly workflow: string },
): Promise<ReadonlyMap<string, NodeExpectation>> {
  const found = await workflowStatistics(parts, { ...of, from: parts.now() - FROM_MS }).catch(error => {
    // The workflow was deleted, and has no data.
    if (error instanceof UmbraError && error.code === "E305") return { nodes: [] }
    throw error
  })
  return new Map(
    found.nodes.map(({ node, duration_ms: time, usage }) => {
      const means = Object.entries(usage ?? {}).map(([key, { mean }]) => [key, mean])
      const duration_ms = time === null ? null : { p50: time.p50, p90: time.p90 }
      return [node, { duration_ms, usage: usage === null ? null : Object.fromEntries(means) }]
    }),
  )
}
