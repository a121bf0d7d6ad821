import type { sql } from "./sql.generated.ts"

/**
 * A PostgreSQL database as SqlJournal uses it. Parameters are sent as text and cast in SQL. Rows have the
 * names of their columns in camelCase; numbers and booleans are converted, everything else is text as
 * PostgreSQL prints it: stored JSON (`json`) is not parsed. A statement that returns a list builds it as
 * `jsonb`, which is.
 */
export interface Database {
  /** The name in messages, without credentials. */
  readonly label: string
  /** A short operation, safe to send twice: retried if the connection breaks. */
  query<Row>(statement: Statement, values: Values): Promise<Row[]>
  /** Never retried: the caller resends if needed. */
  append<Row>(statement: AppendStatement, values: Values): Promise<Row[]>
  /** Like an append, but always rolled back. */
  trial(statement: AppendStatement, values: Values): Promise<void>
  /** Several statements, one commit. */
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T>
  close(): Promise<void>
}

export interface Session {
  query<Row>(statement: Statement, values: Values): Promise<Row[]>
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
