/** What every store of pipelines decides alike. */
import { createHash } from "node:crypto"
import { JournalDataError } from "./errors.ts"
import type { LineageRow, MessageKey, PipelineCommit } from "./port/pipelines.ts"

/**
 * For a commit whose fence holds and that was not written. `last`: the number of the last one that was; null: there is no
 * such execution. One less than its own: another sending of the same was faster. Behind that one is missing, and to go on
 * would lose it.
 */
export function checkSentBefore({ execution, commit }: PipelineCommit, last: number | null): void {
  if (last !== null && last >= commit - 1) return
  const state = last === null ? "which does not exist" : `whose last commit is ${last}`
  throw new JournalDataError(
    `commit ${commit} of execution ${execution}, ${state}, was refused: commits follow on each other. Nothing of it was stored.`,
  )
}

/**
 * One statement can touch a row once: of what is said twice the last counts, and what is parked again is not also taken
 * out.
 */
export function settled({
  parked,
  unparked,
  stored,
}: Pick<PipelineCommit, "parked" | "unparked" | "stored">) {
  const last = new Map(parked.map(row => [nameOf(row), row]))
  return {
    parked: [...last.values()],
    unparked: unparked.filter(key => !last.has(nameOf(key))),
    stored: [...new Map(stored.map(({ key, value }) => [storedKey(key), value]))],
  }
}

export function nameOf({ route, seq }: MessageKey): string {
  return `${route}:${seq}`
}

const LONGEST_KEY = 200
const PLAIN_KEY = /^[^\p{Cc}\p{Cs}]*$/u

/** An index holds no long texts, and a database no odd ones: those are known by their digest. */
export function storedKey(key: string): string {
  if (key.length <= LONGEST_KEY && PLAIN_KEY.test(key)) return key
  return `sha256:${createHash("sha256").update(JSON.stringify(key)).digest("hex")}`
}

/** A claim whose job has not been stored for so long: it will not be, however short anything else is kept. */
export const ABANDONED_MS = 3_600_000

export function inKeyOrder(a: MessageKey, b: MessageKey): number {
  return a.route - b.route || a.seq - b.seq
}

/**
 * By message, attempt and adapter; then by time. Invocations that are alike in all of that are ordered by the rest of
 * what they say, so that every store gives them in the same order without storing one.
 */
export function inLineageOrder(a: LineageRow, b: LineageRow): number {
  return (
    inKeyOrder(a, b) ||
    a.attempt - b.attempt ||
    a.adapter - b.adapter ||
    a.at - b.at ||
    a.durationUs - b.durationUs ||
    inTextOrder(a.status, b.status) ||
    (a.into ?? -1) - (b.into ?? -1) ||
    inTextOrder(a.emitted ?? "", b.emitted ?? "") ||
    inTextOrder(a.error ?? "", b.error ?? "")
  )
}

function inTextOrder(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1
}
