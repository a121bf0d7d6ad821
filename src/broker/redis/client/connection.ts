import { connect as connectPlain, isIP, type Socket } from "node:net"
import { connect as connectSecurely } from "node:tls"
import { UmbraError } from "../../../errors.ts"

/**
 * Redis cannot be reached, or did not answer: it is unknown whether a command that was sent has been
 * executed.
 */
export class RedisAwayError extends Error {
  override readonly name = "RedisAwayError"
}

interface ConnectionParts {
  readonly url: string
  /**
   * If a command is not answered within this time, the connection is dead, whatever the state of the socket.
   */
  readonly answerMs: number
}

interface PendingCommand {
  readonly resolve: (reply: Reply) => void
  readonly reject: (error: unknown) => void
}

/**
 * One connection from its first byte to its last.
 *
 * 1. A connection never reconnects, and nothing is sent twice. Commands in flight when it ends are rejected.
 * 2. Commands are executed and answered in the order in which they were sent. The commands of one turn of the
 *    event loop are sent in one write.
 */
export class RedisConnection {
  readonly #socket: Socket
  readonly #watch: NodeJS.Timeout
  readonly #answerMs: number
  #pending: PendingCommand[] = []
  #answered = 0
  #unsent = ""
  /** The time of the last reply, or of the first command after it. */
  #since = 0
  #isOver = false
  /** A PING was sent on the subscriber connection and has not been answered yet. */
  #isPinged = false
  #over!: (reason: string | undefined) => void
  #onMessage: ((message: string) => void) | null = null
  /** Resolves when the connection has ended, with the reason if there is one. */
  readonly ended = new Promise<string | undefined>(resolve => {
    this.#over = resolve
  })

  private constructor(socket: Socket, answerMs: number) {
    this.#socket = socket
    this.#answerMs = answerMs
    this.#watch = setInterval(() => this.#checkReply(), Math.max(10, answerMs / 4))
    this.#watch.unref()
    const parser = new ReplyParser(reply => this.#answer(reply))
    socket.setNoDelay(true)
    socket.on("data", chunk => parser.push(chunk))
    socket.on("error", error => this.close(error.message))
    socket.on("close", () => this.close())
  }

  static async open({ url, answerMs }: ConnectionParts): Promise<RedisConnection> {
    const { host, port, user, secret, database, isSecure } = parseAddress(url)
    // An IP address is not a server name that TLS could verify.
    const name = isIP(host) === 0 ? { servername: host } : {}
    const socket = isSecure ? connectSecurely({ host, port, ...name }) : connectPlain({ host, port })
    const connection = new RedisConnection(socket, answerMs)
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
    if (this.#isOver) return Promise.reject(unavailable())
    if (this.#unsent === "") setImmediate(() => this.#flush())
    this.#unsent += encodeCommand(args)
    if (this.#pending.length === this.#answered) this.#since = performance.now()
    return new Promise((resolve, reject) => this.#pending.push({ resolve, reject }))
  }

  /** From here on the connection only receives messages. */
  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    await this.send(["SUBSCRIBE", channel])
    this.#onMessage = onMessage
  }

  close(reason?: string): void {
    if (this.#isOver) return
    this.#isOver = true
    clearInterval(this.#watch)
    this.#socket.destroy()
    for (const { reject } of this.#pending.splice(this.#answered)) reject(unavailable(reason))
    this.#over(reason)
  }

  #flush(): void {
    if (this.#unsent !== "" && !this.#isOver) this.#socket.write(this.#unsent)
    this.#unsent = ""
  }

  #answer(reply: Reply): void {
    if (this.#onMessage !== null) {
      this.#isPinged = false
      this.#receive(reply)
      return
    }
    const asked = this.#pending[this.#answered]
    if (asked === undefined) {
      this.close("Redis sent a reply without a pending command.")
      return
    }
    this.#since = performance.now()
    this.#answered += 1
    if (this.#answered === this.#pending.length || this.#answered > COMPACT_AT) {
      this.#pending = this.#pending.slice(this.#answered)
      this.#answered = 0
    }
    if (!(reply instanceof ReplyError)) asked.resolve(reply)
    else {
      asked.reject(reply)
      // After a fail-over another server is the primary, and the same address may lead to it.
      if (reply.message.startsWith("READONLY")) this.close(reply.message)
    }
  }

  #receive(reply: Reply): void {
    const [kind, , message] = reply as [string, string, string]
    if (kind === "message") this.#onMessage!(message)
  }

  /** A subscriber connection sends PING, or it would never notice that the server is gone. */
  #checkReply(): void {
    if (this.#isOverdue) setImmediate(() => this.#recheckReply())
    else if (this.#onMessage !== null) this.#ping()
  }

  /** By now, the replies that arrived while this process was suspended have been read. */
  #recheckReply(): void {
    if (this.#isOverdue) this.close(`No reply for ${this.#answerMs / 1000} s.`)
  }

  get #isOverdue(): boolean {
    const isOwedAnswer = this.#isPinged || this.#pending.length > this.#answered
    return isOwedAnswer && performance.now() - this.#since > this.#answerMs
  }

  #ping(): void {
    if (!this.#isPinged) this.#since = performance.now()
    this.#isPinged = true
    this.#socket.write(encodeCommand(["PING"]))
  }
}

/** The list is compacted from time to time: removing its first item each time would move all others. */
const COMPACT_AT = 1000

function unavailable(reason = "The connection was closed."): RedisAwayError {
  return new RedisAwayError(`The connection to Redis was lost. ${reason}`)
}

interface Address {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly secret: string
  readonly database: string
  readonly isSecure: boolean
}

function parseAddress(url: string): Address {
  const address = URL.canParse(url) ? new URL(url) : null
  if (address === null || !["redis:", "rediss:"].includes(address.protocol) || address.hostname === "")
    throw new UmbraError(
      "E620",
      "The address of Redis must have the form redis://HOST:6379, or rediss://HOST:6379 for TLS.",
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

/** The database number in the address. */
export function parseDatabaseNumber(url: string): number {
  return Number(parseAddress(url).database)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new UmbraError(
      "E620",
      "The user or password in the address of Redis contains a % that is not part of an escape sequence. Write it as %25.",
    )
  }
}

/** Checks the address before anything is opened. */
export function checkRedisUrl(url: string): string {
  parseAddress(url)
  return url
}

/** The part of Redis's protocol (RESP2) that a fleet needs: encodes commands, parses replies. */
export type Reply = string | number | null | ReplyError | readonly Reply[]

/** The error reply to a command that Redis did not execute. */
export class ReplyError extends Error {
  override readonly name = "ReplyError"
}

export function encodeCommand(args: readonly string[]): string {
  let text = `*${args.length}\r\n`
  for (const arg of args) text += `$${Buffer.byteLength(arg)}\r\n${arg}\r\n`
  return text
}

interface OpenArray {
  readonly items: Reply[]
  readonly size: number
}

const CR = 13
const [ERROR, NUMBER, TEXT, ARRAY] = [..."-:$*"].map(sign => sign.charCodeAt(0))

/** Parses replies from chunks of any size. Reads every byte once, and copies it at most once. */
export class ReplyParser {
  readonly #done: (reply: Reply) => void
  #bytes: Buffer = Buffer.alloc(0)
  #at = 0
  /** Chunks received since: joined when they contain enough to continue. */
  #chunks: Buffer[] = []
  #missing = 0
  /** Incomplete arrays, the innermost last. */
  readonly #open: OpenArray[] = []

  constructor(done: (reply: Reply) => void) {
    this.#done = done
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#missing -= chunk.length
    if (this.#missing > 0) return
    const rest = this.#bytes.subarray(this.#at)
    this.#bytes =
      rest.length === 0 && this.#chunks.length === 1 ? chunk : Buffer.concat([rest, ...this.#chunks])
    this.#chunks = []
    this.#at = 0
    while (this.#element());
  }

  /** Returns false if the element is incomplete. */
  #element(): boolean {
    const end = this.#bytes.indexOf(CR, this.#at)
    if (end === -1 || end + 2 > this.#bytes.length) return this.#wait(1)
    const type = this.#bytes[this.#at]
    const line = this.#bytes.toString("latin1", this.#at + 1, end)
    if (type === TEXT) return this.#text(Number(line), end + 2)
    this.#at = end + 2
    if (type === ARRAY) this.#array(Number(line))
    else if (type === NUMBER) this.#add(Number(line))
    else this.#add(type === ERROR ? new ReplyError(line) : line)
    return true
  }

  #text(length: number, from: number): boolean {
    if (length >= 0 && from + length + 2 > this.#bytes.length)
      return this.#wait(from + length + 2 - this.#bytes.length)
    this.#at = length < 0 ? from : from + length + 2
    this.#add(length < 0 ? null : this.#bytes.toString("utf8", from, from + length))
    return true
  }

  #wait(missing: number): false {
    this.#missing = missing
    return false
  }

  #array(size: number): void {
    if (size <= 0) this.#add(size < 0 ? null : [])
    else this.#open.push({ items: [], size })
  }

  #add(value: Reply): void {
    let added = value
    for (let array = this.#open.at(-1); array !== undefined; array = this.#open.at(-1)) {
      array.items.push(added)
      if (array.items.length < array.size) return
      this.#open.pop()
      added = array.items
    }
    this.#done(added)
  }
}
