/** Places in the log of a job, and the lines that a filter selects. */
import { logLevels } from "../../log.ts"
import type { LogFilter, LogLine } from "./logs.ts"

export type Unplaced = Omit<LogLine, "id">

/** What of the attempt that begins with a row was shown before the row: nothing, its dispatch, its start. */
export type Begun = 0 | 1 | 2

export interface Position {
  /** Events up to this one are read. */
  readonly seq: number
  readonly place: number
  /** Rows before this one, and this many lines of it. */
  readonly row: number
  readonly line: number
  /** Of this row. */
  readonly begun: Begun
  /** Webhooks up to this one are read. */
  readonly webhook: number
}

export const leastLevel = ({ level }: LogFilter) => logLevels.indexOf(level ?? "debug")

/** Does the filter select a line that is not of a handler? */
export function isSelected({ node, item, attempt, at, level }: Unplaced, filter: LogFilter): boolean {
  if (filter.node !== undefined && node !== filter.node) return false
  if (filter.item !== undefined && (item ?? -1) !== filter.item) return false
  if (filter.attempt !== undefined && attempt !== filter.attempt) return false
  return logLevels.indexOf(level) >= leastLevel(filter) && !isLater(at, filter)
}

export function isLater(at: number, { until }: LogFilter): boolean {
  return until !== undefined && at > until
}
