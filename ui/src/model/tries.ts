/** Attempts that have ended, read from the facts that ended them. */
import type { FactRecord, JobState } from "../../../src/core/index.ts"

export interface EndedTry {
  readonly node: number
  /** The fact that ended it. */
  readonly seq: number
  readonly outcome: string
  /** null: not recorded. */
  readonly startedAt: number | null
  readonly endedAt: number
  readonly worker: string | null
  readonly error: { readonly code: string; readonly message: string } | null
  readonly retryAt: number | null
}

interface Detail {
  readonly fault?: { readonly code: string; readonly message: string }
  readonly retry_at?: number
  readonly nodes?: readonly number[]
}

/** The attempts of nodes that this fact ended without a result. `state`: after the fact. */
export function endedTries(state: JobState, record: FactRecord): EndedTry[] {
  const { fault, retry_at, nodes } = record as Detail
  const { seq, at } = record
  if (record.type !== "node_failed" && record.type !== "tasks_lost") return []
  return (nodes ?? [record.node!]).flatMap((node): EndedTry[] => {
    const last = state.lastAttempts.get(node)
    if (last?.endedAt === at) {
      const { outcome, startedAt, endedAt, worker } = last
      return [
        { node, seq, outcome, startedAt, endedAt, worker, error: fault ?? null, retryAt: retry_at ?? null },
      ]
    }
    // The last one: its times are those of the node.
    if (fault === undefined) return []
    const times = { startedAt: state.startedAt[node] || null, endedAt: at }
    return [
      {
        node,
        seq,
        outcome: "failed",
        ...times,
        worker: state.workers[node] ?? null,
        error: fault,
        retryAt: null,
      },
    ]
  })
}

/** With the numbers that people see: what was handed over or did not begin has that of the next one. */
export function numbered(ended: readonly EndedTry[]): { entry: EndedTry; number: number }[] {
  let counted = 0
  return ended.map(entry => {
    const { outcome, startedAt } = entry
    const isCounted =
      outcome === "failed" || outcome === "cancelled" || (outcome === "lost" && startedAt !== null)
    if (isCounted) counted++
    return { entry, number: isCounted ? counted : counted + 1 }
  })
}
