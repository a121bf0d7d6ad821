/**
 * PostgreSQL as a Database. Appends have a connection of their own: they never wait for a slow list, and their order
 * is the order they were sent in. A broken one is replaced by the next append.
 */
import type pg from "pg"
import type { AppendStatement, Database, Parameters, Row, Session, Statement } from "./database.ts"
import { classify, JournalUnavailableError } from "./errors.ts"
import { connect, destroy, send } from "./postgres-client.ts"
import { Pool, type PoolOptions } from "./postgres-pool.ts"
import { type RetryOptions, retry } from "./retry.ts"

export interface PostgresDatabaseOptions extends PoolOptions {
  readonly label: string
  readonly retry: RetryOptions
}

export class PostgresDatabase implements Database {
  readonly label: string
  readonly #options: PostgresDatabaseOptions
  readonly #pool: Pool
  #appender: Promise<pg.Client> | null = null
  /** One append at a time: what they would share is one connection. */
  #turn: Promise<unknown> = Promise.resolve()
  #closed = false

  constructor(options: PostgresDatabaseOptions) {
    this.label = options.label
    this.#options = options
    this.#pool = new Pool(options)
  }

  async query(statement: Statement, parameters: Parameters): Promise<Row[]> {
    return retry(this.#options.retry, () => this.#guarded(() => this.#pool.query(statement, parameters)))
  }

  async append(statement: AppendStatement, parameters: Parameters): Promise<Row[]> {
    const answer = this.#turn.then(() => this.#guarded(() => this.#sendAppend(statement, parameters)))
    this.#turn = answer.catch(() => {})
    return answer
  }

  /** On a connection of its own and without a time limit: a migration may wait long for another process's. */
  async transaction<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return retry(this.#options.retry, () =>
      this.#guarded(async () => {
        const client = await connect(this.#options, 0)
        try {
          await client.query("begin")
          const result = await work({
            query: (statement, parameters) => send(client, statement, parameters, 0),
            script: async text => void (await client.query(text)),
          })
          await client.query("commit")
          return result
        } finally {
          // Closing the connection is the rollback.
          destroy(client)
        }
      }),
    )
  }

  async close(): Promise<void> {
    this.#closed = true
    const appender = this.#appender
    this.#appender = null
    await appender?.then(client => client.end()).catch(() => {})
    await this.#pool.close()
  }

  async #sendAppend(statement: AppendStatement, parameters: Parameters): Promise<Row[]> {
    const client = await this.#connectAppender()
    try {
      return await send(client, statement, parameters, this.#options.queryTimeoutMs)
    } catch (error) {
      // A server that ends a session says so first and hangs up later: the next append must not meet that connection.
      if (classify(error, this.label) instanceof JournalUnavailableError) {
        this.#appender = null
        destroy(client)
      }
      throw error
    }
  }

  #connectAppender(): Promise<pg.Client> {
    this.#appender ??= this.#newAppender()
    return this.#appender
  }

  #newAppender(): Promise<pg.Client> {
    const forget = () => {
      if (this.#appender === promise) this.#appender = null
    }
    const promise = connect(this.#options, this.#options.queryTimeoutMs).then(client => {
      client.once("error", forget)
      client.once("end", forget)
      return client
    })
    promise.catch(forget)
    return promise
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
