/**
 * Log lines on their way from workers to the store: one stream with a limited length for each partition, which the
 * partition's owner reads and stores.
 *
 * 1. An entry is removed when its rows are stored. After a take-over the next owner reads it again, and the store recognises
 *    its rows.
 * 2. What Redis loses, or removes because no engine reads it, is a gap in the numbers of an attempt's lines.
 */
import { UmbraError } from "../../errors.ts"
import type { Log, LoggedLines, LogSink } from "../../log.ts"
import { InterruptibleWait } from "../interruptible-wait.ts"
import { type Link, sendAll } from "./client/link.ts"
import type { WorkerNotice } from "./wire.ts"

/** Of one entry, about. */
const ENTRY_BYTES = 128 * 1024
/** Entries of each stream that are read at once. */
const READ_AT_ONCE = 50
const RETRY_MS = 1000

export interface LogSender {
  readonly link: Pick<Link, "keys" | "send">
  readonly jobPartition: (jobId: string) => number
  /** Of a stream, in entries. */
  readonly length: number
}

/** Rejects if Redis is unavailable or did not accept all of it. */
export async function sendLogs(
  { link, jobPartition, length }: LogSender,
  rows: readonly LoggedLines[],
): Promise<void> {
  const { keys } = link
  if (keys === null) throw new UmbraError("E501", "Redis is unavailable.")
  const byPartition = new Map<number, LoggedLines[]>()
  for (const row of rows) {
    const partition = jobPartition(row.jobId)
    const found = byPartition.get(partition)
    if (found === undefined) byPartition.set(partition, [row])
    else found.push(row)
  }
  const commands = [...byPartition].flatMap(([partition, all]) =>
    entries(all).map(entry => [
      ...["XADD", keys.logs(partition), "MAXLEN", "~", String(length), "*", "rows", JSON.stringify(entry)],
    ]),
  )
  const news: WorkerNotice = { type: "logs", partitions: [...byPartition.keys()] }
  await sendAll(link, [...commands, ["PUBLISH", keys.news, JSON.stringify(news)]])
}

function entries(rows: readonly LoggedLines[]): LoggedLines[][] {
  const found: LoggedLines[][] = []
  let bytes = ENTRY_BYTES
  for (const row of rows) {
    if (bytes >= ENTRY_BYTES) {
      found.push([])
      bytes = 0
    }
    found.at(-1)!.push(row)
    bytes += row.lines.length
  }
  return found
}

type Entry = readonly [id: string, fields: readonly string[]]

interface LogStreamsParts {
  readonly link: Link
  /** Does this engine own the partition? */
  readonly isOwned: (partition: number) => boolean
  readonly store: LogSink
  readonly log: Log
}

export class LogStreams {
  readonly #parts: LogStreamsParts
  /** Partitions whose stream may have entries. */
  readonly #waiting = new Set<number>()
  readonly #pause = new InterruptibleWait()
  #reading: Promise<void> | null = null
  #isStopped = false

  constructor(parts: LogStreamsParts) {
    this.#parts = parts
  }

  arrived(partitions: readonly number[]): void {
    for (const partition of partitions) if (this.#parts.isOwned(partition)) this.#waiting.add(partition)
    if (this.#waiting.size === 0 || this.#isStopped) return
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null
    })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#pause.end()
    await this.#reading
  }

  async #read(): Promise<void> {
    const { link, log } = this.#parts
    while (this.#waiting.size > 0 && !this.#isStopped && link.keys !== null) {
      const partitions = [...this.#waiting].filter(partition => this.#parts.isOwned(partition))
      this.#waiting.clear()
      try {
        if (partitions.length > 0) await this.#readOnce(link.keys, partitions)
      } catch (error) {
        log.debug(
          { error: String(error) },
          "could not read log lines of workers; they stay in Redis, and are read again",
        )
        for (const partition of partitions) this.#waiting.add(partition)
        await this.#pause.wait(RETRY_MS)
      }
    }
  }

  async #readOnce(keys: NonNullable<Link["keys"]>, partitions: readonly number[]): Promise<void> {
    const { link } = this.#parts
    const streams = partitions.map(partition => keys.logs(partition))
    const starts = partitions.map(() => "0-0")
    const command = ["XREAD", "COUNT", String(READ_AT_ONCE), "STREAMS", ...streams, ...starts]
    const found = ((await link.send(command)) ?? []) as [string, Entry[]][]
    await this.#store(found.flatMap(([, read]) => read))
    await sendAll(
      link,
      found.map(([stream, read]) => ["XDEL", stream, ...read.map(([id]) => id)]),
    )
    for (const [stream, read] of found)
      if (read.length === READ_AT_ONCE) this.#waiting.add(partitions[streams.indexOf(stream)]!)
  }

  /** Rows that the store rejects for what they contain are dropped. */
  async #store(read: readonly Entry[]): Promise<void> {
    const { store, log } = this.#parts
    const rows = read.flatMap(([, [, text]]) => this.#decode(text))
    if (rows.length === 0) return
    try {
      await store(rows)
    } catch (error) {
      if (!(error instanceof UmbraError && error.code === "E502")) throw error
      log.warn({ error: error.message }, "the store rejected log lines of workers; they are dropped")
    }
  }

  #decode(text: string | undefined): readonly LoggedLines[] {
    try {
      const rows: unknown = JSON.parse(text ?? "")
      if (Array.isArray(rows)) return rows as LoggedLines[]
    } catch {
      // Dropped below.
    }
    this.#parts.log.warn({}, "an entry of a stream of log lines cannot be read and is dropped")
    return []
  }
}
