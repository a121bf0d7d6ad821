/** PostgreSQL as a Database. Appends have separate connections: they never wait for a slow list. */

import { classify, JournalUnavailableError } from "../errors.ts"
import { type RetryOptions, retry } from "../retry.ts"
import { Appender } from "./appender.ts"
import { connect, destroy, send } from "./client.ts"
import type { AppendStatement, Database, Session, Statement, Values } from "./database.ts"
import { Pool, type PoolOptions } from "./pool.ts"

export interface PostgresDatabaseOptions extends PoolOptions {
  readonly label: string
  readonly appendLanes: number
  readonly retry: RetryOptions
}

export class PostgresDatabase implements Database {
  readonly label: string
  readonly #options: PostgresDatabaseOptions
  readonly #pool: Pool
  readonly #appenders: readonly Appender[]
  #closed = false

  constructor(options: PostgresDatabaseOptions) {
    this.label = options.label
    this.#options = options
    this.#pool = new Pool(options)
    this.#appenders = Array.from({ length: options.appendLanes }, () => new Appender(options))
  }

  async query<Row>(statement: Statement, values: Values): Promise<Row[]> {
    return retry(this.#options.retry, () => this.#guarded(() => this.#pool.query<Row>(statement, values)))
  }

  async append<Row>(statement: AppendStatement, values: Values): Promise<Row[]> {
    const idlest = this.#appenders.reduce((a, b) => (b.waiting < a.waiting ? b : a))
    return this.#guarded(() => idlest.send<Row>(statement, values))
  }

  async trial(statement: AppendStatement, values: Values): Promise<void> {
    await this.#guarded(async () => {
      const client = await connect(this.#options, this.#options.queryTimeoutMs)
      try {
        await client.query("begin")
        await send(client, statement, values, this.#options.queryTimeoutMs)
      } finally {
        // Closing the connection rolls back.
        destroy(client)
      }
    })
  }

  /**
   * On a separate connection and without a time limit: a migration may wait long for that of another process.
   */
  async transaction<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return retry(this.#options.retry, () =>
      this.#guarded(async () => {
        const client = await connect(this.#options, 0)
        try {
          await client.query("begin")
          const result = await work({
            query: (statement, values) => send(client, statement, values, 0),
            script: async text => void (await client.query(text)),
          })
          await client.query("commit")
          return result
        } finally {
          // Closing the connection rolls back.
          destroy(client)
        }
      }),
    )
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(this.#appenders.map(appender => appender.close()))
    await this.#pool.close()
  }

  async #guarded<T>(operation: () => Promise<T>): Promise<T> {
    if (this.#closed) {
      throw new JournalUnavailableError(`${this.label} has been closed by this process`, { final: true })
    }
    try {
      return await operation()
    } catch (error) {
      throw classify(error, this.label)
    }
  }
}
