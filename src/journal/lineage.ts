/**
 * The lineage as both stores keep it: the calls of one attempt at a message, each "adapter,at,µs,c|f;emitted;error",
 * joined by U+001F in one text. The error is JSON, which may contain ";", so it comes last; neither it nor a body
 * contains U+001E or U+001F unescaped, and a text that does is rejected (joined-text.ts).
 */
import { FIELD, json, plain } from "./joined-text.ts"
import type { LineageRow, MessageKey } from "./port/pipelines.ts"

/** One attempt at a message, or a part of it, as it is stored. */
export interface AttemptRow extends MessageKey {
  readonly attempt: number
  readonly into: number | null
  steps: string
}

/** The calls of an attempt are nearly always consecutive; those that are not become separate rows. */
export function groupAttempts(lineage: readonly LineageRow[]): AttemptRow[] {
  const attempts: AttemptRow[] = []
  let last: AttemptRow | undefined
  for (const row of lineage) {
    const { route, seq, attempt, into } = row
    const isSame = last?.seq === seq && last.route === route && last.attempt === attempt && last.into === into
    if (isSame) last!.steps += FIELD + encodeStep(row)
    else {
      last = { route, seq, attempt, into, steps: encodeStep(row) }
      attempts.push(last)
    }
  }
  return attempts
}

function encodeStep({ adapter, at, durationUs, status, emitted, error }: LineageRow): string {
  const letter = status === "failed" ? "f" : "c"
  const [sent, fault] = [emitted === null ? "" : plain(emitted), error === null ? "" : json(error)]
  return `${adapter},${at},${durationUs},${letter};${sent};${fault}`
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
