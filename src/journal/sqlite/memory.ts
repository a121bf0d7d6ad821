/**
 * The journal in memory: the same stores on `:memory:`, in the thread of the caller. Nothing survives the
 * process. Every method takes effect when it is called, without an await in between. A store that is passed
 * in is shared, as a database is by its processes, so that take-over and fencing can be tested. No clock and
 * no randomness except for the ids of the store and of sent messages: a simulation on it repeats exactly.
 */
import { JournalUnavailableError } from "../errors.ts"
import type * as port from "../port/journal.ts"
import { SqliteConnection } from "./database.ts"
import { openDatabase } from "./driver.ts"
import { classify } from "./errors.ts"
import { createJournal, createStores, execute, type Stores } from "./ports.ts"
import { prepareSchema } from "./schema/schema.ts"

/** Can be shared by several openings, as several processes share a database. */
export interface MemoryStore {
  /** For tests that read or change the tables directly. */
  readonly connection: SqliteConnection
  /** The synchronous methods. */
  readonly stores: Stores
  readonly partitions: number
  readonly listeners: Set<(partition: number) => void>
  readonly feedListeners: Set<(news: string) => void>
}

export function createMemoryStore({ partitions = 64 }: { readonly partitions?: number } = {}): MemoryStore {
  const connection = new SqliteConnection(openDatabase(":memory:"))
  prepareSchema(connection, "memory", partitions)
  const listeners = new Set<(partition: number) => void>()
  connection.notify = changed => {
    for (const partition of changed)
      for (const listener of listeners) queueMicrotask(() => listener(partition))
  }
  return { connection, stores: createStores(connection), partitions, listeners, feedListeners: new Set() }
}

export function openMemory(shared?: MemoryStore): port.Journal {
  const store = shared ?? createMemoryStore()
  const exclusive = shared === undefined
  let isClosed = false
  return createJournal({
    // A second lane gains nothing here, but tests are to run as on PostgreSQL.
    capabilities: {
      exclusive,
      durable: false,
      label: "memory",
      partitions: store.partitions,
      appendLanes: 2,
    },
    call: async (name, verb, args) => {
      if (isClosed)
        throw new JournalUnavailableError("memory has been closed by this process", { final: true })
      try {
        return execute(store.stores, name, verb, args)
      } catch (error) {
        throw classify(error, "memory")
      }
    },
    listen: exclusive ? null : listener => subscribe(store.listeners, listener),
    feed: {
      listen: exclusive ? null : listener => subscribe(store.feedListeners, listener),
      notify: news => {
        for (const listener of store.feedListeners) queueMicrotask(() => listener(news))
      },
    },
    close: async () => {
      if (!isClosed && exclusive) store.connection.close()
      isClosed = true
    },
  })
}

async function subscribe<T>(listeners: Set<T>, listener: T): Promise<() => Promise<void>> {
  listeners.add(listener)
  return async () => void listeners.delete(listener)
}
