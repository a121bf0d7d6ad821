/** What `umbra stats` and `umbra failures` print, at any width. */
import pc from "picocolors"
import { expect, it } from "vitest"
import { failuresText, statisticsText } from "../../src/cli/commands/statistics.ts"
import { width } from "../../src/cli/output/terminal.ts"
import type { WorkflowStatistics } from "../../src/client/index.ts"

const paint = pc.createColors(false)
const percentiles = { p50: 1240, p90: 2310, p95: 9800, p99: 65_120 }
const counts = {
  ...{ count: 1200, failed: 12, failure_rate: 0.01, cancelled: 3, attempts: 1230, losses: 1 },
  ...{ duration_ms: percentiles, queued_ms: { p50: 4, p90: 12, p95: 20, p99: 40 } },
  errors: [{ code: "E405", count: 12 }],
  usage: {
    tokens: { total: 120_000, mean: 100, p50: 94.5, p90: 164, p95: 180, p99: 12_560 },
    cost_usd: { total: 0.6, mean: 0.0005, p50: null, p90: null, p95: null, p99: null },
  },
}
const statistics: WorkflowStatistics = {
  ...{ workflow: "order", version: null, from: "2026-11-16T13:00:00.000Z", to: "2026-11-17T14:00:00.000Z" },
  jobs: { ...counts, expired: 0 },
  nodes: [
    { node: "price", ...counts },
    { node: "a_node_with_a_very_long_name_indeed", ...counts, failed: 0, failure_rate: 0, usage: null },
    { node: "never", ...counts, count: 0, failed: 0, failure_rate: null, duration_ms: null, queued_ms: null },
  ],
  critical_path: [
    { node: "price", duration_ms: 1240, queued_ms: 4 },
    { node: "never", duration_ms: null, queued_ms: null },
  ],
}
const widest = (text: string) => Math.max(...text.split("\n").map(width))

it("umbra stats fits into 40 and 100 columns", () => {
  const narrow = statisticsText(statistics, 40, paint)
  expect(widest(narrow)).toBeLessThanOrEqual(40)
  expect(narrow).toContain("  tokens 94.5 / 164 / 12,560\n  cost_usd no data\n")
  const wide = statisticsText(statistics, 100, paint)
  expect(widest(wide)).toBeLessThanOrEqual(100)
  expect(wide).toBe(`order, all versions
2026-11-16 13:00Z to 2026-11-17 14:00Z
jobs      1,200 ended, 12 failed (1.0 %), 3 cancelled
took      p50 1.2 s, p90 2.3 s, p99 1 min 5 s
waited    p50 4 ms, p90 12 ms, p99 40 ms
usage     tokens 120,000, 100 per job, p50 94.5, p90 164, p99 12,560
          cost_usd 0.6, 0.0005 per job
errors    E405 12
slowest   price → never: 1.2 s

NODE                      RUNS   FAILED      P50    P90    P99        WAIT P50  WAIT P90  TRIES
price                     1,200  12 (1.0 %)  1.2 s  2.3 s  1 min 5 s  4 ms      12 ms     1,230
a_node_with_a_very_long…  1,200  0           1.2 s  2.3 s  1 min 5 s  4 ms      12 ms     1,230
never                     0      0           -      -      -          -         -         1,230

NODE   USAGE     TOTAL    MEAN    P50   P90  P99
price  tokens    120,000  100     94.5  164  12,560
price  cost_usd  0.6      0.0005  -     -    -
never  tokens    120,000  100     94.5  164  12,560
never  cost_usd  0.6      0.0005  -     -    -
`)
})

it("umbra stats says that there is no data", () => {
  const jobs = { ...statistics.jobs, count: 0 }
  const text = statisticsText({ ...statistics, jobs, nodes: [], critical_path: [] }, 40, paint)
  expect(text).toContain("No job of it ended in this time.")
})

it("umbra failures shows each group, and how to continue a search that ended early", () => {
  const group = {
    ...{ fingerprint: "5d41402abc4b2a76", workflow: "order", code: "E405", node: "price", count: 37 },
    message: "status ? from a service whose name is long enough for more than one line",
    ...{ first_at: "2026-11-17T10:00:00.000Z", last_at: "2026-11-17T12:00:00.000Z" },
    example_job_id: "0198c0de-7a11-7012-9abc-0123456789ab",
  }
  const page = {
    ...{ from: "2026-11-16T13:00:00.000Z", to: "2026-11-17T14:00:00.000Z", jobs: 37, groups: [group] },
    ...{ complete: false, scanned_to: "2026-11-17T09:00:00.000Z", next: group.example_job_id },
  }
  const text = failuresText(page, { columns: 60, flags: " --data ./x", paint })
  expect(text.split("\n")).toEqual([
    "37 × E405 status ? from a service whose name is long enough…",
    "  order, node price",
    "  2026-11-17T10:00:00.000Z to 2026-11-17T12:00:00.000Z",
    `  for example ${group.example_job_id}`,
    "  fingerprint 5d41402abc4b2a76",
    `Searched back to 2026-11-17T09:00:00.000Z. More: umbra failures --after ${group.example_job_id} --data ./x`,
    "",
  ])
  const none = { ...page, groups: [], complete: true, scanned_to: null, next: null }
  expect(failuresText(none, { columns: 60, flags: "", paint })).toBe("No failed jobs.\n")
})
