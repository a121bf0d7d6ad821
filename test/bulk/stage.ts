/** Jobs of several kinds for bulk operations, and what the journal says an operation did to them. */

import type { BulkView } from "../../src/jobs/bulk/bulk.ts"
import type { BulkRefusal } from "../../src/jobs/bulk/operation.ts"
import type { Umbra } from "../../src/umbra.ts"
import { broken, flow, handler } from "../engine/stage.ts"

export const handlers = [broken, handler("fine", () => "fine")]

/** FAILED, COMPLETED and PROCESSING, at once. */
export const kinds = {
  fails: flow([{ id: "a", handler: "broken" }], { name: "fails" }),
  completes: flow([{ id: "a", handler: "fine" }], { name: "completes" }),
  waits: flow([{ id: "a", handler: "wait_for_signal", config: { signal: "go" } }], { name: "waits" }),
}

/** 600 ticks of a schedule for every minute. */
export const backfillRange = { from: "2026-03-01T00:00:00.000Z", to: "2026-03-01T10:00:00.000Z" }

export type Kind = keyof typeof kinds

/** Submits the job, and resolves when it has ended or waits. */
export async function submit(
  umbra: Umbra,
  kind: Kind,
  options: { readonly owner?: string; readonly labels?: Record<string, string> } = {},
): Promise<string> {
  const { id } = await umbra.submit(kinds[kind], {}, options)
  if (kind !== "waits") await umbra.wait(id)
  return id
}

export async function ended(umbra: Umbra, id: string): Promise<BulkView> {
  await umbra.wait(id)
  return umbra.bulk.get(id)
}

export async function refusals(umbra: Umbra, id: string, limit = 3): Promise<readonly BulkRefusal[]> {
  const found: BulkRefusal[] = []
  for (let after: string | undefined; ; ) {
    const { refused, next } = await umbra.bulk.refusals(id, { after, limit })
    found.push(...refused)
    if (next === null) return found
    after = next
  }
}

/** The forks of the job that name the operation in their first fact. */
export async function forksOf(umbra: Umbra, jobId: string, operation: string): Promise<readonly string[]> {
  const found: string[] = []
  const { jobs } = await umbra.queries.list({ forkedFrom: jobId, deleted: true, limit: 1000 })
  for (const { id } of jobs) {
    const { facts } = await umbra.queries.facts.page(id, { limit: 1 })
    if (facts[0]!.operation === operation) found.push(id)
  }
  return found
}

/** The number of facts of the job that name the operation. */
export async function countFactsOf(umbra: Umbra, jobId: string, operation: string): Promise<number> {
  const { facts } = await umbra.queries.facts.page(jobId, { limit: 1000 })
  return facts.filter(fact => fact.operation === operation).length
}
