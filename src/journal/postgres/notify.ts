/**
 * Notifications between processes over LISTEN and NOTIFY, never inside an append: a NOTIFY makes committing
 * transactions queue for one lock. Notifications are hints: each heartbeat reports the same, so a lost one
 * costs one heartbeat interval. Notifications for live streams use a separate channel.
 */
import type pg from "pg"
import type { JournalFeed } from "../port/feed.ts"
import { type RetryOptions, retryDefaults, retryDelayMs, sleepFor } from "../retry.ts"
import { type ConnectionOptions, connect, destroy, send } from "./client.ts"
import type { Database } from "./database.ts"

export interface PostgresWakeUpsOptions extends ConnectionOptions {
  readonly database: Database
  readonly partitions: number
  readonly retry: RetryOptions
}

type Listener = (partition: number) => void

export class PostgresWakeUps {
  readonly #options: PostgresWakeUpsOptions
  readonly #listeners = new Set<Listener>()
  readonly #feedListeners = new Set<(news: string) => void>()
  readonly #waiting = new Set<number>()
  #notifying: Promise<void> | null = null
  /** Notifications of the feed that are in flight, or wait for a connection. */
  readonly #sending = new Set<Promise<unknown>>()
  #client: pg.Client | null = null
  #connecting: Promise<void> | null = null
  #closed = false

  constructor(options: PostgresWakeUpsOptions) {
    this.#options = options
  }

  /** Sent soon, and at most once for many messages: losing one costs a heartbeat interval, never a job. */
  notify(partitions: readonly number[]): void {
    for (const partition of partitions) this.#waiting.add(partition)
    this.#notifying ??= this.#notifyAll().finally(() => {
      this.#notifying = null
    })
  }

  async listen(listener: Listener): Promise<() => Promise<void>> {
    return this.#add(this.#listeners, listener)
  }

  /** Not repeated: the next poll of the store finds what is lost here. */
  readonly feed: Pick<JournalFeed, "notify" | "listen"> = {
    notify: payload => {
      const sent: Promise<unknown> = this.#options.database
        .query("notifyFeed", { payload })
        .catch(() => {})
        .finally(() => this.#sending.delete(sent))
      this.#sending.add(sent)
    },
    listen: listener => this.#add(this.#feedListeners, listener),
  }

  async #add<T>(listeners: Set<T>, listener: T): Promise<() => Promise<void>> {
    listeners.add(listener)
    this.#connecting ??= this.#connect()
    await this.#connecting
    return async () => {
      listeners.delete(listener)
      if (this.#isAlone) this.#hangUp()
    }
  }

  get #isAlone(): boolean {
    return this.#listeners.size === 0 && this.#feedListeners.size === 0
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    this.#feedListeners.clear()
    this.#hangUp()
    // The last heartbeat reports that this engine has released its partitions.
    await Promise.all([this.#notifying, ...this.#sending])
  }

  /**
   * While one notification is in flight the next one collects: a thousand messages cost a few notifications.
   */
  async #notifyAll(): Promise<void> {
    while (this.#waiting.size > 0) {
      const partitions = [...this.#waiting]
      this.#waiting.clear()
      await this.#options.database.query("notify", { partitions: partitions.join(",") }).catch(() => {})
    }
  }

  async #connect(): Promise<void> {
    const client = await connect(this.#options, 0)
    client.on("notification", ({ channel, payload = "" }) => {
      if (channel === "umbra") this.#deliver(payload.split(",").map(Number))
      else for (const listener of this.#feedListeners) listener(payload)
    })
    client.once("end", () => void this.#reconnect(client))
    this.#client = client
    await send(client, "listen", [], this.#options.queryTimeoutMs)
    await send(client, "listenFeed", [], this.#options.queryTimeoutMs)
    if (this.#isAlone) this.#hangUp()
  }

  async #reconnect(lost: pg.Client): Promise<void> {
    if (this.#client !== lost) return
    this.#client = null
    const policy = { ...retryDefaults, ...this.#options.retry }
    const { sleep = sleepFor } = this.#options.retry
    for (let tried = 1; !this.#closed && !this.#isAlone; tried++) {
      try {
        await this.#connect()
        // Notifications sent meanwhile were missed: every partition is checked.
        return this.#deliver(Array.from({ length: this.#options.partitions }, (_, index) => index))
      } catch {
        await sleep(retryDelayMs(policy, tried))
      }
    }
    this.#connecting = null
  }

  #deliver(partitions: readonly number[]): void {
    for (const listener of this.#listeners) for (const partition of partitions) listener(partition)
  }

  #hangUp(): void {
    const client = this.#client
    this.#client = null
    this.#connecting = null
    if (client) destroy(client)
  }
}
