/** Retention in memory: what `ended_jobs.sql`, `purge.sql`, `tidy.sql` and `pipeline_trim.sql` do. */

import type { StoredExecution } from "./memory-pipelines.ts"
import { claimKey } from "./memory-provider-store.ts"
import { isOpen, type MemoryStore } from "./memory-store.ts"
import { ABANDONED_MS, nameOf } from "./pipeline-rules.ts"
import type * as port from "./port.ts"

export function endedInMemory(store: MemoryStore, query: Parameters<port.Journal["endedJobs"]>[0]): string[] {
  const partitions = new Set(query.partitions)
  const isThere = (id: string | null) => id !== null && store.jobs.has(id)
  const toCancel = new Set(
    [...store.operations.values()].flatMap(({ jobId, cancelAt, unseen }) =>
      cancelAt === null && unseen === undefined ? [] : jobId,
    ),
  )
  const isSettled = (job: port.JobRow) =>
    job.wakeAt === null && (!toCancel.has(job.id) || endedBefore(job, query.unsettledBefore))
  return [...store.jobs.values()]
    .filter(job => partitions.has(job.partition) && endedBefore(job, query.before) && !isThere(job.parentId))
    .filter(isSettled)
    .sort((a, b) => (a.finishedAt ?? 0) - (b.finishedAt ?? 0))
    .slice(0, query.limit)
    .map(job => job.id)
}

function endedBefore({ finishedAt }: port.JobRow, time: number): boolean {
  return finishedAt !== null && finishedAt < time
}

export function purgeMemory(store: MemoryStore, purge: Parameters<port.Journal["purge"]>[0]): number {
  const current = purge.fences.filter(({ partition, epoch }) => store.partitions[partition]?.epoch === epoch)
  const held = new Set(current.map(({ partition }) => partition))
  const ended = purge.jobIds.flatMap(id => store.jobs.get(id) ?? [])
  const removed = ended.filter(job => held.has(job.partition) && endedBefore(job, purge.before))
  for (const job of removed) {
    store.jobs.delete(job.id)
    store.facts.delete(job.id)
    store.waiting[job.partition]?.delete(job.id)
    for (const [key, { jobId }] of store.operations) if (jobId === job.id) store.operations.delete(key)
    for (const [key, { jobId }] of store.slots) if (jobId === job.id) store.slots.delete(key)
    for (const [key, { jobId }] of store.executions) if (jobId === job.id) store.executions.delete(key)
  }
  for (const partition of held)
    store.feed[partition] = store.feed[partition]!.filter(fact => store.facts.has(fact.jobId))
  return removed.length
}

export function tidyMemory(
  store: MemoryStore,
  { before, unsettledBefore, silentSince }: Parameters<port.Journal["tidy"]>[0],
): void {
  for (const [key, { createdAt, jobId }] of store.keys)
    if (createdAt < before && !store.jobs.has(jobId)) store.keys.delete(key)
  for (const message of store.inbox.values()) {
    if (isOpen(message) || message.sentAt >= before) continue
    store.inbox.delete(message.id)
    store.causes.delete(message.cause)
  }
  const recorded = new Set([...store.operations.values()].map(claimKey))
  for (const [key, { claimedAt }] of store.claims)
    if (claimedAt < before && !recorded.has(key)) store.claims.delete(key)
  const keptFrom = ({ verdict }: { verdict: string }) =>
    verdict === "parked" ? Math.min(before, unsettledBefore) : before
  const kept = store.events.filter(event => event.receivedAt >= keptFrom(event))
  store.events.splice(0, store.events.length, ...kept)
  const owners = new Set(store.partitions.map(row => row.owner))
  for (const [id, engine] of store.engines) {
    const isSilent = engine.beat === engine.purgedBeat && engine.beat <= silentSince
    if (isSilent && !owners.has(id)) store.engines.delete(id)
    engine.purgedBeat = engine.beat
  }
}

/** Lineage of executions that ended before then, and the messages that it is about, but for those that are parked. */
export function trimInMemory(
  store: MemoryStore,
  { before, limit }: { readonly before: number; readonly limit: number },
): number {
  settleExecutions(store, before)
  let gone = 0
  for (const execution of store.executions.values()) {
    // One alone might take its message along.
    if (gone > 0 && limit - gone < 2) break
    if (execution.endedAt !== null && execution.endedAt < before) gone += trim(execution, limit - gone)
  }
  return gone
}

/** Whose job has ended though nobody said so; and claims whose job was never stored. */
function settleExecutions({ executions, jobs }: MemoryStore, before: number): void {
  for (const [id, execution] of executions) {
    if (execution.endedAt !== null) continue
    const job = jobs.get(execution.jobId)
    if (job === undefined && execution.claimedAt < before - ABANDONED_MS) executions.delete(id)
    const finishedAt = job?.finishedAt ?? -1
    if (finishedAt >= execution.claimedAt) execution.endedAt = finishedAt
  }
}

/** A message may go with each row of lineage, so half of the limit are rows of lineage. */
function trim({ queues, lineage, parked }: StoredExecution, limit: number): number {
  const page = Math.max(1, Math.floor(limit / 2))
  let left = page
  const trimmed = new Set<string>()
  for (const [name, rows] of lineage) {
    if (left === 0) break
    left -= rows.splice(0, left).length
    if (rows.length === 0) lineage.delete(name)
    if (!parked.has(name)) trimmed.add(name)
  }
  let gone = page - left
  for (const [route, queue] of trimmed.size === 0 ? [] : queues) {
    const kept = queue.filter(message => !trimmed.has(nameOf(message)))
    gone += queue.length - kept.length
    queues.set(route, kept)
  }
  return gone
}
