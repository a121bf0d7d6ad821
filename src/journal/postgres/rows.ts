/** Converts rows of text, in the column order of the `.sql` files, to the port's types. */
import type { JobStatus } from "../../core/states.ts"
import { noticeOf } from "../message-command.ts"
import type {
  EngineBeat,
  FactRow,
  Heartbeat,
  JobRow,
  MessageRow,
  PartitionRow,
  WorkflowRow,
} from "../port/journal.ts"
import type { Row } from "./database.ts"

export function text(row: Row | undefined, column: number): string {
  const value = row?.[column]
  if (value === null || value === undefined)
    throw new TypeError(`the database returned no value in column ${column}`)
  return value
}

export function number(row: Row | undefined, column: number): number {
  return Number(text(row, column))
}

export function maybeNumber(row: Row, column: number): number | null {
  const value = row[column] ?? null
  return value === null ? null : Number(value)
}

export function maybeText(row: Row, column: number): string | null {
  return row[column] ?? null
}

export function factRow(row: Row): FactRow {
  return {
    jobId: text(row, 0),
    seq: number(row, 1),
    at: number(row, 2),
    type: text(row, 3),
    data: maybeText(row, 4),
    bytes: number(row, 5),
  }
}

export function jobRow(row: Row): JobRow {
  return {
    id: text(row, 0),
    partition: number(row, 1),
    seq: number(row, 2),
    status: text(row, 3) as JobStatus,
    updatedAt: number(row, 4),
    finishedAt: maybeNumber(row, 5),
    wakeAt: maybeNumber(row, 6),
    output: maybeText(row, 7),
    error: maybeText(row, 8),
    owner: text(row, 9),
    workflow: text(row, 10),
    workflowVersion: number(row, 11),
    parentId: maybeText(row, 12),
    labels: maybeText(row, 13),
    priority: number(row, 14),
    createdAt: number(row, 15),
    submittedBy: maybeText(row, 16),
    ...(row[17] === "t" ? { outputLeftOut: true as const } : {}),
  }
}

export function workflowRow(key: { readonly owner: string; readonly name: string }, row: Row): WorkflowRow {
  return {
    owner: key.owner,
    name: key.name,
    version: number(row, 0),
    hash: text(row, 1),
    definition: text(row, 2),
    createdAt: number(row, 3),
    unchanged: row[4] === "t",
    deletedAt: maybeNumber(row, 5),
    pushedBy: maybeText(row, 6),
    rules: number(row, 7),
  }
}

export function messageRow(row: Row): MessageRow {
  return {
    id: number(row, 0),
    partition: number(row, 1),
    jobId: text(row, 2),
    sentAt: number(row, 3),
    command: maybeText(row, 4),
    notice: noticeOf({
      kind: maybeText(row, 5),
      node: maybeNumber(row, 6),
      item: maybeNumber(row, 7),
      news: maybeText(row, 8),
    }),
  }
}

export function partitionRow(row: Row): PartitionRow {
  return { partition: number(row, 0), owner: maybeText(row, 1), epoch: number(row, 2) }
}

export function engineRow(row: Row): EngineBeat {
  return { engine: text(row, 0), place: text(row, 1), beat: number(row, 2), follows: row[3] === "t" }
}

/** beat.sql returns three lists as one, distinguished by the first column. */
export function heartbeat(rows: readonly Row[]): Heartbeat {
  const of = (kind: string) => rows.filter(row => row[0] === kind)
  return {
    engines: of("engine").map(row => engineRow(row.slice(1))),
    partitions: of("partition")
      .map(row => partitionRow(row.slice(1)))
      .sort((a, b) => a.partition - b.partition),
    inbox: of("inbox")
      .map(row => number(row, 1))
      .sort((a, b) => a - b),
  }
}
