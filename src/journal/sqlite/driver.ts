/**
 * The SQLite driver: `node:sqlite` where Node has it (22.13 and later), else `@photostructure/sqlite`, which has the same
 * interface. Everything in it is synchronous.
 */
import { createRequire } from "node:module"
import { UmbraError } from "../../errors.ts"

/** What can be bound to a parameter. The driver truncates a text at a NUL: see `freeText` in database.ts. */
export type Value = string | number | bigint | null | Uint8Array

export interface Statement {
  run(...values: Value[]): { readonly changes: number | bigint; readonly lastInsertRowid: number | bigint }
  get(...values: Value[]): unknown
  all(...values: Value[]): unknown[]
  iterate(...values: Value[]): Iterable<unknown>
}

/** The common part of `DatabaseSync` of both drivers. */
export interface Database {
  prepare(sql: string): Statement
  exec(sql: string): void
  /** Defines a function for SQL. */
  function(name: string, work: (value: Value) => Value): void
  close(): void
}

interface Driver {
  readonly DatabaseSync: new (path: string, options?: { readonly readOnly?: boolean }) => Database
}

export function openDatabase(path: string, options: { readonly readOnly?: boolean } = {}): Database {
  const { DatabaseSync } = driver()
  return new DatabaseSync(path, options)
}

let loaded: Driver | undefined

function driver(): Driver {
  loaded ??= builtIn() ?? packaged()
  return loaded
}

function builtIn(): Driver | undefined {
  const { emitWarning } = process
  // Node calls its module experimental; only the interface that both drivers have is used here.
  process.emitWarning = () => {}
  try {
    return process.getBuiltinModule?.("node:sqlite") as Driver | undefined
  } finally {
    process.emitWarning = emitWarning
  }
}

function packaged(): Driver {
  try {
    return createRequire(import.meta.url)("@photostructure/sqlite") as Driver
  } catch (cause) {
    throw new UmbraError(
      "E508",
      `the embedded database needs SQLite, and this Node.js (${process.version} on ${process.platform}-${process.arch}) has none: use Node.js 22.13 or later, or install the package @photostructure/sqlite, or name a PostgreSQL database`,
      { cause },
    )
  }
}
