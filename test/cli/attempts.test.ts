import pc from "picocolors"
import { expect, it } from "vitest"
import { nodeText } from "../../src/cli/jobs/show.ts"
import type { RemoteNodeDetails } from "../../src/client/index.ts"
import { isoNodeDetails } from "../../src/jobs/iso-times.ts"
import type { NodeDetails } from "../../src/jobs/queries.ts"

const at = Date.parse("2026-11-15T12:00:00.000Z")

const attempt = {
  ...{ attempt: 1, outcome: "failed" as const, queued_at: at, started_at: at + 50, ended_at: at + 300 },
  ...{ duration_ms: 250, queued_ms: 50, held_ms: 0, worker: "local-4711", usage: { tokens: 1200 } },
  error: { code: "E410", message: "it answered 500, and that is all that is known of it at the moment" },
  reason: null,
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

const shown = (details: NodeDetails, columns: number) =>
  nodeText(isoNodeDetails(details) as RemoteNodeDetails, columns, pc.createColors(false))

it.each([40, 100])("a node and its attempts fit a terminal of %i columns", columns => {
  const lines = shown(node, columns)
  const attempts = lines.slice(lines.indexOf("103 attempts"))
  for (const line of attempts) expect(line.length).toBeLessThanOrEqual(columns)
  const text = attempts.join("\n")
  expect(text).toMatch(/^103 attempts\n {2}… 101 older ones\n {4}1 {2}failed +250 ms/)
  expect(text).toContain("queued 50 ms")
  expect(text).toContain("E410 it answered 500")
  expect(text).toMatch(/\n {4}2 {2}queued/)
  expect(lines).toContain("status    QUEUED  attempt 2 of 4, lost 1 time")
})

it.each([
  ["QUEUED", "not running"],
  ["RUNNING", "running"],
  ["WAITING", "waiting"],
] as const)("an attempt whose start is on record is shown as the node is: %s", (status, wanted) => {
  const live = { at, nodes: [{ ...liveTask, id: "price", status }] }
  const open = { ...attempt, outcome: null, ended_at: null, duration_ms: null, error: null }
  const lines = shown({ ...node, status: "RUNNING", live, attempts: [open] }, 100)
  expect(lines.find(line => line.startsWith("status"))).toContain(status)
  expect(lines.at(-1)).toMatch(new RegExp(`^ +1 {2}${wanted} `))
})

it("a node that was cancelled says why, and so does its attempt", () => {
  const reason = "The job was cancelled: ordered twice"
  const ended = { ...attempt, outcome: "cancelled" as const, error: null, reason }
  const lines = shown({ ...node, status: "CANCELLED", error: null, reason, attempts: [ended] }, 200)
  expect(lines).toContain(`reason    ${reason}`)
  expect(lines.at(-1)).toContain(reason)
  expect(lines.at(-1)).not.toContain("not started")
  const queued = { ...ended, started_at: null, duration_ms: null, worker: null }
  expect(shown({ ...node, status: "CANCELLED", attempts: [queued] }, 200).at(-1)).toContain("not started")
})

const liveTask = { worker: null, started_at: null, progress: null, waiting_on: null }
