/**
 * The lineage as both stores keep it: the calls of one attempt at a message, each "adapter,at,µs,c|f;emitted;error",
 * joined by U+001F in one text. The error is JSON, which may contain ";", so it comes last; neither it nor a body
 * contains U+001E or U+001F unescaped, and a text that does is rejected (joined-text.ts).
 */
import { FIELD, json, plain } from "./joined-text.ts"
import type { Attempt, Invocation, LineageRow, MessageKey } from "./port/pipelines.ts"

/** One attempt at a message, or a part of it, as it is stored. */
export interface AttemptRow extends MessageKey {
  readonly attempt: number
  readonly into: number | null
  steps: string
}

/** One row for each attempt; a call that was gathered into another message has a row of its own. */
export function attemptRows(lineage: readonly Attempt[]): AttemptRow[] {
  const rows: AttemptRow[] = []
  for (const { route, seq, attempt, invocations, emitted } of lineage) {
    let row: AttemptRow | undefined
    for (const call of invocations) {
      const step = encodeStep(call, emitted)
      if (row?.into === call.into) row.steps += FIELD + step
      else {
        row = { route, seq, attempt, into: call.into, steps: step }
        rows.push(row)
      }
    }
  }
  return rows
}

function encodeStep(call: Invocation, emitted: Attempt["emitted"]): string {
  const { adapter, at, durationUs, status, error } = call
  const sent = emitted?.get(adapter)
  const letter = status === "failed" ? "f" : "c"
  return `${adapter},${at},${durationUs},${letter};${sent === undefined ? "" : plain(sent)};${error === null ? "" : json(error)}`
}

/** The calls of a stored attempt. */
export function lineageRows({ route, seq, attempt, into, steps }: AttemptRow): LineageRow[] {
  return steps.split(FIELD).map(step => ({ route, seq, attempt, into, ...invocation(step) }))
}

function invocation(step: string): Omit<LineageRow, "route" | "seq" | "attempt" | "into"> {
  const head = step.indexOf(";")
  const tail = step.indexOf(";", head + 1)
  const [adapter, at, durationUs, letter] = step.slice(0, head).split(",")
  return {
    adapter: Number(adapter),
    at: Number(at),
    durationUs: Number(durationUs),
    status: letter === "f" ? "failed" : "completed",
    emitted: step.slice(head + 1, tail) || null,
    error: step.slice(tail + 1) || null,
  }
}
