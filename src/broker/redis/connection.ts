import { connect as connectPlain, type Socket } from "node:net"
import { connect as connectSecurely } from "node:tls"
import { UmbraError } from "../../errors.ts"
import { encodeCommand, type Reply, ReplyError, ReplyParser } from "./resp.ts"

/** Redis cannot be reached, or did not answer: nobody knows whether a command that was sent has been carried out. */
export class RedisAwayError extends Error {
  override readonly name = "RedisAwayError"
}

export interface ConnectionParts {
  readonly url: string
  /** A command without an answer for this long: the connection is dead, whatever the socket says. */
  readonly answerMs: number
}

interface Asked {
  readonly resolve: (reply: Reply) => void
  readonly reject: (error: unknown) => void
}

/**
 * One connection from its first to its last byte.
 *
 * 1. It never comes back, and nothing is sent twice. What was under way when it ended is rejected.
 * 2. Commands are carried out in the order they were sent, and answered in that order. Those of one turn of the event
 *    loop leave in one piece.
 */
export class Connection {
  readonly #socket: Socket
  readonly #watch: NodeJS.Timeout
  readonly #answerMs: number
  #asked: Asked[] = []
  #answered = 0
  #unsent = ""
  /** Of the last answer, or of the first question since. */
  #since = 0
  #isOver = false
  #over!: () => void
  #heard: ((message: string) => void) | null = null
  /** Resolves when the connection has ended. */
  readonly ended = new Promise<void>(resolve => {
    this.#over = resolve
  })

  private constructor(socket: Socket, answerMs: number) {
    this.#socket = socket
    this.#answerMs = answerMs
    this.#watch = setInterval(() => this.#look(), Math.max(10, answerMs / 4))
    this.#watch.unref()
    const parser = new ReplyParser(reply => this.#answer(reply))
    socket.setNoDelay(true)
    socket.on("data", chunk => parser.push(chunk))
    socket.on("error", () => this.close())
    socket.on("close", () => this.close())
  }

  static async open({ url, answerMs }: ConnectionParts): Promise<Connection> {
    const { hostname, port, username, password, pathname, protocol } = addressOf(url)
    const to = { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || 6379) }
    const socket = protocol === "rediss:" ? connectSecurely({ ...to, servername: to.host }) : connectPlain(to)
    const connection = new Connection(socket, answerMs)
    const [user, secret] = [username, password].map(decodeURIComponent)
    const database = pathname.slice(1)
    try {
      if (secret) await connection.send(user ? ["AUTH", user, secret] : ["AUTH", secret])
      if (database) await connection.send(["SELECT", database])
      await connection.send(["PING"])
      return connection
    } catch (error) {
      connection.close()
      throw error
    }
  }

  send(args: readonly string[]): Promise<Reply> {
    if (this.#isOver) return Promise.reject(away())
    if (this.#unsent === "") setImmediate(() => this.#flush())
    this.#unsent += encodeCommand(args)
    if (this.#asked.length === this.#answered) this.#since = performance.now()
    return new Promise((resolve, reject) => this.#asked.push({ resolve, reject }))
  }

  /** From here on it does nothing but listen. */
  async subscribe(channel: string, heard: (message: string) => void): Promise<void> {
    await this.send(["SUBSCRIBE", channel])
    this.#heard = heard
  }

  close(): void {
    if (this.#isOver) return
    this.#isOver = true
    clearInterval(this.#watch)
    this.#socket.destroy()
    for (const { reject } of this.#asked.splice(this.#answered)) reject(away())
    this.#over()
  }

  #flush(): void {
    if (this.#unsent !== "" && !this.#isOver) this.#socket.write(this.#unsent)
    this.#unsent = ""
  }

  #answer(reply: Reply): void {
    if (this.#heard !== null) {
      this.#hear(reply)
      return
    }
    const asked = this.#asked[this.#answered]
    if (asked === undefined) {
      this.close()
      return
    }
    this.#since = performance.now()
    this.#answered += 1
    if (this.#answered === this.#asked.length || this.#answered > COMPACT_AT) {
      this.#asked = this.#asked.slice(this.#answered)
      this.#answered = 0
    }
    if (reply instanceof ReplyError) asked.reject(reply)
    else asked.resolve(reply)
  }

  #hear(reply: Reply): void {
    const [kind, , message] = reply as [string, string, string]
    if (kind === "message") this.#heard!(message)
  }

  #look(): void {
    if (this.#asked.length > this.#answered && performance.now() - this.#since > this.#answerMs) this.close()
  }
}

/** A long list is cut from time to time: taking its first item away each time would move all the others. */
const COMPACT_AT = 1000

function away(): RedisAwayError {
  return new RedisAwayError("The connection to Redis is gone.")
}

function addressOf(url: string): URL {
  const address = URL.canParse(url) ? new URL(url) : null
  if (address !== null && ["redis:", "rediss:"].includes(address.protocol) && address.hostname !== "")
    return address
  throw new UmbraError(
    "E620",
    "The address of Redis must be like redis://HOST:6379, or rediss:// with encryption.",
  )
}

/** Is it right? For whoever wants to know before anything is opened. */
export function checkRedisUrl(url: string): string {
  addressOf(url)
  return url
}
