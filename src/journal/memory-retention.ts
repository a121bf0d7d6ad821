/** Retention in memory: what `ended_jobs.sql`, `purge.sql` and `tidy.sql` do. */
import { isOpen, type MemoryStore } from "./memory-store.ts"
import type * as port from "./port.ts"

export function endedInMemory(store: MemoryStore, query: Parameters<port.Journal["endedJobs"]>[0]): string[] {
  const partitions = new Set(query.partitions)
  const isThere = (id: string | null) => id !== null && store.jobs.has(id)
  return [...store.jobs.values()]
    .filter(job => partitions.has(job.partition) && endedBefore(job, query.before) && !isThere(job.parentId))
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
  }
  for (const partition of held)
    store.feed[partition] = store.feed[partition]!.filter(fact => store.facts.has(fact.jobId))
  return removed.length
}

export function tidyMemory(
  store: MemoryStore,
  { before, silentSince }: Parameters<port.Journal["tidy"]>[0],
): void {
  for (const [key, claim] of store.keys) if (claim.createdAt < before) store.keys.delete(key)
  for (const message of store.inbox.values()) {
    if (isOpen(message) || message.sentAt >= before) continue
    store.inbox.delete(message.id)
    store.causes.delete(message.cause)
  }
  const kept = store.events.filter(({ receivedAt }) => receivedAt >= before)
  store.events.splice(0, store.events.length, ...kept)
  const owners = new Set(store.partitions.map(row => row.owner))
  for (const [id, engine] of store.engines) {
    const isSilent = engine.beat === engine.purgedBeat && engine.beat <= silentSince
    if (isSilent && !owners.has(id)) store.engines.delete(id)
    engine.purgedBeat = engine.beat
  }
}
