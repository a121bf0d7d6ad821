/**
 * One connection to an SQLite database, and the common part of all methods on it: prepared statements by
 * their text, transactions, and notifications. Everything is synchronous: a method is one transaction of a
 * few statements, and nothing else runs between them.
 */
import { JournalDataError } from "../errors.ts"
import type { Database, Statement, Value } from "./driver.ts"

/**
 * The methods of a port as they are inside the thread: the same arguments, and the result instead of a
 * promise.
 */
export type Sync<Port> = {
  readonly [Verb in keyof Port as Port[Verb] extends (...args: never[]) => Promise<unknown>
    ? Verb
    : never]: Port[Verb] extends (...args: infer Arguments) => Promise<infer Result>
    ? (...args: Arguments) => Result
    : never
}

/** The values of the parameters of a statement: one by one, or an object in which `@job_id` is `jobId`. */
type Given = readonly Value[] | readonly [object]

interface Prepared {
  readonly statement: Statement
  /** Of the parameters, if they have names. */
  readonly names: readonly string[]
}

export class SqliteConnection {
  readonly database: Database
  /** Called after messages for these partitions were written; by default a no-op. */
  notify: (partitions: readonly number[]) => void = () => {}
  readonly #statements = new Map<string, Prepared>()
  #inTransaction = false
  #rows = 0
  #commits = 0

  constructor(database: Database) {
    this.database = database
  }

  /** The statement is prepared at its first use and kept: the number of different `sql` texts is bounded. */
  prepare(sql: string): Prepared {
    let prepared = this.#statements.get(sql)
    if (prepared === undefined) {
      const names: string[] = []
      const numbered = sql.replaceAll(/@([a-z_]+)/g, (_, name: string) => {
        const known = names.indexOf(name)
        return `?${known >= 0 ? known + 1 : names.push(name)}`
      })
      prepared = { statement: this.database.prepare(numbered), names: names.map(camelCase) }
      this.#statements.set(sql, prepared)
    }
    return prepared
  }

  /** Returns the number of changed rows. The text of a parameter that has a name may not contain U+0000. */
  run(sql: string, ...values: Given): number {
    const { statement, names } = this.prepare(sql)
    const bound = bind(names, values)
    if (names.length > 0) for (const value of bound) if (typeof value === "string") freeText(value)
    const changes = Number(statement.run(...bound).changes)
    this.#rows += changes
    if (changes > 0 && !this.#inTransaction) this.#commits++
    return changes
  }

  get<Row>(sql: string, ...values: Given): Row | undefined {
    const { statement, names } = this.prepare(sql)
    return statement.get(...bind(names, values)) as Row | undefined
  }

  all<Row>(sql: string, ...values: Given): Row[] {
    const { statement, names } = this.prepare(sql)
    return statement.all(...bind(names, values)) as Row[]
  }

  /** All of it or nothing. Inside another transaction it is part of that one. */
  transaction<T>(work: () => T): T {
    if (this.#inTransaction) return work()
    this.database.exec("begin immediate")
    this.#inTransaction = true
    try {
      const result = work()
      this.database.exec("commit")
      this.#commits++
      return result
    } catch (error) {
      this.#rollBack()
      throw error
    } finally {
      this.#inTransaction = false
    }
  }

  /**
   * A transaction that is not synced to the disk by itself: the next one that is includes it. So it survives the death of
   * the process, and a power cut may lose it.
   */
  unsynced<T>(work: () => T): T {
    const { synchronous } = this.get<{ synchronous: number }>("pragma synchronous")!
    this.database.exec("pragma synchronous = normal")
    try {
      return this.transaction(work)
    } finally {
      this.database.exec(`pragma synchronous = ${synchronous}`)
    }
  }

  /** Runs it as a transaction and rolls it back. */
  trial(work: () => unknown): void {
    const undone = new Error("rolled back")
    try {
      this.transaction(() => {
        work()
        throw undone
      })
    } catch (error) {
      if (error !== undone) throw error
    }
  }

  /** What was written since the last call. */
  takeWritten(): { readonly rows: number; readonly commits: number } {
    const written = { rows: this.#rows, commits: this.#commits }
    this.#rows = 0
    this.#commits = 0
    return written
  }

  close(): void {
    this.#statements.clear()
    this.database.close()
  }

  #rollBack(): void {
    try {
      this.database.exec("rollback")
    } catch {
      // SQLite has rolled back by itself, as it does when the disk is full.
    }
  }
}

function camelCase(name: string): string {
  return name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

/** A list is bound as JSON text, for `json_each`. */
function bind(names: readonly string[], values: Given): readonly Value[] {
  if (names.length === 0) return values as readonly Value[]
  const named = values[0] as { readonly [name: string]: Value | boolean | readonly unknown[] | undefined }
  return names.map(name => {
    const value = named[name] ?? null
    if (typeof value === "boolean") return Number(value)
    return Array.isArray(value) ? JSON.stringify(value) : (value as Value)
  })
}

/** The common part of the stores on SQLite. */
export class SqliteStore {
  protected readonly connection: SqliteConnection

  constructor(connection: SqliteConnection) {
    this.connection = connection
  }

  protected exists(sql: string, ...values: Given): boolean {
    return this.connection.get(sql, ...values) !== undefined
  }

  /** Of a statement that selects one `count`. */
  protected counted(sql: string, ...values: Given): number {
    return this.connection.get<{ readonly count: number }>(sql, ...values)!.count
  }

  protected ids(sql: string, ...values: Given): string[] {
    return this.connection.all<{ readonly id: string }>(sql, ...values).map(({ id }) => id)
  }
}

/** A list as one parameter: `where id in (select value from json_each(?))`. */
export function list(values: readonly (string | number)[]): string {
  return JSON.stringify(values)
}

/** A name or another short text from outside. The driver would silently truncate it at a NUL. */
export function freeText(text: string): string {
  if (!text.includes("\u0000")) return text
  throw new JournalDataError("a stored text contains the control character U+0000; remove it")
}

/** JSON text is stored unchanged. It never contains an unescaped NUL; a text that is not JSON is rejected. */
export function json(text: string): string {
  try {
    JSON.parse(text)
    return text
  } catch (error) {
    throw new JournalDataError(
      `the embedded database rejected the data: ${(error as Error).message}. Nothing of it was stored.`,
    )
  }
}

/** As many rows as fit into this number of bytes; the first in any case. */
export function withinBytes<T extends { readonly bytes: number }>(rows: readonly T[], maxBytes: number): T[] {
  let total = 0
  return rows.filter(({ bytes }, index) => {
    total += bytes
    return index === 0 || total <= maxBytes
  })
}
