/** A connection for appends alone. A broken one is replaced by the next append. */
import type pg from "pg"
import { classify, JournalUnavailableError } from "../errors.ts"
import { type ConnectionOptions, connect, destroy, send } from "./client.ts"
import type { AppendStatement, Parameters, Row } from "./database.ts"

export interface AppenderOptions extends ConnectionOptions {
  readonly label: string
}

export class Appender {
  readonly #options: AppenderOptions
  #client: Promise<pg.Client> | null = null
  /** One append at a time: when the connection breaks, those behind it begin on a new one. */
  #turn: Promise<unknown> = Promise.resolve()
  #waiting = 0

  constructor(options: AppenderOptions) {
    this.#options = options
  }

  /** Appends under way or before their turn. */
  get waiting(): number {
    return this.#waiting
  }

  async send(statement: AppendStatement, parameters: Parameters): Promise<Row[]> {
    this.#waiting++
    const answer = this.#turn.then(() => this.#send(statement, parameters))
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

  async #send(statement: AppendStatement, parameters: Parameters): Promise<Row[]> {
    const client = await this.#connect()
    try {
      return await send(client, statement, parameters, this.#options.queryTimeoutMs)
    } catch (error) {
      // A server that ends a session says so first and hangs up later: the next append must not meet that connection.
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
