import {
  commitToMemory,
  findMessage,
  indexBehind,
  type StoredExecution,
  type StoredParked,
} from "./memory-pipelines.ts"
import { trimInMemory } from "./memory-retention.ts"
import type { MemoryStore } from "./memory-store.ts"
import { inKeyOrder, inLineageOrder, nameOf, storedKey } from "./pipeline-rules.ts"
import type {
  DeadLetterRow,
  ExecutionRow,
  LineageRow,
  MessageKey,
  MessageRow,
  ParkedState,
  PipelineCommit,
  PipelineStore,
  ReplayedRow,
} from "./pipeline-store.ts"

/** Pipelines in memory. Every verb reads and writes without an await in between. */
export class MemoryPipelineStore implements PipelineStore {
  readonly #store: () => MemoryStore

  /** `store` refuses once the journal is closed. */
  constructor(store: () => MemoryStore) {
    this.#store = store
  }

  async claimExecution(claim: Parameters<PipelineStore["claimExecution"]>[0]): Promise<number | null> {
    const { executions } = this.#store()
    const { jobId, at, limit } = claim
    const taken = [...executions.values()].filter(execution => this.#isTaken(execution, claim))
    const held = taken.find(execution => execution.jobId === jobId)
    if (held !== undefined) return held.execution
    if (taken.length >= limit) return null
    const known = this.#ofJob(jobId)
    if (known !== undefined) {
      known.claimedAt = at
      known.endedAt = null
      return known.execution
    }
    const execution = ++this.#store().lastExecution
    executions.set(execution, newExecution(execution, jobId, at))
    return execution
  }

  /** As `pipeline_claim.sql` says. */
  #isTaken({ jobId, claimedAt, endedAt }: StoredExecution, { at, claimMs }: { at: number; claimMs: number }) {
    if (endedAt !== null) return false
    const job = this.#store().jobs.get(jobId)
    if (job !== undefined && job.finishedAt === null) return true
    return claimedAt > at - claimMs && claimedAt > (job?.finishedAt ?? -1)
  }

  async readExecution(jobId: string): Promise<ExecutionRow | null> {
    const found = this.#ofJob(jobId)
    if (found === undefined) return null
    const { execution, commit, progress, endedAt } = found
    return { execution, jobId, commit, progress, endedAt }
  }

  async endExecution({ jobId, at }: Parameters<PipelineStore["endExecution"]>[0]): Promise<void> {
    const execution = this.#ofJob(jobId)
    if (execution !== undefined) execution.endedAt ??= at
  }

  async commit(commit: PipelineCommit) {
    return commitToMemory(this.#store(), commit)
  }

  async readMessages(query: Parameters<PipelineStore["readMessages"]>[0]): Promise<MessageRow[]> {
    const { execution, route, after, limit, maxBytes } = query
    const queue = this.#store().executions.get(execution)?.queues.get(route) ?? []
    const index = indexBehind(queue, after)
    return withinBytes(queue.slice(index, index + limit), maxBytes)
  }

  async findMessages(execution: number, keys: readonly MessageKey[]): Promise<MessageRow[]> {
    const asked = new Map(keys.map(key => [nameOf(key), key]))
    return [...asked.values()].flatMap(key => this.#message(execution, key))
  }

  async readRetries(query: Parameters<PipelineStore["readRetries"]>[0]) {
    const { execution, route, dueBy, after = { dueAt: -1, seq: -1 }, limit, maxBytes } = query
    const waiting = this.#waiting(execution, route)
      .filter(state => state.dueAt <= dueBy && soonestFirst(state, after) > 0)
      .slice(0, limit)
    const rows = waiting.flatMap(({ attempts, dueAt, ...key }) =>
      this.#message(execution, key).map(message => ({ ...message, attempts, dueAt })),
    )
    return withinBytes(rows, maxBytes)
  }

  async listDeadLetters(query: Parameters<PipelineStore["listDeadLetters"]>[0]): Promise<DeadLetterRow[]> {
    const { execution, route, after, limit } = query
    const page = this.#dead(execution)
      .filter(row => route === undefined || row.route === route)
      .filter(row => after === undefined || inKeyOrder(row, after) > 0)
      .slice(0, limit)
    return page.flatMap(row => {
      const { attempts, at: failedAt, error, replayedBy } = row
      return this.#message(execution, row).map(found => ({ ...found, attempts, failedAt, error, replayedBy }))
    })
  }

  async deadLettersLeft({ execution, most }: Parameters<PipelineStore["deadLettersLeft"]>[0]) {
    const left = this.#dead(execution)
      .filter(({ replayedBy }) => replayedBy === null)
      .slice(0, most)
    const [first] = left
    if (first === undefined) return { count: 0, first: null }
    return { count: left.length, first: { route: first.route, seq: first.seq, error: first.error } }
  }

  async claimDeadLetters(claim: Parameters<PipelineStore["claimDeadLetters"]>[0]): Promise<number> {
    const { execution, replayedBy, at, claimMs } = claim
    const asked = claim.keys === null ? null : new Set(claim.keys.map(nameOf))
    const dead = this.#dead(execution)
    for (const row of dead) {
      if (asked?.has(nameOf(row)) === false || row.replayedBy === replayedBy) continue
      const isLate = row.replayedAt <= at - claimMs && !this.#store().jobs.has(row.replayedBy ?? "")
      if (row.replayedBy !== null && !isLate) continue
      row.replayedBy = replayedBy
      row.replayedAt = at
    }
    return dead.filter(row => row.replayedBy === replayedBy).length
  }

  async readReplayed(query: Parameters<PipelineStore["readReplayed"]>[0]): Promise<ReplayedRow[]> {
    const { replayedBy, after, limit } = query
    const all = [...this.#store().executions.keys()].flatMap(execution =>
      this.#dead(execution)
        .filter(row => row.replayedBy === replayedBy)
        .map(({ route, seq }) => ({ execution, route, seq })),
    )
    const page = all
      .sort(byExecution)
      .filter(key => after === undefined || byExecution(key, after) > 0)
      .slice(0, limit)
    return page.flatMap(({ execution, ...key }) =>
      this.#message(execution, key).map(message => ({ ...message, execution })),
    )
  }

  async countReplayedBefore(letter: Parameters<PipelineStore["countReplayedBefore"]>[0]): Promise<number> {
    return this.#replayed(letter).filter(({ seq }) => seq < letter.seq).length
  }

  async findReplayed(query: Parameters<PipelineStore["findReplayed"]>[0]): Promise<MessageKey | null> {
    const found = this.#replayed(query)[query.before]
    return found === undefined ? null : { route: found.route, seq: found.seq }
  }

  #replayed({ execution, route, replayedBy }: { execution: number; route: number; replayedBy: string }) {
    return this.#dead(execution).filter(row => row.route === route && row.replayedBy === replayedBy)
  }

  async readLineage(query: Parameters<PipelineStore["readLineage"]>[0]): Promise<LineageRow[]> {
    const lineage = this.#store().executions.get(query.execution)?.lineage
    const names = [...new Set(query.keys.map(nameOf))]
    const found = names.flatMap(name => lineage?.get(name) ?? [])
    return found.sort(inLineageOrder).slice(0, query.limit)
  }

  async readGathered(query: Parameters<PipelineStore["readGathered"]>[0]): Promise<MessageKey[]> {
    const lineage = this.#store().executions.get(query.execution)?.lineage ?? new Map()
    const into = new Set(query.into.map(nameOf))
    const found = [...lineage.values()].flatMap((rows: LineageRow[]) => {
      const row = rows.find(({ route, into: seq }) => seq !== null && into.has(nameOf({ route, seq })))
      return row === undefined ? [] : [{ route: row.route, seq: row.seq }]
    })
    return found.sort(inKeyOrder).slice(0, query.limit)
  }

  async readStored(execution: number, keys: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const stored = this.#store().executions.get(execution)?.stored
    const found = new Map<string, string>()
    for (const key of keys) {
      const value = stored?.get(storedKey(key))
      if (value !== undefined) found.set(key, value)
    }
    return found
  }

  async purgeLineage(purge: Parameters<PipelineStore["purgeLineage"]>[0]): Promise<number> {
    return trimInMemory(this.#store(), purge)
  }

  #ofJob(jobId: string): StoredExecution | undefined {
    return [...this.#store().executions.values()].find(execution => execution.jobId === jobId)
  }

  #message(execution: number, key: MessageKey): MessageRow[] {
    const known = this.#store().executions.get(execution)
    const message = known && findMessage(known, key)
    return message ? [message] : []
  }

  #parked(execution: number): StoredParked[] {
    return [...(this.#store().executions.get(execution)?.parked.values() ?? [])]
  }

  #dead(execution: number): StoredParked[] {
    return this.#parked(execution)
      .filter(({ dueAt }) => dueAt === null)
      .sort(inKeyOrder)
  }

  #waiting(execution: number, route: number): (MessageKey & ParkedState)[] {
    const waiting = this.#parked(execution).flatMap(({ seq, attempts, dueAt, ...row }) =>
      row.route === route && dueAt !== null ? [{ route, seq, attempts, dueAt }] : [],
    )
    return waiting.sort(soonestFirst)
  }
}

function newExecution(execution: number, jobId: string, claimedAt: number): StoredExecution {
  return {
    execution,
    jobId,
    claimedAt,
    endedAt: null,
    commit: 0,
    progress: null,
    queues: new Map(),
    lineage: new Map(),
    parked: new Map(),
    stored: new Map(),
  }
}

type Due = { readonly dueAt: number; readonly seq: number }

function soonestFirst(a: Due, b: Due): number {
  return a.dueAt - b.dueAt || a.seq - b.seq
}

type ExecutionKey = MessageKey & { readonly execution: number }

function byExecution(a: ExecutionKey, b: ExecutionKey): number {
  return a.execution - b.execution || inKeyOrder(a, b)
}

/** As many as have no more bytes together; the first in any case. */
function withinBytes<T extends MessageRow>(rows: readonly T[], maxBytes: number): T[] {
  let total = 0
  return rows.filter((row, index) => {
    total += Buffer.byteLength(row.body)
    return index === 0 || total <= maxBytes
  })
}
