import { UmbraError } from "../../errors.ts"

export type Reply = string | number | null | readonly Reply[]

/** Redis cannot be reached, or did not answer: nobody knows whether a command that was sent has been carried out. */
export class RedisAwayError extends Error {
  override readonly name = "RedisAwayError"
}

export interface ConnectionParts {
  readonly url: string
  /** A command without an answer for this long: the connection is dead, whatever the socket says. */
  readonly answerMs: number
}

interface Client {
  on(event: string, listener: (error: unknown) => void): unknown
  connect(): Promise<unknown>
  sendCommand(args: readonly string[]): Promise<unknown>
  subscribe(channel: string, listener: (message: string) => void): Promise<void>
  destroy(): void
}

/**
 * One connection from its first to its last byte: it never comes back, and nothing is sent twice. What was under way
 * when it ended is rejected.
 */
export class Connection {
  readonly #client: Client
  readonly #watch: NodeJS.Timeout
  readonly #answerMs: number
  #unanswered = 0
  /** Of the last answer, or of the first question since. */
  #since = 0
  #isOver = false
  #over!: () => void
  /** Resolves when the connection has ended. */
  readonly ended = new Promise<void>(resolve => {
    this.#over = resolve
  })

  private constructor(client: Client, answerMs: number) {
    this.#client = client
    this.#answerMs = answerMs
    this.#watch = setInterval(() => this.#look(), Math.max(10, answerMs / 4))
    this.#watch.unref()
  }

  static async open({ url, answerMs }: ConnectionParts): Promise<Connection> {
    const { createClient } = await redisClient()
    const socket = { reconnectStrategy: false as const, connectTimeout: answerMs }
    const client = createClient({ url, RESP: 2, disableOfflineQueue: true, socket }) as unknown as Client
    const connection = new Connection(client, answerMs)
    for (const event of ["error", "end"]) client.on(event, () => connection.close())
    try {
      await Promise.race([client.connect(), connection.ended.then(() => Promise.reject(away()))])
      return connection
    } catch (error) {
      connection.close()
      throw error
    }
  }

  async send(args: readonly string[]): Promise<Reply> {
    if (this.#isOver) throw away()
    if (this.#unanswered++ === 0) this.#since = performance.now()
    try {
      return (await this.#client.sendCommand(args)) as Reply
    } catch (error) {
      throw this.#isOver ? away() : error
    } finally {
      this.#unanswered--
      this.#since = performance.now()
    }
  }

  subscribe(channel: string, listener: (message: string) => void): Promise<void> {
    return this.#client.subscribe(channel, listener)
  }

  close(): void {
    if (this.#isOver) return
    this.#isOver = true
    clearInterval(this.#watch)
    try {
      this.#client.destroy()
    } catch {
      // It had ended by itself.
    }
    this.#over()
  }

  #look(): void {
    if (this.#unanswered > 0 && performance.now() - this.#since > this.#answerMs) this.close()
  }
}

function away(): RedisAwayError {
  return new RedisAwayError("The connection to Redis is gone.")
}

/** An optional peer: whoever has no fleet does not install it. */
async function redisClient(): Promise<typeof import("@redis/client")> {
  try {
    return await import("@redis/client")
  } catch {
    throw new UmbraError(
      "E616",
      "A fleet over Redis needs the package @redis/client: npm install @redis/client",
    )
  }
}
