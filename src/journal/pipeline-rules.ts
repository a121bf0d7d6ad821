/** The rules that every pipeline store applies in the same way. */
import { createHash } from "node:crypto"
import { formatMessageKey } from "../core/pipeline/settled.ts"
import { JournalDataError } from "./errors.ts"
import type { LineageRow, ListedExecution, MessageKey, PipelineCommit } from "./port/pipelines.ts"
import { BEFORE_ALL_KEYS } from "./values.ts"

/**
 * For a commit whose fence holds and that was not written. `last`: the number of the last commit that was
 * written; null: there is no such execution. If `last` is one less than its own number, another sending of
 * the same commit was faster. If it is lower, a commit is missing, and continuing would lose it.
 */
export function checkSentBefore({ execution, commit }: PipelineCommit, last: number | null): void {
  if (last !== null && last >= commit - 1) return
  const state = last === null ? "which does not exist" : `whose last commit is ${last}`
  throw new JournalDataError(
    `commit ${commit} of execution ${execution}, ${state}, was rejected: commits must be consecutive. Nothing of it was stored.`,
  )
}

/**
 * One statement can change a row only once: for a message that occurs twice the last entry counts, and a
 * message that is parked again is not also unparked.
 */
export function settled({
  parked,
  unparked,
  stored,
}: Pick<PipelineCommit, "parked" | "unparked" | "stored">) {
  const last = new Map(parked.map(row => [formatMessageKey(row), row]))
  return {
    parked: [...last.values()],
    unparked: unparked.filter(key => !last.has(formatMessageKey(key))),
    stored: [...new Map(stored.map(({ key, value }) => [storedKey(key), value]))],
  }
}

export function distinctKeys(keys: readonly MessageKey[]): MessageKey[] {
  return [
    ...new Map(keys.map(({ route, seq }) => [formatMessageKey({ route, seq }), { route, seq }])).values(),
  ]
}

const LONGEST_KEY = 200
const PLAIN_KEY = /^[^\p{Cc}\p{Cs}]*$/u

/**
 * An index cannot hold long texts, nor a database every character: such keys are replaced by their digest.
 */
export function storedKey(key: string): string {
  if (key.length <= LONGEST_KEY && PLAIN_KEY.test(key)) return key
  return `sha256:${createHash("sha256").update(JSON.stringify(key)).digest("hex")}`
}

/** A claim whose job has not been stored for this long is abandoned, whatever the retention. */
export const ABANDONED_MS = 3_600_000

export function inKeyOrder(a: MessageKey, b: MessageKey): number {
  return a.route - b.route || a.seq - b.seq
}

/**
 * By message, attempt and adapter; then by time. Calls that are equal in all of these are ordered by their
 * remaining fields, so that every store returns them in the same order without storing one.
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

/**
 * The number of dead letters that one statement marks: 10,000 take 30 ms on SQLite, and nothing else is stored
 * meanwhile.
 */
export const CLAIM_PAGE = 10_000

/** These dead letters, or all that `keysAfter` finds, in pages of at most `CLAIM_PAGE`; at least one page. */
export async function* deadLetterPages(
  keys: readonly MessageKey[] | null,
  keysAfter: (after: MessageKey) => Promise<readonly MessageKey[]>,
): AsyncGenerator<readonly MessageKey[]> {
  let after = BEFORE_ALL_KEYS
  for (let page = 0; ; page++) {
    const from = page * CLAIM_PAGE
    const found = keys?.slice(from, from + CLAIM_PAGE) ?? (await keysAfter(after))
    if (page === 0 || found.length > 0) yield found
    if (found.length < CLAIM_PAGE) return
    after = found.at(-1)!
  }
}

/** A row of a list of executions; one without an execution, if none was found. */
export interface ScannedExecution extends Omit<ListedExecution, "execution" | "jobId"> {
  readonly execution: number | null
  readonly jobId: string | null
  /** The oldest execution that was read; null: none was. */
  readonly scanned: number | null
  /** There are no older ones. */
  readonly isEnd: boolean
}

export function executionPage(rows: readonly ScannedExecution[], limit: number) {
  const executions = rows.flatMap(({ execution, jobId, progress, endedAt }): ListedExecution[] =>
    execution === null ? [] : [{ execution, jobId: jobId!, progress, endedAt }],
  )
  const { scanned, isEnd } = rows[0]!
  const isFull = executions.length === limit
  const last = isFull ? executions.at(-1)!.execution : scanned
  return { executions, next: isEnd && !(isFull && last !== scanned) ? null : last }
}
