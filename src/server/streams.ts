/**
 * Open live streams of this process (S4), on the HTTP side.
 *
 * 1. A client that does not read is disconnected when too many bytes wait for it; all clients share the waiting bytes.
 * 2. One timer sends the heartbeats of all streams. With each heartbeat the client's token is checked again.
 * 3. When the process stops, every stream gets a last event and is closed.
 */
import type { ServerResponse } from "node:http"
import type { FastifyReply, FastifyRequest } from "fastify"
import { UmbraError } from "../errors.ts"
import { endFrame, type Sink, type Stream } from "../feed/stream.ts"
import type { Stopping } from "./route-context.ts"
import type { ServerSettings } from "./settings.ts"

export interface StreamsOptions {
  readonly settings: ServerSettings
  readonly stopping: Stopping
  /** From now on the request is a stream and no longer counts as a request in progress. */
  uncount(raw: ServerResponse): void
}

const RETRY = "retry: 1000\n\n"
const HEARTBEAT = Buffer.from(": keep-alive\n\n")
/** A client that does not read what it has asked for within this time is disconnected. */
const FLUSH_MS = 30_000
/** The time between two heartbeats is divided into this many slots, so that they are not all sent at once. */
const SLICES = 25

type AnyStream = Pick<Stream<{ changes: [] }>, "close"> & { begin(): Promise<void> }

export class Streams {
  readonly #options: StreamsOptions
  readonly #clients = new Set<Client>()
  #timer: NodeJS.Timeout | null = null
  #opening = 0
  #dropped = 0

  constructor(options: StreamsOptions) {
    this.#options = options
    options.stopping.onStop(() => {
      for (const client of this.#clients) client.end(endFrame("server_stopping"))
    })
  }

  get open(): number {
    return this.#clients.size
  }

  /** Clients that were disconnected because they did not read. */
  get dropped(): number {
    return this.#dropped
  }

  /** Resolves when the stream has started. An error before its first byte is thrown, and answered like any other. */
  async start(
    request: FastifyRequest,
    reply: FastifyReply,
    streamTo: (sink: Sink) => AnyStream,
  ): Promise<FastifyReply> {
    const { settings, uncount } = this.#options
    if (this.#clients.size + this.#opening >= settings.maxStreams)
      throw new UmbraError(
        "E611",
        `The server has reached its limit of ${settings.maxStreams} open streams. Try again shortly.`,
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
    if (this.#options.stopping.isStopping) {
      client.end(endFrame("server_stopping"))
      return
    }
    const everyMs = this.#options.settings.streamHeartbeatSeconds * 1000
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
}

interface ClientOptions {
  readonly mostBytes: number
  isStillAllowed(): Promise<boolean>
  dropped(): void
}

/** One open response. Its head is sent with its first bytes, so that an earlier failure can still be answered as an error. */
class Client implements Sink {
  readonly #reply: FastifyReply
  readonly #options: ClientOptions
  hasBegun = false
  beatAt = 0

  constructor(reply: FastifyReply, options: ClientOptions) {
    this.#reply = reply
    this.#options = options
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
    // The end of the connection ends the stream, so chunked encoding is not needed.
    raw.shouldKeepAlive = false
    raw.useChunkedEncodingByDefault = false
    raw.writeHead(200, {
      ...(this.#reply.getHeaders() as Record<string, string>),
      "content-type": "text/event-stream; charset=utf-8",
      "x-accel-buffering": "no",
    })
    raw.write(RETRY)
  }

  /** One write may exceed the limit by itself: only bytes that were unread before it count. */
  write(bytes: Buffer): void {
    this.begin()
    if (!this.isOpen) return
    const { raw } = this.#reply
    if (raw.writableLength > this.#options.mostBytes) {
      this.#options.dropped()
      this.drop()
    } else raw.write(bytes)
  }

  writeIfRoom(bytes: Buffer): void {
    if (this.isOpen && this.#reply.raw.writableLength === 0) this.#reply.raw.write(bytes)
  }

  async flushed(): Promise<void> {
    const { raw } = this.#reply
    if (!this.isOpen || raw.writableLength === 0) return
    await new Promise<void>(resolve => {
      const tooLate = setTimeout(() => {
        this.#options.dropped()
        this.drop()
      }, FLUSH_MS)
      const done = () => {
        clearTimeout(tooLate)
        raw.off("drain", done).off("close", done)
        resolve()
      }
      raw.once("drain", done).once("close", done)
    })
  }

  end(bytes: Buffer): void {
    this.begin()
    if (this.isOpen) this.#reply.raw.end(bytes)
  }

  drop(): void {
    this.#reply.raw.destroy()
  }

  /** A revoked token ends its streams. If the store does not answer, the stream stays open. */
  async lookAgain(): Promise<void> {
    const isAllowed = await this.#options.isStillAllowed().catch(() => true)
    if (!isAllowed && this.isOpen) this.#reply.raw.end()
  }
}
