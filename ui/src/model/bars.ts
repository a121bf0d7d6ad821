/** The bars of a node in the gantt: queued, runs, waits, and attempts that failed. */
import type { NodeView } from "../../../src/core/index.ts"
import type { EndedTry } from "./tries.ts"

export interface Bar {
  readonly kind: "queued" | "run" | "wait" | "failed"
  readonly from: number
  readonly to: number
  readonly title: string
}

export function buildBars(node: NodeView, tries: readonly EndedTry[], seq: number, now: number): Bar[] {
  const bars: Bar[] = []
  let queuedFrom: number | null = null
  for (const { startedAt, endedAt, error, outcome, retryAt, seq: endSeq } of tries) {
    if (endSeq > seq || endedAt === node.finished_at) continue
    const title = error === null ? outcome : `${error.code} ${error.message}`
    if (queuedFrom !== null)
      bars.push({
        kind: "queued",
        from: queuedFrom,
        to: startedAt ?? endedAt,
        title: "Waits for the next attempt",
      })
    bars.push({ kind: "failed", from: startedAt ?? endedAt - 1, to: endedAt, title })
    queuedFrom = retryAt === null ? null : endedAt
  }
  const { status, queued_at, started_at, finished_at, duration_ms } = node
  if (queued_at === null || status === "PENDING" || status === "SKIPPED") return bars
  if (node.items !== undefined) {
    const kind = status === "FAILED" ? "failed" : status === "WAITING" ? "wait" : "run"
    return [...bars, { kind, from: queued_at, to: finished_at ?? now, title: `${node.items.total} items` }]
  }
  const from = Math.max(queuedFrom ?? queued_at, queued_at)
  const end = finished_at ?? now
  const isRun = started_at !== null
  if (from < (started_at ?? end))
    bars.push({ kind: "queued", from, to: Math.min(end, started_at ?? end), title: "Queued" })
  if (!isRun) return bars
  const ranUntil =
    duration_ms !== null
      ? started_at + duration_ms
      : status === "WAITING"
        ? Math.min(end, started_at + 1)
        : end
  bars.push({
    kind: status === "FAILED" ? "failed" : "run",
    from: started_at,
    to: Math.max(ranUntil, started_at),
    title: status === "FAILED" ? (node.error?.code ?? "Failed") : "Ran",
  })
  if (ranUntil < end) bars.push({ kind: "wait", from: ranUntil, to: end, title: "Waited" })
  return bars
}
