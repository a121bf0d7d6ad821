import type { sql } from "./sql.generated.ts"

/**
 * A PostgreSQL database as SqlJournal uses it. Parameters and results are text: parameters are cast in SQL
 * and columns are returned as PostgreSQL prints them, so that no driver converts a bigint or JSON.
 */
export interface Database {
  /** The name in messages, without credentials. */
  readonly label: string
  /** A short operation, safe to send twice: retried if the connection breaks. */
  query(statement: Statement, parameters: Parameters): Promise<Row[]>
  /** Never retried: the caller resends if needed. */
  append(statement: AppendStatement, parameters: Parameters): Promise<Row[]>
  /** Like an append, but always rolled back. */
  trial(statement: AppendStatement, parameters: Parameters): Promise<void>
  /** Several statements, one commit. */
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T>
  close(): Promise<void>
}

export interface Session {
  query(statement: Statement, parameters: Parameters): Promise<Row[]>
  /** Several statements without parameters: a migration. */
  script(text: string): Promise<void>
}

export type Statement = keyof typeof sql
export type AppendStatement =
  | "append"
  | "appendAgain"
  | "appendJobs"
  | "appendFacts"
  | "appendFact"
  | "pipelineCommit"
export type Text = string | null
export type Parameters = readonly Text[]
export type Row = readonly Text[]
