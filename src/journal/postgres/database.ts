import type { PartitionEpoch } from "../port/journal.ts"
import type { sql } from "./sql.generated.ts"

/**
 * A PostgreSQL database as SqlJournal uses it. A parameter `@job_id` of a statement gets the value `jobId`, or null; the
 * statements of appends number theirs. Parameters are sent as text and cast in SQL. Rows have the
 * names of their columns in camelCase; numbers and booleans are converted, everything else is text as
 * PostgreSQL prints it: stored JSON (`json`) is not parsed. A statement that returns a list builds it as
 * `jsonb`, which is.
 */
export interface Database {
  /** The name in messages, without credentials. */
  readonly label: string
  /** A short operation, safe to send twice: retried if the connection breaks. */
  query<Row>(statement: Statement, values?: object): Promise<Row[]>
  /** Never retried: the caller resends if needed. */
  append<Row>(statement: AppendStatement, values: Values): Promise<Row[]>
  /** Like an append, but always rolled back. */
  trial(statement: AppendStatement, values: Values): Promise<void>
  /** Several statements, one commit. */
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T>
  close(): Promise<void>
}

export interface Session {
  query<Row>(statement: Statement, values?: object): Promise<Row[]>
  /** Several statements without parameters: a migration. */
  script(text: string): Promise<void>
}

export type Statement = keyof typeof sql
export type AppendStatement =
  | "append"
  | "appendAgain"
  | "appendForks"
  | "appendSchedules"
  | "appendJobs"
  | "appendRows"
  | "appendQueued"
  | "appendFacts"
  | "appendFact"
  | "pipelineCommit"
  | "writeLogs"
export type Value = string | number | boolean | null | undefined | readonly (string | number | null)[]
export type Values = readonly Value[]

/** The common part of the stores on PostgreSQL. */
export class SqlStore {
  protected readonly database: Database

  constructor(database: Database) {
    this.database = database
  }

  protected async first<Row>(statement: Statement, values?: object): Promise<Row | undefined> {
    return (await this.database.query<Row>(statement, values))[0]
  }

  protected async exists(statement: Statement, values: object): Promise<boolean> {
    return (await this.first(statement, values)) !== undefined
  }

  /** Of a statement that returns one `count`. */
  protected async counted(statement: Statement, values: object): Promise<number> {
    return (await this.first<{ readonly count: number }>(statement, values))!.count
  }

  /** No row means that another process committed first: a new statement sees what it wrote. */
  protected async untilFound<Row>(statement: Statement, values: object): Promise<Row[]> {
    for (;;) {
      const rows = await this.database.query<Row>(statement, values)
      if (rows.length > 0) return rows
    }
  }
}

/** A fence as parameters. */
export function fenceColumns(list: readonly PartitionEpoch[]) {
  return { partitions: list.map(({ partition }) => partition), epochs: list.map(({ epoch }) => epoch) }
}
