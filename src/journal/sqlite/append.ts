/** `append`: the write behind a fence. It runs inside a transaction of the caller. */

import type * as port from "../port/journal.ts"
import type { BegunOperation, LeftBehind } from "../port/providers.ts"
import { itemColumn } from "../rows.ts"
import { jobKeys } from "../values.ts"
import { freeText, json, type SqliteConnection } from "./database.ts"
import { addDecidedFire, decideSchedule } from "./schedules/store.ts"

/** `causes`: the names of the batch's messages (message-cause.ts); `marks`: its entries (marks.ts). */
export function append(
  connection: SqliteConnection,
  batch: port.Batch,
  causes: readonly string[],
  marks: readonly number[],
): port.AppendResult {
  const held = heldPartitions(connection, batch.fences)
  for (const { messageId } of batch.answers) {
    const message = connection.get<{ partition: number; withdrawn: number }>(
      "select partition, withdrawn from inbox where id = ?",
      messageId,
    )
    if (message?.withdrawn) held.delete(message.partition)
  }
  let inserted = 0
  for (const fact of batch.facts) {
    json(fact.data)
    if (held.has(fact.partition)) inserted += insertFact(connection, fact)
  }
  for (const job of batch.newJobs) {
    checkJob(job)
    if (held.has(job.partition)) insertJob(connection, job)
  }
  for (const job of batch.changedJobs) {
    checkJob(job)
    if (held.has(job.partition)) changeJob(connection, job)
  }
  if (held.size > 0) insertMarks(connection, marks)
  for (const { messageId, answer, partition } of batch.answers) {
    json(answer)
    if (held.has(partition))
      connection.run(
        "update inbox set answer = ? where id = ? and partition = ? and answer is null",
        answer,
        messageId,
        partition,
      )
  }
  batch.messages.forEach((message, index) => {
    json(message.command)
    if (held.has(message.cause!.partition)) insertMessage(connection, message, causes[index]!)
  })
  for (const operation of batch.begun ?? [])
    if (held.has(operation.partition)) beginOperation(connection, operation)
  for (const left of batch.left ?? []) if (held.has(left.partition)) leaveOperation(connection, left)
  for (const row of batch.held ?? []) if (held.has(row.partition)) hold(connection, row)
  for (const definition of batch.definitions ?? [])
    if (held.has(definition.partition)) insertDefinition(connection, definition)
  for (const fire of batch.fires ?? []) if (held.has(fire.partition)) addDecidedFire(connection, fire)
  for (const change of batch.schedules ?? [])
    if (held.has(change.partition)) decideSchedule(connection, change)
  return { held, inserted }
}

function hold(connection: SqliteConnection, { held, by }: port.HeldRow): void {
  connection.run("insert into held (held, by) values (?, ?) on conflict do nothing", freeText(held), by)
}

function insertDefinition(connection: SqliteConnection, row: port.NewDefinition): void {
  const { hash, rules, usedAt, definition } = row
  json(definition)
  connection.run(
    `insert into definitions (hash, rules, used_at, definition) values (?, ?, ?, ?)
     on conflict (hash) do update set used_at = max(used_at, excluded.used_at)`,
    hash,
    rules,
    usedAt,
    definition,
  )
}

/** The partitions whose epoch is still the expected one. */
export function heldPartitions(
  connection: SqliteConnection,
  fences: readonly port.PartitionEpoch[],
): Set<number> {
  const held = new Set<number>()
  for (const { partition, epoch } of fences) {
    const row = connection.get<{ epoch: number }>("select epoch from partitions where id = ?", partition)
    if (row?.epoch === epoch) held.add(partition)
  }
  return held
}

const INSERT_FACT = `
insert into journal (job_id, seq, at, partition, bytes, type, data) values (?, ?, ?, ?, ?, ?, ?)
on conflict (job_id, seq) do nothing`

/** 0: it already exists. */
function insertFact(connection: SqliteConnection, fact: port.NewFact): number {
  const { jobId, seq, at, partition, type, data } = fact
  return connection.run(INSERT_FACT, jobId, seq, at, partition, Buffer.byteLength(data), freeText(type), data)
}

function checkJob({ output, error, labels }: port.JobChange): void {
  if (labels !== null) json(labels)
  if (output !== null) json(output)
  if (error !== null) json(error)
}

const INSERT_JOB = `
insert into jobs (${jobKeys.map(columnName).join(", ")}) values (${jobKeys.map(() => "?").join(", ")})
on conflict (id) do nothing`

function columnName(key: string): string {
  return key.replaceAll(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
}

function insertJob(connection: SqliteConnection, job: port.NewJob): void {
  for (const text of [job.owner, job.workflow, job.submittedBy ?? ""]) freeText(text)
  connection.run(INSERT_JOB, ...jobKeys.map(key => job[key] ?? null))
}

const changes = `seq = ?1, status = ?2, updated_at = ?3, finished_at = ?4, wake_at = ?5, output = ?6, error = ?7,
  fingerprint = ?8, labels = ?9`
const CHANGE_JOB = `update jobs set ${changes} where id = ?10 and seq < ?1`
const END_JOB = `update jobs set ${changes}, stats = ?11 where id = ?10 and seq < ?1`

function changeJob(connection: SqliteConnection, job: port.JobChange): void {
  const { seq, status, updatedAt, finishedAt, wakeAt, output, error, fingerprint, labels, id, stats } = job
  const values = [seq, status, updatedAt, finishedAt, wakeAt, output, error, fingerprint, labels, id] as const
  if (stats == null) connection.run(CHANGE_JOB, ...values)
  else connection.run(END_JOB, ...values, stats)
}

/** Entries may be too many, never too few: those of a partition that is not held do no harm. */
export function insertMarks(connection: SqliteConnection, marks: readonly number[]): void {
  for (let at = 0; at < marks.length; at += 2)
    connection.run(
      "insert into job_marks (mark, place) values (?, ?) on conflict do nothing",
      marks[at]!,
      marks[at + 1]!,
    )
}

const INSERT_MESSAGE = `
insert into inbox (partition, job_id, sent_at, cause, command) values (?, ?, ?, ?, ?)
on conflict (cause) do nothing`

export function insertMessage(connection: SqliteConnection, message: port.NewMessage, cause: string): void {
  const { partition, jobId, sentAt, command } = message
  connection.run(INSERT_MESSAGE, partition, jobId, sentAt, cause, command)
}

const BEGIN_OPERATION = `
insert into operations (
  partition, provider, external_id, job_id, node, item, attempt, submitted_at, ended_at, cancel_at,
  slot_until, unseen, operation
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (provider, external_id, job_id, node, item) do update
set
  attempt = excluded.attempt, ended_at = excluded.ended_at, cancel_at = excluded.cancel_at,
  slot_until = excluded.slot_until`

function beginOperation(connection: SqliteConnection, operation: BegunOperation): void {
  const { partition, provider, externalId, jobId, node, attempt, submittedAt, endedAt, cancelAt } = operation
  connection.run(
    BEGIN_OPERATION,
    partition,
    freeText(provider),
    freeText(externalId),
    jobId,
    node,
    itemColumn(operation),
    attempt,
    submittedAt,
    endedAt,
    cancelAt,
    operation.slotUntil ?? null,
    operation.unseen === undefined ? 0 : 1,
    operation.unseen?.operation ?? 0,
  )
}

const END_OPERATION = `
update operations
set ended_at = ?4, cancel_at = ?5, slot_until = ?6
where job_id = ?1 and node = ?2 and item = ?3 and ended_at is null and unseen = 0`

/**
 * The operation of a node ends with these facts, and its slot is released; without a node: all slots of the
 * job.
 */
function leaveOperation(connection: SqliteConnection, left: LeftBehind): void {
  const { jobId, node, at, operation, slotUntil } = left
  if (node === null) {
    connection.run("delete from slots where job_id = ?", jobId)
    return
  }
  const item = itemColumn(left)
  const cancelAt = operation === "cancel" ? at : null
  if (operation !== "none") connection.run(END_OPERATION, jobId, node, item, at, cancelAt, slotUntil ?? null)
  connection.run("delete from slots where job_id = ? and node = ? and item = ?", jobId, node, item)
}
