/**
 * Connections for everything but appends, kept healthy (X7, first layer): a connection that has been idle for
 * long is checked before use, each is recycled after 300 s, and one that failed or is inside a transaction is
 * destroyed, not returned.
 */
import pg from "pg"
import { type ConnectionOptions, clientConfig, send } from "./client.ts"
import type { Statement, Values } from "./database.ts"

export interface PoolOptions extends ConnectionOptions {
  readonly poolSize: number
  readonly recycleSeconds: number
  readonly checkIdleMs: number
  readonly checkTimeoutMs: number
}

export class Pool {
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
        await send(client, "session", [options.queryTimeoutMs], options.connectTimeoutMs)
      },
    })
    // The pool drops a connection that breaks while idle; without a listener its error would end the process.
    this.#pool.on("error", () => {})
  }

  async query<Row>(statement: Statement, values: Values): Promise<Row[]> {
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
