import type { sql } from "./sql.generated.ts"

/**
 * A PostgreSQL database as SqlJournal speaks to it. Text in, text out: parameters are cast in SQL and columns come back
 * as PostgreSQL prints them, so that no driver decides what becomes of a bigint or of JSON.
 */
export interface Database {
  /** In messages, without credentials. */
  readonly label: string
  /** A short operation, safe to send twice: retried where connections can break. */
  query(statement: Statement, parameters: Parameters): Promise<Row[]>
  /** Never retried: the caller knows what it has sent. */
  append(statement: AppendStatement, parameters: Parameters): Promise<Row[]>
  /** As an append, rolled back whatever comes of it. */
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
