import { readingMovedFacts } from "../artifacts/moved-facts.ts"
import { artifactsInText } from "../core/artifacts.ts"
import type { JobEvent } from "../core/view/events.ts"
import type { GraphView } from "../core/view/view.ts"
import { systemClock } from "../engine/clock.ts"
import { isJobId, jobPartition } from "../engine/ids.ts"
import type { JobSnapshot } from "../engine/owner/snapshot.ts"
import { Plans } from "../engine/plans.ts"
import type { JobCommand } from "../engine/remote/commands.ts"
import { joinDispatched } from "../engine/remote/dispatched-jobs.ts"
import { type AwayOwner, KnownEngines } from "../engine/remote/known-engines.ts"
import type { LiveMessages, MessagesQuery } from "../engine/remote/live-messages.ts"
import { throwIfRefused } from "../engine/remote/refusals.ts"
import { RemoteCommands } from "../engine/remote/remote-commands.ts"
import { ownsNothing, RemoteOverlays } from "../engine/remote/remote-overlays.ts"
import { engineSettings } from "../engine/settings.ts"
import { UmbraError } from "../errors.ts"
import type { DurationsQuery, JobDurations } from "../journal/job-durations.ts"
import { openJournal } from "../journal/open.ts"
import type { JobFilter, JobPage, JobRow, Journal } from "../journal/port/journal.ts"
import { checkFilter } from "./arguments.ts"
import type { Compared, CompareQuery } from "./compare/compare.ts"
import { factPages } from "./fact-records.ts"
import type { JobFacts } from "./facts.ts"
import { isoLogPage } from "./iso-times.ts"
import type { JobSnapshotPage } from "./job-lists.ts"
import type { LogPageQuery } from "./logs/logs.ts"
import { type ItemPage, type ItemPageQuery, type NodeDetails, Queries } from "./queries.ts"
import { Watchers } from "./watchers.ts"
import { type WaitPage, type WaitsRequest, Why, type WhyQuery, type WhyView } from "./why/why.ts"

/** A little more than a heartbeat interval: a live engine has read its inbox by then, even if it missed the notification. */
const ANSWER_MS = 5_000

/**
 * Opens the store for reading. Owns nothing and runs nothing, so it does not disturb engines on the same PostgreSQL; a
 * folder can still be open in one process only.
 */
export async function openReader(location: string, options: ReaderOptions = {}): Promise<Reader> {
  return new Reader(readingMovedFacts(await openJournal(location), location), options)
}

export interface ReaderOptions {
  /** The limit for the data of a signal; default 16 MiB, as for an output. */
  readonly maxSignalBytes?: number
}

/** A content store of artifacts. */
export interface ContentSizes {
  /** null: there is no content at the key. */
  size(key: string): Promise<number | null>
}

export class Reader {
  readonly #journal: Journal
  readonly #queries: Queries
  readonly #remoteCommands: RemoteCommands
  readonly #overlays: RemoteOverlays
  readonly #maxSignalBytes: number

  constructor(journal: Journal, { maxSignalBytes = 16 * 1024 * 1024 }: ReaderOptions = {}) {
    const { largeOutputBytes } = engineSettings()
    this.#journal = journal
    this.#remoteCommands = new RemoteCommands({ journal, clock: systemClock })
    this.#maxSignalBytes = maxSignalBytes
    this.#overlays = new RemoteOverlays(journal.feed, ownsNothing)
    this.#queries = new Queries({
      journal,
      plans: new Plans(journal),
      largeOutputBytes,
      live: () => undefined,
      overlay: (query, patienceMs) => this.#overlays.query(query, patienceMs),
      now: () => systemClock.now(),
      dispatched: async query => {
        const { livePartitions } = await this.#knownEngines()
        return joinDispatched(await this.#overlays.dispatched(query, livePartitions))
      },
      awayOwner: jobId => this.#awayOwner(jobId),
    })
  }

  /** Can only one process at a time have this store open? */
  get isExclusive(): boolean {
    return this.#journal.capabilities.exclusive
  }

  job(jobId: string): Promise<JobSnapshot> {
    return this.#queries.job(mustBeJobId(jobId))
  }

  /** Newest first, of all owners unless one is given. */
  async jobs(filter: Partial<JobFilter> = {}): Promise<JobSnapshot[]> {
    checkFilter(filter)
    return this.#queries.jobs({ limit: 50, ...filter })
  }

  /** The same, a page at a time: a page of rare jobs may end early. */
  async jobPage(filter: Partial<JobFilter> = {}): Promise<JobSnapshotPage> {
    checkFilter(filter)
    return this.#queries.jobPage({ limit: 50, ...filter })
  }

  /** Points of a chart: how long jobs took, over the time of their creation. */
  async durations({ points, ...filter }: DurationsQuery = {}): Promise<JobDurations> {
    checkFilter(filter)
    return this.#queries.durations({ ...filter, points })
  }

  graph(jobId: string): Promise<GraphView> {
    return this.#queries.graph(mustBeJobId(jobId))
  }

  /** Why the job, or one of its nodes, makes no progress: now, or at a past moment. */
  why(jobId: string, query?: WhyQuery): Promise<WhyView> {
    return this.#why().why(mustBeJobId(jobId), query)
  }

  /** Why unfinished jobs make no progress, grouped by cause; of all owners unless one is given. */
  waits(request: WaitsRequest = {}): Promise<WaitPage> {
    return this.#why().waits(request)
  }

  #why(): Why {
    const plans = new Plans(this.#journal)
    return new Why({ journal: this.#journal, plans, queries: this.#queries, now: () => systemClock.now() })
  }

  /** Messages in flight of a pipeline's execution; null: the process that runs it did not answer. */
  messages(query: MessagesQuery): Promise<LiveMessages | null> {
    return this.#overlays.messages(query)
  }

  /** The journal of jobs, and their past. */
  async logPage(
    jobId: string,
    {
      until,
      limit = 100,
      ...query
    }: Omit<LogPageQuery, "until" | "limit"> & {
      readonly until?: string | undefined
      readonly limit?: number | undefined
    },
  ) {
    const bounds = { until: until === undefined ? undefined : Date.parse(until), limit }
    await this.#queries.logs.checkNode(jobId, query.node)
    return isoLogPage(await this.#queries.logs.page(jobId, { ...query, ...bounds }))
  }

  get facts(): JobFacts {
    return this.#queries.facts
  }

  compare(a: string, b: string, options: Omit<CompareQuery, "a" | "b"> = {}): Promise<Compared> {
    return this.#queries.comparisons.compare({ a: mustBeJobId(a), b: mustBeJobId(b), ...options })
  }

  node(jobId: string, node: string, of?: { readonly item?: number | undefined }): Promise<NodeDetails> {
    return this.#queries.node(mustBeJobId(jobId), node, of)
  }

  items(jobId: string, node: string, query?: ItemPageQuery): Promise<ItemPage> {
    return this.#queries.items(mustBeJobId(jobId), node, query)
  }

  events(jobId: string): Promise<JobEvent[]> {
    return this.#queries.events(mustBeJobId(jobId))
  }

  /** Every event from the job's beginning until it has ended, as each becomes durable. Polls four times a second. */
  watch(
    jobId: string,
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<JobEvent, void, undefined> {
    return this.#queries.watch(mustBeJobId(jobId), new Watchers(), options)
  }

  /** J18: the differences between the job's folded journal and its projection. */
  async verify(jobId: string): Promise<string[]> {
    return this.#queries.verify(await this.#queries.row(mustBeJobId(jobId)))
  }

  /** What is wrong with the artifacts that the job refers to, and with their content; null: that is not known here. */
  async verifyArtifacts(jobId: string, content: ContentSizes | null): Promise<string[]> {
    const { owner } = await this.#queries.row(mustBeJobId(jobId))
    const unknown = await this.#references(jobId)
    const wrong: string[] = []
    for (let after: string | undefined; ; ) {
      const page = await this.#journal.artifacts.list({ owner, jobId, after, limit: VERIFY_PAGE })
      for (const { hash, key, bytes } of page) {
        unknown.delete(hash)
        const found = key === null || content === null ? bytes : await content.size(key)
        if (found === null) wrong.push(`artifact ${hash} has no content`)
        else if (found !== bytes)
          wrong.push(`artifact ${hash} has ${found} bytes of content instead of ${bytes}`)
      }
      after = page.at(-1)?.hash
      if (page.length < VERIFY_PAGE) break
    }
    for (const hash of unknown) wrong.push(`artifact ${hash} is referred to, and not held`)
    return wrong
  }

  /** The hashes in the facts of the job. */
  async #references(jobId: string): Promise<Set<string>> {
    const found = new Set<string>()
    const query = { jobId, after: -1, limit: VERIFY_PAGE, inlineBytes: INLINE_BYTES }
    for await (const { seq, data } of factPages(this.#journal, query)) {
      const text = data ?? (await this.#journal.readFact(jobId, seq)) ?? ""
      for (const hash of artifactsInText(text)) found.add(hash)
    }
    return found
  }

  /** Every job of the store, deleted ones too, in pages. */
  async *verifyAll(): AsyncGenerator<{ readonly jobId: string; readonly differences: string[] }> {
    for (let after: string | undefined; ; ) {
      const { jobs, next }: JobPage = await this.#queries.list({ limit: VERIFY_PAGE, deleted: true, after })
      for (const row of jobs) yield { jobId: row.id, differences: await this.#verified(row) }
      if (next === null) return
      after = next
    }
  }

  /**
   * Sends a command to the engine that owns the job. false: no engine owns it, or none answered; then the command has
   * been withdrawn.
   */
  async sendCommand(jobId: string, requested: JobCommand): Promise<boolean> {
    await this.#queries.row(mustBeJobId(jobId))
    return this.#queries.facts.send(jobId, requested, {
      ...{ maxSignalBytes: this.#maxSignalBytes, live: () => undefined },
      send: command => this.#send(jobId, command),
    })
  }

  async #send(jobId: string, command: JobCommand): Promise<boolean> {
    const partitions = await this.#journal.readPartitions()
    const owned = partitions.some(row => row.partition === jobPartition(jobId) && row.owner !== null)
    if (!owned || this.isExclusive) return false
    try {
      const answer = await this.#remoteCommands.execute(jobId, command, ANSWER_MS)
      throwIfRefused(answer, jobId)
      return true
    } catch (error) {
      if (error instanceof UmbraError && error.code === "E613") return false
      throw error
    }
  }

  /** A store that only one process can open has no engine while this process has it open. */
  async #awayOwner(jobId: string): Promise<AwayOwner | null> {
    if (this.isExclusive) return { engine: null, beat: null }
    return (await this.#knownEngines()).awayOwner(jobPartition(jobId))
  }

  async #knownEngines(): Promise<KnownEngines> {
    const { leaseSeconds, beatSeconds } = engineSettings()
    const [engines, partitions] = await Promise.all([
      this.#journal.readEngines(),
      this.#journal.readPartitions(),
    ])
    const { now, random } = systemClock
    const owners = new KnownEngines({ leaseMs: leaseSeconds * 1000, beatMs: beatSeconds * 1000, now, random })
    owners.receive({ engines, partitions, inbox: [] })
    return owners
  }

  async close(): Promise<void> {
    await this.#overlays.stop()
    await this.#journal.close()
  }

  /** A job that cannot be folded counts as a difference; the other jobs are still verified. */
  async #verified(row: JobRow): Promise<string[]> {
    try {
      return await this.#queries.verify(row)
    } catch (error) {
      if (error instanceof UmbraError) return [`${error.code} ${error.message}`]
      throw error
    }
  }
}

const VERIFY_PAGE = 200
/** Larger facts are read one at a time. */
const INLINE_BYTES = 64 * 1024

export function mustBeJobId(text: string): string {
  if (!isJobId(text))
    throw new UmbraError(
      "E301",
      `"${text}" is not a job id: one looks like 0198c0de-7a11-7012-9abc-0123456789ab.`,
    )
  return text
}
