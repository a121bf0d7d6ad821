/**
 * The journal in memory: the same contract, nothing survives the process. Every verb reads and writes without an
 * await in between, which makes it atomic. A store that is passed in is shared, as a database is by its processes:
 * take-over and fencing can be tried without one. No clock, and no chance but for the store's id: a simulation on it repeats exactly.
 */

import { randomUUID } from "node:crypto"
import { nextVersion } from "../core/version.ts"
import { JournalUnavailableError } from "./errors.ts"
import { appendToMemory, checkBatch, checkedJson, putMessage } from "./memory-append.ts"
import { MemoryFeed } from "./memory-feed.ts"
import { MemoryPipelineStore } from "./memory-pipeline-store.ts"
import { MemoryProviderStore } from "./memory-provider-store.ts"
import { MemoryRegistry } from "./memory-registry.ts"
import { endedInMemory, purgeMemory, tidyMemory } from "./memory-retention.ts"
import { createMemoryStore, isOpen, type MemoryStore, pair } from "./memory-store.ts"
import type * as port from "./port.ts"
import { RESTORED_EPOCHS } from "./restored.ts"
import { retryDefaults } from "./retry.ts"

export function openMemory(shared?: MemoryStore): port.Journal {
  return new MemoryJournal(shared ?? createMemoryStore(), shared === undefined)
}

class MemoryJournal implements port.Journal {
  readonly capabilities: port.Capabilities
  readonly listen: port.Journal["listen"]
  readonly registry = new MemoryRegistry(() => this.#store)
  readonly feed: MemoryFeed
  readonly providers = new MemoryProviderStore(
    () => this.#store,
    message => {
      putMessage(this.#store, message, `sent/${this.#store.messages}`)
      this.#notify([message])
    },
  )
  readonly pipelines = new MemoryPipelineStore(() => this.#store)
  readonly #opened: MemoryStore
  #closed = false

  constructor(store: MemoryStore, exclusive: boolean) {
    this.#opened = store
    const partitions = store.partitions.length
    // Nothing is gained by a second lane, but what is tried out here shall be what runs on PostgreSQL.
    this.capabilities = {
      exclusive,
      durable: false,
      label: "memory",
      partitions,
      appendLanes: 2,
      retry: retryDefaults,
    }
    this.listen = exclusive ? null : listener => this.#listen(listener)
    this.feed = new MemoryFeed(() => this.#store, exclusive)
  }

  get #store(): MemoryStore {
    if (this.#closed)
      throw new JournalUnavailableError("memory has been closed by this process", { final: true })
    return this.#opened
  }

  async append(batch: port.Batch) {
    const result = appendToMemory(this.#store, batch)
    this.#notify(batch.messages)
    return result
  }

  async tryAppend(batch: port.Batch) {
    checkBatch(batch)
  }

  async readFacts(
    jobIds: readonly string[],
    options: { readonly inlineBytes?: number; readonly after?: number } = {},
  ) {
    const { facts } = this.#store
    const inlineBytes = options.inlineBytes ?? Number.POSITIVE_INFINITY
    const { after = -1 } = options
    const found = [...new Set(jobIds)]
      .sort()
      .flatMap(id => facts.get(id) ?? [])
      .filter(fact => fact.seq > after)
    return found.map(fact => (fact.bytes <= inlineBytes ? fact : { ...fact, data: null }))
  }

  async readFact(jobId: string, seq: number) {
    return this.#store.facts.get(jobId)?.find(fact => fact.seq === seq)?.data ?? null
  }

  async readJob(id: string) {
    return this.#store.jobs.get(id) ?? null
  }

  async listJobs(filter: port.JobFilter) {
    const { owner, statuses, workflow, after, deleted = false } = filter
    const { createdFrom = Number.NEGATIVE_INFINITY, createdBefore = Number.POSITIVE_INFINITY } = filter
    const labels = Object.entries(filter.labels ?? {})
    const found = [...this.#store.jobs.values()].filter(
      job =>
        (owner === undefined || job.owner === owner) &&
        (statuses === undefined || statuses.includes(job.status)) &&
        (workflow === undefined || job.workflow === workflow) &&
        (after === undefined || job.id < after) &&
        (filter.parentId === undefined || job.parentId === filter.parentId) &&
        (deleted || job.status !== "DELETED") &&
        job.createdAt >= createdFrom &&
        job.createdAt < createdBefore &&
        (labels.length === 0 || hasLabels(job, labels)),
    )
    return found
      .sort((a, b) => (a.id < b.id ? 1 : -1))
      .slice(0, filter.limit)
      .map(withoutLargeOutput)
  }

  async finishedJobs(ids: readonly string[]) {
    const found = ids.flatMap(id => this.#store.jobs.get(id) ?? [])
    return found.filter(job => job.finishedAt !== null).map(withoutLargeOutput)
  }

  async unfinishedJobs(query: Parameters<port.Journal["unfinishedJobs"]>[0]) {
    const { owner, submittedBy, known, after, limit } = query
    const { jobs } = this.#store
    const isTheirs = (job: port.JobRow) =>
      job.owner === owner && (submittedBy === undefined || job.submittedBy === submittedBy)
    const isOpen = (job: port.JobRow | undefined) =>
      job !== undefined && isTheirs(job) && job.finishedAt === null
    const newer = [...jobs.values()].filter(job => job.id > after && isOpen(job)).map(({ id }) => id)
    const newest = newer.sort().slice(-limit)
    return [...new Set([...known.filter(id => isOpen(jobs.get(id))), ...newest])]
  }

  async dueJobs(query: Parameters<port.Journal["dueJobs"]>[0]): Promise<port.DueJobs> {
    const { at, limit, after } = query
    const waiting = query.partitions
      .flatMap(partition => [...(this.#store.waiting[partition] ?? [])])
      .map(([id, wakeAt]) => ({ wakeAt, id }))
      .filter(job => !after || soonestFirst(job, after) > 0)
      .sort(soonestFirst)
    const firstLater = waiting.findIndex(job => job.wakeAt > at)
    const end = Math.min(firstLater === -1 ? waiting.length : firstLater, limit)
    return { jobs: waiting.slice(0, end), nextWakeAt: waiting[end]?.wakeAt ?? null }
  }

  async putWorkflow(workflow: port.NewWorkflow): Promise<port.WorkflowRow> {
    checkedJson(workflow.definition)
    const key = pair(workflow.owner, workflow.name)
    const versions = this.#store.workflows.get(key) ?? []
    const latest = versions.at(-1)
    // What was deleted is nobody's content: the same again is a new version.
    const isSame = latest?.deletedAt === null && latest.definition === workflow.definition
    const before = latest && { version: versions.length, hash: isSame ? latest.hash : "" }
    const next = nextVersion(before, workflow.hash)
    if (latest !== undefined && next.unchanged) return { ...latest, ...next }
    const stored = { pushedBy: null, rules: 1, ...workflow, deletedAt: null }
    versions.push(stored)
    this.#store.workflows.set(key, versions)
    return { ...stored, ...next }
  }

  async readWorkflow(key: { readonly owner: string; readonly name: string; readonly version?: number }) {
    const versions = this.#store.workflows.get(pair(key.owner, key.name)) ?? []
    const version = key.version ?? versions.findLastIndex(({ deletedAt }) => deletedAt === null) + 1
    const found = versions[version - 1]
    return found ? { ...found, version, unchanged: false } : null
  }

  async claimKey(claim: port.KeyClaim) {
    const { keys } = this.#store
    const key = pair(claim.owner, claim.key)
    const winner = keys.get(key) ?? { ...claim }
    keys.set(key, winner)
    return winner
  }

  async beat({ engine, place, beat, follows }: port.EngineBeat): Promise<port.Pulse> {
    const { engines, partitions, inbox } = this.#store
    engines.set(engine, { place, beat, follows, purgedBeat: engines.get(engine)?.purgedBeat ?? null })
    const open = new Set([...inbox.values()].filter(isOpen).map(message => message.partition))
    const others = (await this.readEngines()).filter(row => row.engine !== engine)
    return {
      engines: others,
      partitions: await this.readPartitions(),
      inbox: [...partitions.keys()].filter(id => partitions[id]?.owner === engine && open.has(id)),
    }
  }

  async takePartitions(take: { readonly engine: string; readonly expected: readonly port.PartitionEpoch[] }) {
    const taken: port.PartitionEpoch[] = []
    for (const { partition, epoch } of take.expected) {
      const row = this.#store.partitions[partition]
      const mineAlready = row?.epoch === epoch + 1 && row.owner === take.engine
      if (!row || (row.epoch !== epoch && !mineAlready)) continue
      row.owner = take.engine
      row.epoch = epoch + 1
      taken.push({ partition, epoch: row.epoch })
    }
    return taken.sort((a, b) => a.partition - b.partition)
  }

  async releasePartitions(release: {
    readonly engine: string
    readonly held: readonly port.PartitionEpoch[]
  }) {
    for (const { partition, epoch } of release.held) {
      const row = this.#store.partitions[partition]
      if (row?.owner === release.engine && row.epoch === epoch) row.owner = null
    }
  }

  async readEngines(): Promise<port.EngineBeat[]> {
    return [...this.#store.engines].map(([engine, { purgedBeat: _, ...beat }]) => ({ engine, ...beat }))
  }

  async readPartitions(): Promise<port.PartitionRow[]> {
    return this.#store.partitions.map((row, partition) => ({ partition, owner: row.owner, epoch: row.epoch }))
  }

  async leave(engine: string) {
    this.#store.engines.delete(engine)
  }

  async sendMessages(messages: readonly port.NewMessage[]) {
    for (const { command } of messages) checkedJson(command)
    const store = this.#store
    const ids = messages.map(
      message => putMessage(store, message, `sent/${store.messages}`) ?? store.messages,
    )
    this.#notify(messages)
    return ids
  }

  async readMessages(query: { readonly partitions: readonly number[]; readonly limit: number }) {
    const wanted = new Set(query.partitions)
    const open = [...this.#store.inbox.values()].filter(found => wanted.has(found.partition) && isOpen(found))
    return open
      .slice(0, query.limit)
      .map(({ id, partition, jobId, command, sentAt }) => ({ id, partition, jobId, command, sentAt }))
  }

  async readAnswers({ messageIds, forget = [] }: Parameters<port.Journal["readAnswers"]>[0]) {
    const { inbox } = this.#store
    const answers = new Map<number, string>()
    for (const id of messageIds) {
      const answer = inbox.get(id)?.answer ?? null
      if (answer !== null) answers.set(id, answer)
    }
    for (const id of forget) if ((inbox.get(id)?.answer ?? null) !== null) inbox.delete(id)
    return answers
  }

  async withdrawMessage(messageId: number) {
    const message = this.#store.inbox.get(messageId)
    if (!message || message.answer !== null) return false
    message.withdrawn = true
    return true
  }

  async endedJobs(query: Parameters<port.Journal["endedJobs"]>[0]) {
    return endedInMemory(this.#store, query)
  }

  async purge(purge: Parameters<port.Journal["purge"]>[0]) {
    return purgeMemory(this.#store, purge)
  }

  async tidy(tidy: Parameters<port.Journal["tidy"]>[0]) {
    tidyMemory(this.#store, tidy)
  }

  async restored() {
    const { partitions, engines } = this.#store
    for (const row of partitions) {
      row.epoch += RESTORED_EPOCHS
      row.owner = null
    }
    engines.clear()
    this.#store.id = randomUUID()
  }

  async close() {
    this.#closed = true
  }

  async #listen(listener: (partition: number) => void) {
    const { listeners } = this.#store
    listeners.add(listener)
    return async () => void listeners.delete(listener)
  }

  #notify(messages: readonly port.NewMessage[]): void {
    for (const { partition } of messages) {
      for (const listener of this.#opened.listeners) queueMicrotask(() => listener(partition))
    }
  }
}

function withoutLargeOutput(job: port.JobRow): port.JobRow {
  return (job.output?.length ?? 0) <= 32_768 ? job : { ...job, output: null, outputLeftOut: true }
}

function hasLabels(job: port.JobRow, labels: readonly [string, string][]): boolean {
  const own = new Map(Object.entries(JSON.parse(job.labels ?? "{}")))
  return labels.every(([name, value]) => own.get(name) === value)
}

function soonestFirst(a: port.DueJob, b: port.DueJob): number {
  return a.wakeAt - b.wakeAt || (a.id === b.id ? 0 : a.id < b.id ? -1 : 1)
}
