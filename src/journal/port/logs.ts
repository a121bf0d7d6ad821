/**
 * Log lines of attempts, kept beside the journal. One row holds lines of one attempt that were written together; the store
 * does not read `lines`.
 *
 * 1. Rows of a job are numbered in the order in which they become visible: a reader at a position misses none.
 * 2. A row belongs to a run (job, node, item, fence, run id). The rows of a run are stored in the order of their lines: one whose lines are
 *    not all after those that are stored is left out. So resending is harmless, and a row that arrives too late stays a gap.
 * 3. Rows of a job that is not in the store are left out. A job that is removed takes its rows with it, in pages.
 * 4. Appends do not wait for a write: it has a connection of its own, and on SQLite it is split into small transactions.
 *    It is not synced to the disk, so a power cut may lose the last rows.
 */
import type { LoggedLines } from "../../log.ts"

export interface LogStore {
  write(rows: readonly LoggedLines[]): Promise<void>
  /** Rows in the order of their positions, or in the opposite one, by index: at most `limit`. */
  read(query: LogQuery): Promise<LogRow[]>
  /** Where the rows of each attempt are, in the order of `attempts`. */
  extents(jobId: string, attempts: readonly LoggedAttempt[]): Promise<LogExtent[]>
  /** Removes at most `limit` rows of jobs that were removed. Any engine does this. Returns their number. */
  purgeRows(purge: { readonly limit: number }): Promise<number>
}

/** `runId`: of the run that has ended the attempt; absent: not known. */
export type LoggedAttempt = Pick<LoggedLines, "nodeId" | "item" | "fence" | "attempt" | "runId">

export interface LogExtent {
  /** The number of the last stored line, of the run if it is known; 0: none is stored. */
  readonly lastLine: number
  /** The positions of the first and the last row, of all runs; null: none is stored. */
  readonly first: number | null
  readonly last: number | null
  /** Rows of an earlier fence show the same attempt number. */
  readonly isRepeated: boolean
}

export interface LogRow extends Omit<LoggedLines, "jobId" | "lines" | "runId"> {
  readonly position: number
  /** Numbers the runs of the attempt, from 1, in the order in which their first rows were stored. */
  readonly run: number
  /** How many lines of the run are missing before this row. */
  readonly lost: number
  /** null: no line has the wanted level, or the rows before it have `maxBytes`. */
  readonly lines: string | null
}

export interface LogQuery {
  readonly jobId: string
  readonly nodeId?: string | undefined
  /** Only with `nodeId`. -1: of the node itself. */
  readonly item?: number | undefined
  /** The attempt number that people see. Only with `nodeId`. */
  readonly attempt?: number | undefined
  /** Rows without a line of at least this level come without lines. */
  readonly level: number
  /** The first position that is read. */
  readonly from: number
  /** Rows from there down, the newest first; default: up. */
  readonly downwards?: boolean
  readonly limit: number
  readonly maxBytes: number
}
