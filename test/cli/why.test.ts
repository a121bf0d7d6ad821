/** What `umbra why` and `umbra waits` print. */
import pc from "picocolors"
import { describe, expect, it } from "vitest"
import { waitLines, whyLines } from "../../src/cli/commands/why.ts"
import type { WaitPage, WhyView } from "../../src/client/index.ts"

const id = "01a1eded-cdd9-7000-8000-4169a368994e"
const usual = { count: 120, p50: 40_000, p90: 50_000, p95: 60_000, p99: 70_000 }
const sentence = "Node film waits for operation op-17 at provider acme, no webhook yet, not polled yet."
const command = `umbra jobs signal ${id} approval`
const reason = {
  ...{ kind: "provider", count: 1, nodes: ["film"], sentence, action: null, details: {}, until: null },
  ...{ since: "2026-11-17T10:00:00.000Z", usual },
} as const
const view = (at: string, over: object = {}): WhyView => ({
  ...{ job_id: id, status: "PROCESSING", at, sentence, action: command, unknown: ["positions in queues"] },
  reasons: [
    { ...reason, ...over } as WhyView["reasons"][number],
    { ...reason, kind: "dependency", sentence: "Node send waits for film, music, titles and 3 more." },
  ],
  chain: [
    { job_id: id, node: "send", kind: "dependency", sentence: "Node send waits for film." },
    { job_id: id, node: "film", kind: "provider", sentence },
  ],
})
const page: WaitPage = {
  ...{ at: "2026-11-17T10:00:30.000Z", jobs: 3, running: 0, complete: true, scanned_to: null, next: null },
  groups: [
    {
      ...{ kind: "provider", subject: "acme", sentence, action: command, jobs: 3, nodes: 3, usual },
      ...{ since: null, until: null, examples: [] },
    },
  ],
}
const lines = (of: WhyView, columns = Number.POSITIVE_INFINITY) =>
  whyLines(of, pc.createColors(false), columns)

describe("umbra why", () => {
  it.each([40, 100])("fits into %i columns, except commands, which can be copied", columns => {
    const of = view("2026-11-17T10:00:30.000Z")
    const shown = [...lines(of, columns), ...waitLines(page, "", { paint: pc.createColors(false), columns })]
    const commands = shown.filter(line => line.includes("→"))
    expect(commands).toEqual([`→ ${command}`, `  → ${command}`])
    for (const line of shown)
      if (!commands.includes(line)) expect(line.length, line).toBeLessThanOrEqual(columns)
    const words = (from: readonly string[]) => from.join(" ").split(/\s+/)
    expect(words(lines(of, columns))).toEqual(words(lines(of)))
  })

  it("says how long a node has waited, and whether that is unusually long", () => {
    const waits = (at: string, over?: object) =>
      lines(view(at, over)).filter(line => line.includes(" for 1 min"))
    expect(waits("2026-11-17T10:01:05.000Z")).toEqual([
      "Waits for 1 min 5 s; usually 40.0 s (median), 50.0 s (90 %), of 120 runs.",
    ])
    expect(waits("2026-11-17T10:01:11.000Z")).toEqual([
      "Waits for 1 min 11 s, unusually long; usually 40.0 s (median), 50.0 s (90 %), of 120 runs.",
    ])
    const nothing = { usual: null, kind: "running" }
    expect(waits("2026-11-17T10:01:11.000Z", nothing)).toEqual(["Runs for 1 min 11 s."])
    expect(waits("2026-11-17T10:01:11.000Z", { since: null })).toEqual([])
  })
})
