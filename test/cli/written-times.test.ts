import pc from "picocolors"
import { describe, expect, it } from "vitest"
import { text } from "../../src/cli/jobs/events.ts"
import { eventFrom, graphFrom } from "../../src/cli/target/written-times.ts"
import type { RemoteEvent, RemoteGraph } from "../../src/client/index.ts"
import type { JsonObject } from "../../src/core/json.ts"
import type { JobEvent } from "../../src/core/view/events.ts"
import { graphView, type NodeView, type WaitingOn } from "../../src/core/view/view.ts"
import { isoEvent, isoGraph } from "../../src/jobs/iso-times.ts"
import { Job } from "../core/job.ts"

const waits: readonly WaitingOn[] = [
  { kind: "retry", at: 5 },
  { kind: "timer", until: 6 },
  { kind: "signal", name: "approved", until: null },
  {
    kind: "external",
    provider: "acme",
    external_id: "op-1",
    next_poll_at: 7,
    until: 8,
    polls: 2,
    poll_error: null,
  },
  { kind: "slot", provider: "acme", position: 3 },
]
const iso = (ms: number) => new Date(ms).toISOString()

describe("times over the wire", () => {
  it.each(waits)("a graph with a node that waits for $kind is the same after a journey", wait => {
    const graph = graphView(new Job([{ id: "a", dependencies: [] }]).state, { now: 0 })
    const node: NodeView = { ...graph.nodes[0]!, waiting_on: wait }
    const here = { ...graph, nodes: [node], waiting_for: [{ node: "a", ...wait }] }
    const there = JSON.parse(JSON.stringify(isoGraph(here))) as RemoteGraph
    expect(graphFrom(there)).toEqual(here)
    for (const name of ["at", "until", "next_poll_at"])
      expect(typeof (there.nodes[0]!.waiting_on as JsonObject)[name]).not.toBe("number")
  })

  it.each([
    ["node.waiting", { waiting: { kind: "external", provider: "acme", next_poll_at: 7, until: 8 } }],
    ["operation.polled", { because: "running", next_poll_at: 9 }],
    ["node.queued", { reason: "retry", retry_at: 10 }],
  ] as const)("an event %s is the same after a journey, and its times are text on it", (type, payload) => {
    const event: JobEvent = {
      ...{ type, source: "provider", at: 4, seq: 1, correlation_id: "j", idempotency_key: "j/1/0", payload },
    }
    const there = JSON.parse(JSON.stringify(isoEvent(event))) as RemoteEvent
    expect(eventFrom(there)).toEqual(event)
    expect(JSON.stringify(there)).toContain(iso(4))
    expect(JSON.stringify(there.payload)).not.toMatch(/_at":\d|until":\d/)
    expect(text(event, pc.createColors(false))).toContain(JSON.stringify(there.payload))
  })
})
