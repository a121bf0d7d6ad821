/**
 * Encodes a batch for `append.sql` as joined text, which the database splits at memory speed
 * (docs/decisions/0005-append-is-one-statement.md).
 */
import { FIELD, json, plain, records } from "../joined-text.ts"
import { messageCauses } from "../message-cause.ts"
import type {
  Batch,
  HeldRow,
  JobChange,
  NewDefinition,
  NewFact,
  NewJob,
  NewMessage,
  PartitionEpoch,
} from "../port/journal.ts"
import type { BegunOperation, LeftBehind } from "../port/providers.ts"
import type { NewFire, ScheduleChange } from "../port/schedules.ts"
import { itemColumn } from "../rows.ts"
import type { AppendStatement, Values } from "./database.ts"

export interface EncodedBatch {
  readonly statement: AppendStatement
  readonly values: Values
}

/** The shortest statement that suffices for this batch, and its parameters. */
export function encodeBatch(batch: Batch, marks: readonly number[]): EncodedBatch {
  const { fences, facts, newJobs, changedJobs, answers, messages, begun = [], left = [] } = batch
  if (batch.schedules !== undefined && batch.schedules.length > 0)
    return { statement: "appendSchedules", values: scheduleValues(batch, marks) }
  if (batch.held !== undefined && batch.held.length > 0)
    return { statement: "appendForks", values: forkValues(batch, marks) }
  if (begun.length + left.length > 0) return { statement: "append", values: allValues(batch, marks) }
  if (answers.length + messages.length > 0)
    return { statement: "appendJobs", values: jobValues(batch, marks) }
  if (newJobs.length > 0 && isQueuedBulk(batch))
    return { statement: "appendQueued", values: queuedValues(batch, marks) }
  if (newJobs.length + changedJobs.length > 0)
    return { statement: "appendRows", values: rowValues(batch, marks) }
  const [fence, fact] = [fences[0], facts[0]]
  const isOne = facts.length === 1 && fences.length === 1 && fact!.partition === fence!.partition
  return isOne
    ? { statement: "appendFact", values: oneFact(fence!, fact!) }
    : { statement: "appendFacts", values: factValues(batch) }
}

/** For a batch that may have been stored before. */
export function encodeAgain(batch: Batch, marks: readonly number[]): EncodedBatch {
  return { statement: "appendAgain", values: scheduleValues(batch, marks) }
}

function epochs(list: readonly PartitionEpoch[]): [partitions: number[], epochs: number[]] {
  return [list.map(({ partition }) => partition), list.map(({ epoch }) => epoch)]
}

function factValues({ fences, facts }: Batch): Values {
  return [...epochs(fences), records(facts, factHead), records(facts, fact => json(fact.data))]
}

function rowValues(batch: Batch, marks: readonly number[]): Values {
  const { newJobs, changedJobs } = batch
  return [...factValues(batch), records(newJobs, newJobRecord), records(changedJobs, jobChangeRecord), marks]
}

/** Nothing but new jobs that wait as rows, each with one fact and all with equal columns. */
function isQueuedBulk({ facts, newJobs, changedJobs }: Batch): boolean {
  const [first] = newJobs
  if (first === undefined || changedJobs.length > 0 || facts.length !== newJobs.length) return false
  for (let i = 0; i < newJobs.length; i++) {
    const job = newJobs[i]!
    if (!isFirstFact(facts[i]!, job) || !isQueuedLike(first, job)) return false
  }
  return true
}

function isFirstFact(fact: NewFact, job: NewJob): boolean {
  const isOfJob = fact.jobId === job.id && fact.seq === job.seq && fact.partition === job.partition
  return isOfJob && fact.type === "job_submitted" && fact.at === job.createdAt
}

function isQueuedLike(first: NewJob, job: NewJob): boolean {
  return (
    job.status === "QUEUED" &&
    job.wakeAt === first.wakeAt &&
    job.workflow === first.workflow &&
    job.workflowVersion === first.workflowVersion &&
    job.owner === first.owner &&
    job.priority === first.priority &&
    job.labels === first.labels &&
    job.submittedBy === first.submittedBy &&
    job.createdAt === job.updatedAt &&
    (job.error ?? job.output ?? job.stats ?? null) === null &&
    (job.parentId ?? job.forkedFrom ?? job.definition) === null
  )
}

function queuedValues({ fences, facts, newJobs }: Batch, marks: readonly number[]): Values {
  const { wakeAt, labels, owner, workflow, workflowVersion, priority, submittedBy } = newJobs[0]!
  const array = (values: readonly (string | number)[]) => `{${values.join(",")}}`
  return [
    ...epochs(fences),
    array(newJobs.map(({ id }) => id)),
    array(newJobs.map(({ partition }) => partition)),
    array(newJobs.map(({ seq }) => seq)),
    array(newJobs.map(({ createdAt }) => createdAt)),
    records(facts, fact => json(fact.data)),
    marks,
    ...[wakeAt, labels, owner, workflow, workflowVersion, priority, submittedBy],
  ]
}

function jobValues(batch: Batch, marks: readonly number[]): Values {
  const { answers, messages } = batch
  return [
    ...rowValues(batch, marks),
    answers.map(answer => answer.messageId),
    records(answers, answer => json(answer.answer)),
    messageRecords(messages),
  ]
}

function allValues(batch: Batch, marks: readonly number[]): Values {
  const { begun = [], left = [] } = batch
  return [...jobValues(batch, marks), records(begun, begunRecord), records(left, leftRecord)]
}

function forkValues(batch: Batch, marks: readonly number[]): Values {
  const { held = [], definitions = [] } = batch
  return [...allValues(batch, marks), records(held, heldRecord), records(definitions, definitionRecord)]
}

function scheduleValues(batch: Batch, marks: readonly number[]): Values {
  const { schedules = [], fires = [] } = batch
  return [...forkValues(batch, marks), records(schedules, scheduleRecord), records(fires, fireRecord)]
}

function scheduleRecord(change: ScheduleChange): string {
  const { partition, id, revision, lastTick, lastJob, nextAt, queuedTick, startedTick } = change
  const ticks = [nextAt ?? "", queuedTick ?? "", startedTick ?? ""]
  return [partition, id, revision, lastTick, lastJob ?? "", ...ticks].join(FIELD)
}

function fireRecord({
  partition,
  scheduleId,
  tick,
  kind,
  at,
  outcome,
  jobId,
  reason,
  count,
}: NewFire): string {
  const cause = reason === null ? "" : plain(reason)
  return [partition, scheduleId, tick, kind, at, outcome, jobId ?? "", cause, count].join(FIELD)
}

function heldRecord({ partition, by, held }: HeldRow): string {
  return [partition, by, plain(held)].join(FIELD)
}

function definitionRecord({ partition, hash, rules, usedAt, definition }: NewDefinition): string {
  return [partition, plain(hash), rules, usedAt, json(definition)].join(FIELD)
}

function oneFact({ partition, epoch }: PartitionEpoch, { jobId, seq, at, type, data }: NewFact): Values {
  return [partition, epoch, jobId, seq, at, plain(type), json(data)]
}

function begunRecord(operation: BegunOperation): string {
  const { partition, provider, externalId, jobId, node, attempt, submittedAt, endedAt, cancelAt } = operation
  const { slotUntil, unseen } = operation
  const times = [submittedAt, endedAt ?? "", cancelAt ?? "", slotUntil ?? ""]
  const place = [jobId, node, itemColumn(operation)]
  const submission = [unseen !== undefined, unseen?.operation ?? 0]
  return [partition, plain(provider), plain(externalId), ...place, attempt, ...times, ...submission].join(
    FIELD,
  )
}

function leftRecord(left: LeftBehind): string {
  const { partition, jobId, node, at, operation, slotUntil } = left
  return [partition, jobId, node ?? "", itemColumn(left), at, operation, slotUntil ?? ""].join(FIELD)
}

function messageRecords(messages: readonly NewMessage[]): string {
  const causes = messageCauses(messages)
  return records(messages, (message, index) =>
    [message.cause?.partition, sentRecord(message, causes[index]!)].join(FIELD),
  )
}

/** Messages that no fact has caused, for `send_messages.sql`. */
export function sentRecords(messages: readonly NewMessage[], causes: readonly string[]): string {
  return records(messages, (message, index) => sentRecord(message, causes[index]!))
}

function sentRecord({ partition, jobId, sentAt, command }: NewMessage, cause: string): string {
  return [partition, jobId, sentAt, cause, json(command)].join(FIELD)
}

function factHead({ partition, seq, jobId, at, type }: NewFact): string {
  return `${partition}${FIELD}${seq}${FIELD}${jobId}${FIELD}${at}${FIELD}${plain(type)}`
}

function jobChangeRecord(job: JobChange): string {
  return [
    job.id,
    job.partition,
    job.seq,
    job.status,
    job.updatedAt,
    job.finishedAt ?? "",
    job.wakeAt ?? "",
    job.output === null ? "" : json(job.output),
    job.error === null ? "" : json(job.error),
    job.fingerprint ?? "",
    job.stats == null ? "" : json(job.stats),
    job.labels === null ? "" : json(job.labels),
  ].join(FIELD)
}

function newJobRecord(job: NewJob): string {
  return [
    jobChangeRecord(job),
    plain(job.owner),
    plain(job.workflow),
    job.workflowVersion,
    job.parentId ?? "",
    job.priority,
    job.createdAt,
    job.submittedBy === null ? "" : plain(job.submittedBy),
    job.forkedFrom ?? "",
    job.definition ?? "",
  ].join(FIELD)
}
