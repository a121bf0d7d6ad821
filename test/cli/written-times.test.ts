import pc from "picocolors"
import { describe, expect, it } from "vitest"
import { text } from "../../src/cli/jobs/list.ts"
import { nodeLines } from "../../src/cli/jobs/show.ts"
import type { RemoteEvent, RemoteGraph } from "../../src/client/index.ts"
import type { JobEvent } from "../../src/core/view/events.ts"
import { graphView, type NodeView, type WaitingOn } from "../../src/core/view/view.ts"
import { isoEvent, isoGraph } from "../../src/jobs/iso-times.ts"
import { Job } from "../core/job.ts"

const iso = (ms: number) => new Date(ms).toISOString()

const external = {
  kind: "external",
  provider: "acme",
  external_id: "op-1",
  polls: 2,
  poll_error: null,
} as const
const waits: readonly (readonly [WaitingOn, times: object, shown: string])[] = [
  [{ kind: "retry", at: 5 }, { at: iso(5) }, `next attempt at ${iso(5)}`],
  [{ kind: "timer", until: 6 }, { until: iso(6) }, `until ${iso(6)}`],
  [{ kind: "signal", name: "approved", until: null }, {}, "waits for signal approved"],
  [
    { ...external, last_poll_at: 3, next_poll_at: 7, until: 8 },
    { last_poll_at: iso(3), next_poll_at: iso(7), until: iso(8) },
    `waits for op-1 of provider acme, next poll at ${iso(7)}`,
  ],
  [{ kind: "slot", provider: "acme", position: 3 }, {}, "waits for a slot of provider acme, position 3"],
]

describe("times over the wire", () => {
  it.each(waits)(
    "a graph with a node that waits for %j is the same after a journey",
    (wait, times, shown) => {
      const graph = graphView(new Job([{ id: "a", dependencies: [] }]).state, { now: 0 })
      const node: NodeView = { ...graph.nodes[0]!, waiting_on: wait }
      const here = { ...graph, nodes: [node], waiting_for: [{ node: "a", ...wait }] }
      const there = JSON.parse(JSON.stringify(isoGraph(here))) as RemoteGraph
      const [sent] = there.nodes
      const written = (at: number | null) => (at === null ? null : iso(at))
      expect(there).toEqual({ ...here, nodes: [sent], waiting_for: [{ node: "a", ...wait, ...times }] })
      expect(sent).toEqual({
        ...node,
        queued_at: written(node.queued_at),
        started_at: written(node.started_at),
        finished_at: written(node.finished_at),
        waiting_on: { ...wait, ...times },
      })
      expect(nodeLines(there.nodes)[0]).toContain(shown)
    },
  )

  it.each([
    [
      "node.waiting",
      { waiting: { kind: "external", provider: "acme", next_poll_at: 7, until: 8 } },
      { waiting: { kind: "external", provider: "acme", next_poll_at: iso(7), until: iso(8) } },
    ],
    [
      "operation.polled",
      { because: "running", next_poll_at: 9 },
      { because: "running", next_poll_at: iso(9) },
    ],
    ["node.queued", { reason: "retry", retry_at: 10 }, { reason: "retry", retry_at: iso(10) }],
  ] as const)(
    "an event %s is the same after a journey, and its times are text on it",
    (type, payload, sent) => {
      const event: JobEvent = {
        ...{
          type,
          source: "provider",
          at: 4,
          seq: 1,
          correlation_id: "j",
          idempotency_key: "j/1/0",
          payload,
        },
      }
      const there = JSON.parse(JSON.stringify(isoEvent(event))) as RemoteEvent
      expect(there).toEqual({ ...event, at: iso(4), payload: sent })
      expect(text(there, pc.createColors(false))).toContain(JSON.stringify(sent))
    },
  )
})
