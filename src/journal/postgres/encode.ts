/**
 * Encodes a batch for `append.sql`: records joined by U+001E, their fields by U+001F, numbers as array
 * literals. JSON text contains neither character unescaped, so nothing needs quoting and the database splits
 * it at memory speed (docs/decisions/0005-append-is-one-statement.md). Invariant: a field that contains one
 * of them is rejected here; otherwise it would shift every record after it.
 */

import { JournalDataError } from "../errors.ts"
import { messageCauses } from "../message-cause.ts"
import type { Batch, JobChange, NewFact, NewJob, NewMessage, PartitionEpoch } from "../port/journal.ts"
import type { BegunOperation, LeftBehind } from "../port/providers.ts"
import type { AppendStatement, Parameters } from "./database.ts"

const RECORD = "\u001e"
export const FIELD = "\u001f"

/** The shortest statement that suffices for this batch, and its parameters. */
export function encodeBatch(batch: Batch): { statement: AppendStatement; parameters: Parameters } {
  const factsAlone = holdsFactsAlone(batch)
  const [fence, fact] = [batch.fences[0], batch.facts[0]]
  const isOne = factsAlone && batch.facts.length === 1 && batch.fences.length === 1
  if (isOne && fact!.partition === fence!.partition) {
    return { statement: "appendFact", parameters: oneFact(fence!, fact!) }
  }
  if (factsAlone) return { statement: "appendFacts", parameters: factParameters(batch) }
  return hasOperations(batch)
    ? { statement: "append", parameters: allParameters(batch) }
    : { statement: "appendJobs", parameters: jobParameters(batch) }
}

/** For a batch that may have been stored before. */
export function encodeAgain(batch: Batch): { statement: AppendStatement; parameters: Parameters } {
  return { statement: "appendAgain", parameters: allParameters(batch) }
}

function factParameters({ fences, facts }: Batch): Parameters {
  return [
    arrayLiteral(fences.map(fence => fence.partition)),
    arrayLiteral(fences.map(fence => fence.epoch)),
    records(facts, factHead),
    records(facts, fact => json(fact.data)),
  ]
}

function jobParameters(batch: Batch): Parameters {
  const { newJobs, changedJobs, answers, messages } = batch
  return [
    ...factParameters(batch),
    records(newJobs, newJobRecord),
    records(changedJobs, jobChangeRecord),
    arrayLiteral(answers.map(answer => answer.messageId)),
    records(answers, answer => json(answer.answer)),
    messageRecords(messages),
  ]
}

function allParameters(batch: Batch): Parameters {
  const { begun = [], left = [] } = batch
  return [...jobParameters(batch), records(begun, begunRecord), records(left, leftRecord)]
}

function oneFact({ partition, epoch }: PartitionEpoch, { jobId, seq, at, type, data }: NewFact): Parameters {
  return [`${partition}`, `${epoch}`, jobId, `${seq}`, `${at}`, plain(type), json(data)]
}

function holdsFactsAlone(batch: Batch): boolean {
  const { newJobs, changedJobs, answers, messages } = batch
  return [newJobs, changedJobs, answers, messages].every(part => part.length === 0) && !hasOperations(batch)
}

function hasOperations({ begun = [], left = [] }: Batch): boolean {
  return begun.length + left.length > 0
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

/** -1: the node itself. */
export function itemColumn({ item = -1 }: { readonly item?: number | undefined }): number {
  return item
}

/** Numbers and UUIDs only: they need no quotes. */
export function arrayLiteral(values: readonly (number | string)[]): string {
  return `{${values.join(",")}}`
}

/** Every value quoted: for texts from outside. */
export function textArrayLiteral(values: readonly string[]): string {
  return `{${values.map(value => `"${value.replaceAll(/["\\]/g, "\\$&")}"`).join(",")}}`
}

function messageRecords(messages: readonly NewMessage[]): string {
  const causes = messageCauses(messages)
  return records(messages, (message, index) =>
    [
      message.cause?.partition,
      message.partition,
      message.jobId,
      message.sentAt,
      causes[index],
      json(message.command),
    ].join(FIELD),
  )
}

/** Messages that no fact has caused, for `send_messages.sql`. */
export function sentRecords(messages: readonly NewMessage[], causes: readonly string[]): string {
  return records(messages, ({ partition, jobId, sentAt, command }, index) =>
    [partition, jobId, sentAt, causes[index], json(command)].join(FIELD),
  )
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
  ].join(FIELD)
}

function newJobRecord(job: NewJob): string {
  return [
    jobChangeRecord(job),
    plain(job.owner),
    plain(job.workflow),
    job.workflowVersion,
    job.parentId ?? "",
    job.labels === null ? "" : json(job.labels),
    job.priority,
    job.createdAt,
    job.submittedBy === null ? "" : plain(job.submittedBy),
  ].join(FIELD)
}

export function records<T>(items: readonly T[], record: (item: T, index: number) => string): string {
  return items.length === 0 ? "" : items.map(record).join(RECORD)
}

/** Empty text is not JSON either, and would be read as "no value". */
export function json(text: string): string {
  if (text === "")
    throw new JournalDataError("an empty text is not JSON; use JSON.stringify to create what can be stored")
  return plain(text)
}

export function plain(text: string): string {
  if (!text.includes(RECORD) && !text.includes(FIELD)) return text
  throw new JournalDataError(
    "a stored text contains the control character U+001E or U+001F; remove it, or escape it in JSON",
  )
}
