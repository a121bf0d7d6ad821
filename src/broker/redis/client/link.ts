import { UmbraError } from "../../../errors.ts"
import type { Log } from "../../../log.ts"
import { InterruptibleWait } from "../../interruptible-wait.ts"
import { Keys } from "../keys.ts"
import { parseDatabaseNumber, RedisAwayError, RedisConnection, type Reply, ReplyError } from "./connection.ts"

export interface LinkParts {
  readonly url: string
  readonly prefix: string
  /**
   * Returns the id of the store whose keys are used; called with each connection. null: this process is
   * stopping. A rejection repeats with every connection.
   */
  readonly store: (send: (args: readonly string[]) => Promise<Reply>) => Promise<string | null>
  readonly answerMs: number
  readonly log: Log
  /** The channel that this process subscribes to. */
  readonly channel: (keys: Keys) => string
  readonly onMessage: (message: string) => void
  readonly up: (keys: Keys) => void
  readonly down: () => void
}

interface OpenConnections {
  readonly keys: Keys
  readonly commands: RedisConnection
  /** For blocking commands only. */
  readonly waiting: RedisConnection
  readonly waitingId: string
}

/**
 * The connections of a process to Redis: one for commands, one for blocking commands, one subscriber. They
 * open and close together, on one run of one server, so that all of them use the same keys. The link
 * reconnects by itself.
 */
export class Link {
  readonly #parts: LinkParts
  #open: OpenConnections | null = null
  #isClosed = false
  readonly #pause = new InterruptibleWait()
  readonly #kept: Promise<void>

  constructor(parts: LinkParts) {
    this.#parts = parts
    this.#kept = this.#keepConnected()
  }

  /** null: Redis is unavailable. */
  get keys(): Keys | null {
    return this.#open?.keys ?? null
  }

  send(args: readonly string[]): Promise<Reply> {
    return this.#open === null ? unavailable() : this.#open.commands.send(args)
  }

  /** Sends a command that may block at the server. */
  wait(args: readonly string[]): Promise<Reply> {
    return this.#open === null ? unavailable() : this.#open.waiting.send(args)
  }

  /** Ends the blocking command at the server, as if its timeout had passed. */
  unblock(): void {
    if (this.#open !== null) this.send(["CLIENT", "UNBLOCK", this.#open.waitingId]).catch(() => {})
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Reconnects: the store may be another one. */
  renew(): void {
    this.#end()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#end()
    this.#pause.end()
    await this.#kept
  }

  #end(): void {
    this.#open?.commands.close()
    this.#open?.waiting.close()
  }

  async #keepConnected(): Promise<void> {
    let told = ""
    for (let failures = 0; !this.#isClosed; failures++) {
      const opened: RedisConnection[] = []
      try {
        this.#open = await this.#connect(opened)
        if (!this.#isClosed) {
          if (failures > 0) this.#parts.log.info({}, "reconnected to Redis")
          failures = 0
          told = ""
          this.#parts.up(this.#open.keys)
          const error = await Promise.race(opened.map(({ ended }) => ended))
          if (!this.#isClosed)
            this.#parts.log.warn({ error }, "the connection to Redis was lost; reconnecting")
        }
      } catch (error) {
        // Each reason is logged once: refused, then loading, then a wrong password. `store` itself reports
        // that there is no store to work for.
        if (String(error) !== told && !this.#isClosed && !(error instanceof UmbraError))
          this.#parts.log.warn({ error: String(error) }, "Redis cannot be reached; retrying")
        told = String(error)
      }
      for (const connection of opened) connection.close()
      if (this.#open !== null) this.#parts.down()
      this.#open = null
      if (!this.#isClosed) await this.#pause.wait(Math.min(1000, 50 * 2 ** Math.min(failures, 5)))
    }
  }

  async #connect(opened: RedisConnection[]): Promise<OpenConnections> {
    const open = async () => {
      const connection = await RedisConnection.open(this.#parts)
      opened.push(connection)
      return { connection, runId: runIdIn(await connection.send(["INFO", "server"])) }
    }
    const { channel, onMessage, prefix, url } = this.#parts
    const commands = await open()
    const waiting = await open()
    const listening = await open()
    if (waiting.runId !== commands.runId || listening.runId !== commands.runId)
      throw new RedisAwayError("Redis was restarted while this process was connecting.")
    if (/role:slave/.test(String(await commands.connection.send(["INFO", "replication"]))))
      throw new RedisAwayError("This Redis is a replica. Use the address of the primary.")
    const store = await this.#parts.store(args => commands.connection.send(args))
    if (store === null) throw new RedisAwayError("This process is stopping.")
    const keys = new Keys({ prefix, store, runId: commands.runId, database: parseDatabaseNumber(url) })
    await listening.connection.subscribe(channel(keys), onMessage)
    const waitingId = String(await waiting.connection.send(["CLIENT", "ID"]))
    return { keys, commands: commands.connection, waiting: waiting.connection, waitingId }
  }
}

function unavailable(): Promise<never> {
  return Promise.reject(new RedisAwayError("Redis is unavailable."))
}

export function runIdIn(info: Reply): string {
  const found = /run_id:(\w+)/.exec(String(info))
  if (found === null) throw new RedisAwayError("Redis does not report its run id (INFO server).")
  return found[1]!
}

/** A stream or its consumer group does not exist: Redis was flushed, or no process has created it yet. */
export function isNoGroup(error: unknown): boolean {
  return error instanceof ReplyError && /NOGROUP|UNBLOCKED/.test(error.message)
}

/**
 * Creates the consumer groups, which read from the start of the streams. Does nothing if another process has
 * created them.
 */
export async function makeGroups(link: Link, streams: readonly string[], group: string): Promise<void> {
  await Promise.all(
    streams.map(stream =>
      link.send(["XGROUP", "CREATE", stream, group, "0", "MKSTREAM"]).catch((error: Error) => {
        if (!error.message.includes("BUSYGROUP")) throw error
      }),
    ),
  )
}

/**
 * Deletes entries from the stream first, then acknowledges them in the group: an entry that is in the stream
 * and pending for no consumer is still to be delivered.
 */
export async function removeEntries(
  link: Link,
  stream: string,
  group: string,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return
  await Promise.all([link.send(["XDEL", stream, ...ids]), link.send(["XACK", stream, group, ...ids])])
}

/** In one turn of the connection. Rejects if one of them does. */
export async function sendAll(
  link: Pick<Link, "send">,
  commands: readonly (readonly string[])[],
): Promise<void> {
  await Promise.all(commands.map(command => link.send(command)))
}
