import pc from "picocolors"
import { expect, it } from "vitest"
import { nodeText } from "../../src/cli/jobs/show-node.ts"
import type { NodeDetails } from "../../src/engine/queries.ts"

const at = Date.parse("2026-11-15T12:00:00.000Z")

const attempt = {
  ...{ attempt: 1, outcome: "failed" as const, queued_at: at, started_at: at + 50, ended_at: at + 300 },
  ...{ duration_ms: 250, queued_ms: 50, held_ms: 0, worker: "local-4711", usage: { tokens: 1200 } },
  error: { code: "E410", message: "it answered 500, and that is all that is known of it at the moment" },
  waits: [],
}

const node: NodeDetails = {
  ...{ id: "price", handler: "call", status: "QUEUED", attempt: 2, max_attempts: 4, losses: 1, incoming: 0 },
  ...{ queued_at: at + 300, started_at: null, finished_at: null, worker: null },
  ...{ duration_ms: null, queued_ms: null, waited_ms: null, waiting_on: null, progress: null, output: null },
  error: { code: "E410", message: "it answered 500" },
  usage: { tokens: 1200 },
  attempts_total: 103,
  attempts: [
    attempt,
    { ...attempt, attempt: 2, outcome: null, started_at: null, ended_at: null, error: null, usage: null },
  ],
}

it.each([40, 100])("a node and its attempts fit a terminal of %i columns", columns => {
  const lines = nodeText(node, columns, pc.createColors(false))
  const attempts = lines.slice(lines.indexOf("103 attempts"))
  for (const line of attempts) expect(line.length).toBeLessThanOrEqual(columns)
  const text = attempts.join("\n")
  expect(text).toMatch(/^103 attempts\n {2}… 101 older ones\n {4}1 {2}failed +250 ms/)
  expect(text).toContain("queued 50 ms")
  expect(text).toContain("E410 it answered 500")
  expect(text).toMatch(/\n {4}2 {2}queued/)
  expect(lines).toContain("status    QUEUED  attempt 2 of 4, lost 1 time")
})
