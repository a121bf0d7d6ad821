/** PostgreSQL as a Database. Appends have separate connections: they never wait for a slow list, nor for log lines. */

import pg from "pg"
import { classify, JournalUnavailableError } from "../errors.ts"
import { type RetryOptions, retry } from "../retry.ts"
import { type ConnectionOptions, clientConfig, connect, destroy, send } from "./client.ts"
import type { AppendStatement, Database, Session, Statement, Values } from "./database.ts"

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
  readonly #logWriter: Appender
  #closed = false

  constructor(options: PostgresDatabaseOptions) {
    this.label = options.label
    this.#options = options
    this.#pool = new Pool(options)
    this.#appenders = Array.from({ length: options.appendLanes }, () => new Appender(options))
    this.#logWriter = new Appender(options, "unsynced")
  }

  async query<Row>(statement: Statement, values = {}): Promise<Row[]> {
    return retry(this.#options.retry, () => this.#guarded(() => this.#pool.query<Row>(statement, values)))
  }

  async append<Row>(statement: AppendStatement, values: Values): Promise<Row[]> {
    if (statement === "writeLogs") return this.#guarded(() => this.#logWriter.send<Row>(statement, values))
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
            query: (statement, values = {}) => send(client, statement, values, 0),
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
    await Promise.all([...this.#appenders, this.#logWriter].map(appender => appender.close()))
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

/** A connection for appends only. The next append replaces a broken connection. */
class Appender {
  readonly #options: PostgresDatabaseOptions
  /** Sent first on each connection. */
  readonly #setUp: "unsynced" | null
  #client: Promise<pg.Client> | null = null
  /** One append at a time: when the connection breaks, the next ones use a new one. */
  #turn: Promise<unknown> = Promise.resolve()
  #waiting = 0

  constructor(options: PostgresDatabaseOptions, setUp: "unsynced" | null = null) {
    this.#options = options
    this.#setUp = setUp
  }

  /** The number of appends in flight or waiting for their turn. */
  get waiting(): number {
    return this.#waiting
  }

  async send<Row>(statement: AppendStatement, values: Values): Promise<Row[]> {
    this.#waiting++
    const answer = this.#turn.then(() => this.#send<Row>(statement, values))
    this.#turn = answer.catch(() => {})
    try {
      return await answer
    } finally {
      this.#waiting--
    }
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = null
    await client?.then(connected => connected.end()).catch(() => {})
  }

  async #send<Row>(statement: AppendStatement, values: Values): Promise<Row[]> {
    const client = await this.#connect()
    try {
      return await send<Row>(client, statement, values, this.#options.queryTimeoutMs)
    } catch (error) {
      // A server that ends a session reports that first and closes the connection later: the next append must
      // not use this connection.
      if (classify(error, this.#options.label) instanceof JournalUnavailableError) {
        this.#client = null
        destroy(client)
      }
      throw error
    }
  }

  #connect(): Promise<pg.Client> {
    this.#client ??= this.#newClient()
    return this.#client
  }

  #newClient(): Promise<pg.Client> {
    const forget = () => {
      if (this.#client === promise) this.#client = null
    }
    const { queryTimeoutMs } = this.#options
    const promise = connect(this.#options, queryTimeoutMs).then(async client => {
      if (this.#setUp !== null) await send(client, this.#setUp, [], queryTimeoutMs)
      client.once("error", forget)
      client.once("end", forget)
      return client
    })
    promise.catch(forget)
    return promise
  }
}

interface PoolOptions extends ConnectionOptions {
  readonly poolSize: number
  readonly recycleSeconds: number
  readonly checkIdleMs: number
  readonly checkTimeoutMs: number
}

/**
 * Connections for everything but appends, kept healthy (X7, first layer): a connection that has been idle for
 * long is checked before use, each is recycled after 300 s, and one that failed or is inside a transaction is
 * destroyed, not returned.
 */
class Pool {
  readonly #options: PoolOptions
  readonly #pool: pg.Pool
  readonly #returnedAt = new WeakMap<pg.PoolClient, number>()

  constructor(options: PoolOptions) {
    this.#options = options
    this.#pool = new pg.Pool({
      ...clientConfig(options),
      max: options.poolSize,
      maxLifetimeSeconds: options.recycleSeconds,
      onConnect: async client => {
        // The pool listens to idle clients only. A connection that is cut right after an answer, before it
        // has been returned, would end the process.
        client.on("error", () => {})
        await send(client, "session", { timeoutMs: options.queryTimeoutMs }, options.connectTimeoutMs)
      },
    })
    // The pool drops a connection that breaks while idle; without a listener its error would end the process.
    this.#pool.on("error", () => {})
  }

  async query<Row>(statement: Statement, values: object): Promise<Row[]> {
    const client = await this.#borrow()
    try {
      const rows = await send<Row>(client, statement, values, this.#options.queryTimeoutMs)
      this.#return(client)
      return rows
    } catch (error) {
      client.release(true)
      throw error
    }
  }

  async close(): Promise<void> {
    if (!this.#pool.ending) await this.#pool.end()
  }

  async #borrow(): Promise<pg.PoolClient> {
    for (;;) {
      const client = await this.#pool.connect()
      const idleSince = this.#returnedAt.get(client)
      if (idleSince === undefined || performance.now() - idleSince < this.#options.checkIdleMs) return client
      try {
        await send(client, "ping", [], this.#options.checkTimeoutMs)
        return client
      } catch {
        client.release(true)
      }
    }
  }

  #return(client: pg.PoolClient): void {
    this.#returnedAt.set(client, performance.now())
    client.release(client.getTransactionStatus() !== "I")
  }
}
