import { connect as connectPlain, isIP, type Socket } from "node:net"
import { connect as connectSecurely } from "node:tls"
import { UmbraError } from "../../../errors.ts"
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
  /** Who listens has asked whether anybody is there, and heard nothing since. */
  #isPinged = false
  #over!: (reason: string | undefined) => void
  #heard: ((message: string) => void) | null = null
  /** Resolves when the connection has ended, with the reason if there is one. */
  readonly ended = new Promise<string | undefined>(resolve => {
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
    socket.on("error", error => this.close(error.message))
    socket.on("close", () => this.close())
  }

  static async open({ url, answerMs }: ConnectionParts): Promise<Connection> {
    const { host, port, user, secret, database, isSecure } = addressOf(url)
    // An address has no name that a certificate could be asked for by.
    const name = isIP(host) === 0 ? { servername: host } : {}
    const socket = isSecure ? connectSecurely({ host, port, ...name }) : connectPlain({ host, port })
    const connection = new Connection(socket, answerMs)
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

  close(reason?: string): void {
    if (this.#isOver) return
    this.#isOver = true
    clearInterval(this.#watch)
    this.#socket.destroy()
    for (const { reject } of this.#asked.splice(this.#answered)) reject(away(reason))
    this.#over(reason)
  }

  #flush(): void {
    if (this.#unsent !== "" && !this.#isOver) this.#socket.write(this.#unsent)
    this.#unsent = ""
  }

  #answer(reply: Reply): void {
    if (this.#heard !== null) {
      this.#isPinged = false
      this.#hear(reply)
      return
    }
    const asked = this.#asked[this.#answered]
    if (asked === undefined) {
      this.close("It answers what nobody asked.")
      return
    }
    this.#since = performance.now()
    this.#answered += 1
    if (this.#answered === this.#asked.length || this.#answered > COMPACT_AT) {
      this.#asked = this.#asked.slice(this.#answered)
      this.#answered = 0
    }
    if (!(reply instanceof ReplyError)) asked.resolve(reply)
    else {
      asked.reject(reply)
      // After a fail-over: another server is the primary now, and the same address may lead to it.
      if (reply.message.startsWith("READONLY")) this.close(reply.message)
    }
  }

  #hear(reply: Reply): void {
    const [kind, , message] = reply as [string, string, string]
    if (kind === "message") this.#heard!(message)
  }

  /** Who listens asks too, or it would never learn that there is nobody to be heard any more. */
  #look(): void {
    if (this.#isOverdue) setImmediate(() => this.#lookAgain())
    else if (this.#heard !== null) this.#ping()
  }

  /** What arrived while this process stood still is read by now. */
  #lookAgain(): void {
    if (this.#isOverdue) this.close(`No answer for ${this.#answerMs / 1000} s.`)
  }

  get #isOverdue(): boolean {
    const isOwedAnswer = this.#isPinged || this.#asked.length > this.#answered
    return isOwedAnswer && performance.now() - this.#since > this.#answerMs
  }

  #ping(): void {
    if (!this.#isPinged) this.#since = performance.now()
    this.#isPinged = true
    this.#socket.write(encodeCommand(["PING"]))
  }
}

/** A long list is cut from time to time: taking its first item away each time would move all the others. */
const COMPACT_AT = 1000

function away(reason = "It was closed."): RedisAwayError {
  return new RedisAwayError(`The connection to Redis is gone. ${reason}`)
}

interface Address {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly secret: string
  readonly database: string
  readonly isSecure: boolean
}

function addressOf(url: string): Address {
  const address = URL.canParse(url) ? new URL(url) : null
  if (address === null || !["redis:", "rediss:"].includes(address.protocol) || address.hostname === "")
    throw new UmbraError(
      "E620",
      "The address of Redis must be like redis://HOST:6379, or rediss:// with encryption.",
    )
  const { hostname, port, username, password, pathname, protocol } = address
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: Number(port || 6379),
    user: decoded(username),
    secret: decoded(password),
    database: pathname.slice(1),
    isSecure: protocol === "rediss:",
  }
}

/** The number of the database that an address means. */
export function databaseOf(url: string): number {
  return Number(addressOf(url).database)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new UmbraError(
      "E620",
      "The user or the password in the address of Redis has a % that is no part of a code. Write it as %25.",
    )
  }
}

/** Is it right? For whoever wants to know before anything is opened. */
export function checkRedisUrl(url: string): string {
  addressOf(url)
  return url
}
