/** A store in memory as tests look at it and change it, without any engine knowing. */
import type { EngineBeat, FactRow, JobRow, PartitionRow } from "../../src/journal/port/journal.ts"
import type { MemoryStore } from "../../src/journal/sqlite/memory.ts"

export function storeId(store: MemoryStore): string {
  return store.stores.feed.position().store
}

export function storedPartitions(store: MemoryStore): PartitionRow[] {
  return store.stores.journal.readPartitions()
}

export function partitionAt(store: MemoryStore, partition: number): PartitionRow {
  return storedPartitions(store)[partition]!
}

export function setPartition(store: MemoryStore, { partition, owner, epoch }: PartitionRow): void {
  const sql = "update partitions set owner = ?, epoch = ? where id = ?"
  store.connection.run(sql, owner, epoch, partition)
}

/** Somebody takes a partition: whoever had it is fenced. */
export function seizePartition(store: MemoryStore, partition: number, owner: string | null): void {
  setPartition(store, { partition, owner, epoch: partitionAt(store, partition).epoch + 1 })
}

/** From partition `from` on. The epochs stay. */
export function setOwner(store: MemoryStore, owner: string | null, from = 0): void {
  store.connection.run("update partitions set owner = ? where id >= ?", owner, from)
}

export function putEngine(store: MemoryStore, engine: EngineBeat): void {
  store.stores.journal.beat(engine)
}

export function hasEngine(store: MemoryStore, engine: string): boolean {
  return store.connection.get("select 1 from engines where id = ?", engine) !== undefined
}

export function jobsOf(store: MemoryStore): JobRow[] {
  const rows = store.connection.all<{ id: string }>("select id from jobs order by id")
  return rows.map(({ id }) => jobOf(store, id)!)
}

export function unfinishedJobsOf(store: MemoryStore): JobRow[] {
  const sql = "select id from jobs where finished_at is null order by id"
  return store.connection.all<{ id: string }>(sql).map(({ id }) => jobOf(store, id)!)
}

export function jobOf(store: MemoryStore, id: string): JobRow | null {
  return store.stores.journal.readJob(id)
}

export function setJob(store: MemoryStore, job: JobRow): void {
  const sql =
    "update jobs set seq = ?, status = ?, updated_at = ?, finished_at = ?, wake_at = ?, output = ?, error = ? where id = ?"
  const { seq, status, updatedAt, finishedAt, wakeAt, output, error, id } = job
  store.connection.run(sql, seq, status, updatedAt, finishedAt, wakeAt, output, error, id)
}

/** With its facts. */
export function removeJob(store: MemoryStore, id: string): void {
  store.connection.run("delete from jobs where id = ?", id)
  store.connection.run("delete from journal where job_id = ?", id)
}

export function factsOf(store: MemoryStore, jobId: string): FactRow[] {
  return store.stores.journal.readFacts([jobId])
}

export function allFacts(store: MemoryStore): { jobId: string; seq: number }[] {
  return store.connection.all("select job_id as jobId, seq from journal")
}

export function removeFact(store: MemoryStore, { jobId, seq }: FactRow): void {
  store.connection.run("delete from journal where job_id = ? and seq = ?", jobId, seq)
}

/** How many messages were ever sent. */
export function messagesSent(store: MemoryStore): number {
  const sql = "select seq from sqlite_sequence where name = 'inbox'"
  return store.connection.get<{ seq: number }>(sql)?.seq ?? 0
}

export function inboxOf(store: MemoryStore): { withdrawn: boolean; answer: string | null }[] {
  const rows = store.connection.all<{ withdrawn: number; answer: string | null }>(
    "select withdrawn, answer from inbox order by id",
  )
  return rows.map(({ withdrawn, answer }) => ({ withdrawn: Boolean(withdrawn), answer }))
}

export function keysOf(store: MemoryStore): { key: string; jobId: string }[] {
  return store.connection.all("select key, job_id as jobId from idempotency_keys order by key")
}
