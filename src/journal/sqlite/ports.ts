/**
 * The storage ports on top of the synchronous stores: every method is a call by name, in this thread or in
 * the database's.
 */
import { randomUUID } from "node:crypto"
import { type ListedStore, listJobs } from "../list-jobs.ts"
import { MarkWriter } from "../marks.ts"
import type { ArtifactStore } from "../port/artifacts.ts"
import type { JournalFeed } from "../port/feed.ts"
import type * as port from "../port/journal.ts"
import type { LogStore } from "../port/logs.ts"
import type { PipelineStore } from "../port/pipelines.ts"
import type { ProviderStore } from "../port/providers.ts"
import type { Registry } from "../port/registry.ts"
import type { ScheduleStore } from "../port/schedules.ts"
import type { StatisticsStore } from "../port/statistics.ts"
import { retryDefaults } from "../retry.ts"
import { SqliteArtifacts } from "./artifacts/store.ts"
import type { SqliteConnection } from "./database.ts"
import { SqliteFeed } from "./feed.ts"
import { SqliteJournal } from "./journal.ts"
import { SqliteLogs } from "./logs/store.ts"
import { claimDeadLettersInPages, type DeadLetterPages, SqlitePipelines } from "./pipelines.ts"
import { SqliteProviders } from "./providers.ts"
import { SqliteRegistry } from "./registry.ts"
import { SqliteSchedules } from "./schedules/store.ts"
import { SqliteStatistics } from "./statistics/store.ts"

const types = {
  journal: SqliteJournal,
  registry: SqliteRegistry,
  feed: SqliteFeed,
  providers: SqliteProviders,
  pipelines: SqlitePipelines,
  statistics: SqliteStatistics,
  schedules: SqliteSchedules,
  logs: SqliteLogs,
  artifacts: SqliteArtifacts,
}

/** Rows of logs in one transaction: an append waits for one at most. */
const LOG_ROWS = 32

export type StoreName = keyof typeof types

export type Stores = { readonly [Name in StoreName]: InstanceType<(typeof types)[Name]> }

export function createStores(connection: SqliteConnection): Stores {
  const stores = Object.entries(types).map(([name, Type]) => [name, new Type(connection)])
  return Object.fromEntries(stores) as Stores
}

export function execute(stores: Stores, store: StoreName, verb: string, args: readonly unknown[]): unknown {
  const target = stores[store] as unknown as Record<string, (...args: readonly unknown[]) => unknown>
  return target[verb]!(...args)
}

export type Call = (store: StoreName, verb: string, args: readonly unknown[]) => Promise<unknown>

const folderCapabilities = {
  exclusive: true,
  durable: true,
  appendLanes: 1,
  purgesHoldAppends: true,
  retry: retryDefaults,
}

export interface JournalOptions {
  readonly call: Call
  /** Those that are left out are those of a folder. */
  readonly capabilities: Pick<port.Capabilities, "label" | "partitions"> & Partial<port.Capabilities>
  /** Absent: there are no other processes. */
  readonly listen?: port.Journal["listen"]
  readonly feed?: Pick<JournalFeed, "notify" | "listen">
  readonly close: () => Promise<void>
}

export function createJournal(options: JournalOptions): port.Journal {
  const { call, listen = null, close } = options
  const feed = options.feed ?? { notify: () => {}, listen: null }
  const pipelines = verbs<PipelineStore & DeadLetterPages>("pipelines", call)
  const logs = verbs<LogStore>("logs", call)
  const marks = new MarkWriter()
  const journal = verbs<port.Journal & ListedStore>("journal", call)
  return {
    ...journal,
    // Each reading of a page is a request of its own: appends come between them.
    listJobs: (filter, bound) => listJobs(journal, filter, bound),
    append: async batch => {
      const { pairs, written } = marks.entries(batch)
      const result = (await call("journal", "append", [batch, pairs])) as port.AppendResult
      // Without a partition that is held nothing was written.
      if (result.held.size > 0) written()
      return result
    },
    // The names let a repeated call recognise what the first one has written.
    sendMessages: messages =>
      call("journal", "sendMessages", [messages, messages.map(() => randomUUID())]) as Promise<number[]>,
    capabilities: { ...folderCapabilities, ...options.capabilities },
    registry: verbs<Registry>("registry", call),
    feed: { ...verbs<JournalFeed>("feed", call), ...feed },
    providers: verbs<ProviderStore>("providers", call),
    statistics: verbs<StatisticsStore>("statistics", call),
    schedules: verbs<ScheduleStore>("schedules", call),
    artifacts: verbs<ArtifactStore>("artifacts", call),
    logs: {
      ...logs,
      write: async rows => {
        for (let at = 0; at < rows.length; at += LOG_ROWS) await logs.write(rows.slice(at, at + LOG_ROWS))
      },
    },
    pipelines: { ...pipelines, claimDeadLetters: claim => claimDeadLettersInPages(claim, pipelines) },
    listen,
    close,
  }
}

/** The methods of a port: those that its synchronous class has. */
function verbs<Port>(store: StoreName, call: Call): Port {
  const names = Object.getOwnPropertyNames(types[store].prototype).filter(name => name !== "constructor")
  const entries = names.map(name => [name, (...args: unknown[]) => call(store, name, args)])
  return Object.fromEntries(entries) as Port
}
