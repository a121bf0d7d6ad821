/**
 * `append` in memory: first everything is checked, then everything is written, without an await in between. So it is
 * as atomic as the one statement it stands for.
 */
import { JournalDataError } from "./errors.ts"
import { addToFeed } from "./memory-feed.ts"
import { isSame, operationKey } from "./memory-provider-store.ts"
import { isOpen, type MemoryStore } from "./memory-store.ts"
import { messageCauses } from "./message-cause.ts"
import type * as port from "./port.ts"
import type { LeftBehind, SlotKey } from "./provider-store.ts"

export function appendToMemory(store: MemoryStore, batch: port.Batch): port.AppendResult {
  const causes = checkBatch(batch)
  const held = heldPartitions(store, batch)
  let inserted = 0
  for (const fact of batch.facts) if (held.has(fact.partition) && insertFact(store, fact)) inserted++
  for (const job of batch.newJobs)
    if (held.has(job.partition) && !store.jobs.has(job.id)) putJob(store, { ...job })
  for (const change of batch.changedJobs) if (held.has(change.partition)) changeJob(store, change)
  for (const { messageId, answer } of batch.answers) {
    const message = store.inbox.get(messageId)
    if (message && held.has(message.partition) && isOpen(message)) message.answer = answer
  }
  batch.messages.forEach((message, index) => {
    const cause = causes[index]
    if (cause !== undefined && message.cause && held.has(message.cause.partition))
      putMessage(store, message, cause)
  })
  for (const operation of batch.begun ?? [])
    if (held.has(operation.partition))
      store.operations.set(operationKey(operation), {
        ...operation,
        slotUntil: operation.slotUntil ?? null,
        tries: 0,
      })
  for (const left of batch.left ?? []) if (held.has(left.partition)) leave(store, left)
  return { held, inserted }
}

/** Throws when the data is not to be stored; else the messages' causes. */
export function checkBatch(batch: port.Batch): ReturnType<typeof messageCauses> {
  checkJson(batch)
  return messageCauses(batch.messages)
}

function leave(store: MemoryStore, left: LeftBehind): void {
  const { jobId, node, at, operation } = left
  const isLeft = (slot: SlotKey) => node !== null && isSame(slot, { ...left, node })
  for (const known of operation === "none" ? [] : store.operations.values()) {
    if (!isLeft(known) || known.endedAt !== null || known.unseen !== undefined) continue
    known.endedAt = at
    known.cancelAt = operation === "cancel" ? at : null
    known.slotUntil = left.slotUntil ?? null
  }
  for (const [key, slot] of store.slots)
    if (node === null ? slot.jobId === jobId : isLeft(slot)) store.slots.delete(key)
}

/** null: it was there already. */
export function putMessage(store: MemoryStore, message: port.NewMessage, cause: string): number | null {
  if (store.causes.has(cause)) return null
  store.causes.add(cause)
  const id = ++store.messages
  const { partition, jobId, command, sentAt } = message
  store.inbox.set(id, { id, partition, jobId, command, sentAt, cause, answer: null, withdrawn: false })
  return id
}

export function checkedJson(text: string): string {
  try {
    JSON.parse(text)
    return text
  } catch (error) {
    throw new JournalDataError(
      `memory refused the data: ${(error as Error).message}. Nothing of it was stored.`,
    )
  }
}

function checkJson({ facts, newJobs, changedJobs, answers, messages }: port.Batch): void {
  for (const fact of facts) checkedJson(fact.data)
  for (const { output, error } of [...newJobs, ...changedJobs]) {
    if (output !== null) checkedJson(output)
    if (error !== null) checkedJson(error)
  }
  for (const { labels } of newJobs) if (labels !== null) checkedJson(labels)
  for (const { answer } of answers) checkedJson(answer)
  for (const { command } of messages) checkedJson(command)
}

function heldPartitions(store: MemoryStore, batch: port.Batch): Set<number> {
  const current = batch.fences.filter(({ partition, epoch }) => store.partitions[partition]?.epoch === epoch)
  const held = new Set(current.map(({ partition }) => partition))
  for (const { messageId } of batch.answers) {
    const message = store.inbox.get(messageId)
    if (message?.withdrawn) held.delete(message.partition)
  }
  return held
}

/** false: it was there already. A job's facts nearly always come in order, so the end is looked at first. */
function insertFact(store: MemoryStore, { partition, jobId, seq, at, type, data }: port.NewFact): boolean {
  const facts = store.facts.get(jobId) ?? []
  let index = facts.length
  while (index > 0 && (facts[index - 1]?.seq ?? 0) > seq) index--
  if (facts[index - 1]?.seq === seq) return false
  const row = { jobId, seq, at, type, data, bytes: Buffer.byteLength(data) }
  facts.splice(index, 0, row)
  store.facts.set(jobId, facts)
  addToFeed(store, partition, row)
  return true
}

function changeJob(store: MemoryStore, change: port.JobChange): void {
  const job = store.jobs.get(change.id)
  if (job && job.seq < change.seq) putJob(store, { ...job, ...change })
}

function putJob(store: MemoryStore, job: port.JobRow): void {
  store.jobs.set(job.id, job)
  const waiting = store.waiting[job.partition]
  if (job.wakeAt === null) waiting?.delete(job.id)
  else waiting?.set(job.id, job.wakeAt)
}
