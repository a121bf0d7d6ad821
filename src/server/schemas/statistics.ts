/** Statistics of workflows, and failures by their errors. */
import { z } from "zod"
import { eg, int, jobId, named, nullableText, time } from "./job.ts"

const percentiles = eg(
  z.object({ p50: z.number(), p90: z.number(), p95: z.number(), p99: z.number() }).nullable(),
  { p50: 1240, p90: 2310, p95: 3090, p99: 5120 },
  "In milliseconds, within 5 %. null: no data.",
)

const percentile = z.number().nullable()
const usageSummary = z.object({
  total: z.number(),
  mean: z.number().describe("Per job, or per run of the node, however it ended."),
  p50: percentile.describe("Of those that completed and reported it, within 5 %. null: no data."),
  ...{ p90: percentile, p95: percentile, p99: percentile },
})

const common = {
  failed: eg(int, 12),
  failure_rate: eg(z.number().nullable(), 0.01, "`failed` of `count`; null: nothing is counted."),
  duration_ms: percentiles,
  queued_ms: percentiles,
  attempts: eg(int, 1230, "Attempts that have begun."),
  losses: eg(int, 1, "Attempts that were lost with their process."),
  errors: z
    .array(z.object({ code: eg(z.string(), "E405"), count: eg(int, 12) }))
    .describe("Failures by code, the most frequent first."),
  usage: eg(
    z.record(z.string(), usageSummary).nullable(),
    { tokens: { total: 120000, mean: 100, p50: 94.5, p90: 164, p95: 180, p99: 256 } },
    "By kind of usage; null: none was reported.",
  ),
}

export const workflowStatistics = named("WorkflowStatistics", {
  workflow: eg(z.string(), "order"),
  version: eg(int.nullable(), 3, "null: all versions."),
  from: time.describe("The start of the first hour that is counted."),
  to: time.describe("The end of the last one."),
  jobs: z.object({
    count: eg(int, 1200, "Ends of jobs. A job that was retried counts with each end."),
    ...common,
    cancelled: eg(int, 3),
    expired: eg(int, 0),
  }),
  nodes: z.array(
    z.object({
      node: eg(z.string(), "price", '"*": the nodes of a job beyond the first 1,000, together.'),
      count: eg(int, 1197, "How often it ended COMPLETED or FAILED."),
      ...common,
      cancelled: eg(int, 2, "Runs that were cancelled with their job; not in `count`."),
    }),
  ),
  critical_path: z
    .array(
      z.object({
        node: eg(z.string(), "price"),
        duration_ms: eg(z.number().nullable(), 1240, "The median. null: no data, taken as 0."),
        queued_ms: eg(z.number().nullable(), 4),
      }),
    )
    .describe("The slowest path through the graph, by the medians of its nodes."),
})

export const failures = named("Failures", {
  from: time,
  to: time,
  groups: z.array(
    z.object({
      fingerprint: eg(z.string(), "5d41402abc4b2a76"),
      workflow: eg(z.string(), "order"),
      code: eg(z.string(), "E405"),
      node: eg(nullableText, "price", "The node that failed; null: none caused the failure."),
      message: eg(z.string(), "status ? from ?", "With ? for numbers, ids and quoted texts."),
      count: eg(int, 37),
      first_at: time,
      last_at: time,
      example_job_id: jobId.describe("The newest of these jobs."),
    }),
  ),
  jobs: eg(int, 37, "The number of failed jobs in these groups."),
  complete: z.boolean().describe("false: the search ended early, after a bounded amount of work."),
  scanned_to: time.nullable().describe("How far back it has searched; null: to the end."),
  next: jobId.nullable().describe("`after` of a request that continues the search; null: it is complete."),
})
