import type { sql } from "./sql.generated.ts"

/**
 * What a store must be able to do so that SqlJournal can speak to it. Text in, text out: parameters are cast in SQL
 * and columns come back as PostgreSQL prints them, so that PostgreSQL and the embedded database cannot differ in what
 * their drivers make of a bigint or of JSON.
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
  /** Housekeeping after a purge, where the store has nobody else for it. */
  maintain?(): Promise<void>
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
