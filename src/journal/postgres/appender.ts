/** A connection for appends only. The next append replaces a broken connection. */
import type pg from "pg"
import { classify, JournalUnavailableError } from "../errors.ts"
import { type ConnectionOptions, connect, destroy, send } from "./client.ts"
import type { AppendStatement, Values } from "./database.ts"

export interface AppenderOptions extends ConnectionOptions {
  readonly label: string
}

export class Appender {
  readonly #options: AppenderOptions
  #client: Promise<pg.Client> | null = null
  /** One append at a time: when the connection breaks, the next ones use a new one. */
  #turn: Promise<unknown> = Promise.resolve()
  #waiting = 0

  constructor(options: AppenderOptions) {
    this.#options = options
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
    const promise = connect(this.#options, this.#options.queryTimeoutMs).then(client => {
      client.once("error", forget)
      client.once("end", forget)
      return client
    })
    promise.catch(forget)
    return promise
  }
}
