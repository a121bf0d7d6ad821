/**
 * Open live streams of this process (S4), as HTTP has them.
 *
 * 1. A client that does not read is dropped when so much waits for it; what waits for all is shared, not copied.
 * 2. One timer for the heartbeats of all. With its heartbeat a client's token is looked at again.
 * 3. When the process is to end every stream says so and closes.
 */
import type { ServerResponse } from "node:http"
import type { FastifyReply, FastifyRequest } from "fastify"
import { UmbraError } from "../errors.ts"
import { endFrame, type Sink, type Stream } from "../feed/stream.ts"
import type { ServerSettings } from "./settings.ts"
import type { Stopping } from "./stopping.ts"

export interface StreamsParts {
  readonly settings: ServerSettings
  readonly stopping: Stopping
  /** The request is a stream from now on, and none of those that are in progress. */
  uncount(raw: ServerResponse): void
}

const RETRY = "retry: 1000\n\n"
const HEARTBEAT = Buffer.from(": keep-alive\n\n")
/** Parts of the time between two heartbeats, so that they do not all fall into one moment. */
const SLICES = 25

type AnyStream = Pick<Stream<{ changes: [] }>, "close"> & { begin(): Promise<void> }

export class Streams {
  readonly #parts: StreamsParts
  readonly #clients = new Set<Client>()
  #timer: NodeJS.Timeout | null = null
  #opening = 0
  #dropped = 0

  constructor(parts: StreamsParts) {
    this.#parts = parts
    parts.stopping.tell(() => this.#endAll())
  }

  get open(): number {
    return this.#clients.size
  }

  /** Clients that were dropped because they did not read. */
  get dropped(): number {
    return this.#dropped
  }

  /** Answers when the stream has begun. What goes wrong before its first byte is thrown, and answered as any error. */
  async start(
    request: FastifyRequest,
    reply: FastifyReply,
    streamTo: (sink: Sink) => AnyStream,
  ): Promise<FastifyReply> {
    const { settings, uncount } = this.#parts
    if (this.#clients.size + this.#opening >= settings.maxStreams)
      throw new UmbraError(
        "E611",
        `The server has ${settings.maxStreams} streams open and takes no more for now.`,
      )
    const client = new Client(reply, {
      mostBytes: settings.streamBufferBytes,
      isStillAllowed: request.caller.isStillAllowed,
      dropped: () => this.#dropped++,
    })
    const stream = streamTo(client)
    reply.raw.once("close", () => {
      this.#clients.delete(client)
      stream.close()
    })
    uncount(reply.raw)
    this.#opening++
    try {
      await stream.begin()
    } catch (error) {
      if (!client.hasBegun) throw error
      client.drop()
    } finally {
      this.#opening--
    }
    client.begin()
    if (client.isOpen) this.#add(client)
    return reply
  }

  #add(client: Client): void {
    if (this.#parts.stopping.isStopping) {
      client.end(endFrame("server_stopping"))
      return
    }
    const everyMs = this.#parts.settings.streamHeartbeatSeconds * 1000
    client.beatAt = performance.now() + everyMs
    this.#clients.add(client)
    this.#timer ??= setInterval(() => this.#beat(everyMs), everyMs / SLICES).unref()
  }

  #beat(everyMs: number): void {
    const now = performance.now()
    for (const client of this.#clients) {
      if (client.beatAt > now) continue
      client.beatAt = now + everyMs
      client.write(HEARTBEAT)
      void client.lookAgain()
    }
    if (this.#clients.size > 0) return
    clearInterval(this.#timer ?? undefined)
    this.#timer = null
  }

  #endAll(): void {
    for (const client of this.#clients) client.end(endFrame("server_stopping"))
  }
}

interface ClientParts {
  readonly mostBytes: number
  isStillAllowed(): Promise<boolean>
  dropped(): void
}

/** One open response. Its head is sent with its first bytes, so that what fails before can still be an error. */
class Client implements Sink {
  readonly #reply: FastifyReply
  readonly #parts: ClientParts
  hasBegun = false
  beatAt = 0

  constructor(reply: FastifyReply, parts: ClientParts) {
    this.#reply = reply
    this.#parts = parts
  }

  get isOpen(): boolean {
    const { raw } = this.#reply
    return !raw.destroyed && !raw.writableEnded
  }

  begin(): void {
    if (this.hasBegun) return
    this.hasBegun = true
    const { raw } = this.#reply
    this.#reply.hijack()
    // It ends with its connection: the lengths of chunks would tell nobody anything.
    raw.shouldKeepAlive = false
    raw.useChunkedEncodingByDefault = false
    raw.writeHead(200, {
      ...(this.#reply.getHeaders() as Record<string, string>),
      "content-type": "text/event-stream; charset=utf-8",
      "x-accel-buffering": "no",
    })
    raw.write(RETRY)
  }

  /** What one write brings may be more than fits: only what was not read before it counts. */
  write(bytes: Buffer): void {
    this.begin()
    if (!this.isOpen) return
    const { raw } = this.#reply
    if (raw.writableLength > this.#parts.mostBytes) {
      this.#parts.dropped()
      this.drop()
    } else raw.write(bytes)
  }

  spare(bytes: Buffer): void {
    if (this.isOpen && this.#reply.raw.writableLength === 0) this.#reply.raw.write(bytes)
  }

  end(bytes: Buffer): void {
    this.begin()
    if (this.isOpen) this.#reply.raw.end(bytes)
  }

  drop(): void {
    this.#reply.raw.destroy()
  }

  /** A token that was revoked ends its streams. When the store does not answer, nothing is known. */
  async lookAgain(): Promise<void> {
    const isAllowed = await this.#parts.isStillAllowed().catch(() => true)
    if (!isAllowed && this.isOpen) this.#reply.raw.end()
  }
}
