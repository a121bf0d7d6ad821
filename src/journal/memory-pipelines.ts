/** Executions of pipelines in memory: what the tables hold, and a commit to them. */
import { JournalDataError } from "./errors.ts"
import { checkedJson } from "./memory-append.ts"
import type { MemoryStore } from "./memory-store.ts"
import { checkSentBefore, nameOf, settled } from "./pipeline-rules.ts"
import type { LineageRow, MessageKey, MessageRow, ParkedRow, PipelineCommit } from "./pipeline-store.ts"

export interface StoredExecution {
  readonly execution: number
  readonly jobId: string
  claimedAt: number
  endedAt: number | null
  commit: number
  progress: string | null
  /** Per route, in order of seq. */
  readonly queues: Map<number, MessageRow[]>
  /** Per message. */
  readonly lineage: Map<string, LineageRow[]>
  readonly parked: Map<string, StoredParked>
  readonly stored: Map<string, string>
}

export interface StoredParked extends ParkedRow {
  replayedBy: string | null
  replayedAt: number
}

/** First everything is checked, then everything is written, as `append` does. */
export function commitToMemory(store: MemoryStore, commit: PipelineCommit): { readonly isHeld: boolean } {
  checkJson(commit)
  const { fence } = commit
  if (store.partitions[fence.partition]?.epoch !== fence.epoch) return { isHeld: false }
  const execution = store.executions.get(commit.execution)
  if (execution?.commit !== commit.commit - 1) {
    checkSentBefore(commit, execution === undefined ? null : execution.commit)
    return { isHeld: true }
  }
  checkNew(execution, commit.messages)
  write(execution, commit)
  return { isHeld: true }
}

export function findMessage({ queues }: StoredExecution, { route, seq }: MessageKey): MessageRow | undefined {
  const queue = queues.get(route) ?? []
  const found = queue[indexBehind(queue, seq) - 1]
  return found?.seq === seq ? found : undefined
}

/** Of the first message with a larger seq. */
export function indexBehind(queue: readonly MessageRow[], seq: number): number {
  let [low, high] = [0, queue.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (queue[middle]!.seq <= seq) low = middle + 1
    else high = middle
  }
  return low
}

function write(execution: StoredExecution, commit: PipelineCommit): void {
  const { parked, unparked, stored } = settled(commit)
  execution.commit = commit.commit
  execution.progress = commit.progress
  for (const message of commit.messages) {
    const queue = execution.queues.get(message.route) ?? []
    execution.queues.set(message.route, queue)
    queue.splice(indexBehind(queue, message.seq), 0, { ...message })
  }
  for (const row of commit.lineage) {
    const name = nameOf(row)
    const rows = execution.lineage.get(name) ?? []
    execution.lineage.set(name, rows)
    rows.push({ ...row })
  }
  for (const row of parked) execution.parked.set(nameOf(row), { ...row, replayedBy: null, replayedAt: 0 })
  for (const key of unparked) execution.parked.delete(nameOf(key))
  for (const [key, value] of stored) execution.stored.set(key, value)
}

function checkNew(execution: StoredExecution, messages: readonly MessageRow[]): void {
  const names = new Set<string>()
  for (const message of messages) {
    const name = nameOf(message)
    if (names.has(name) || findMessage(execution, message) !== undefined)
      throw new JournalDataError(
        `memory refused the data: message ${name} is there. Nothing of it was stored.`,
      )
    names.add(name)
  }
}

function checkJson({ progress, messages, lineage, parked, stored }: PipelineCommit): void {
  checkedJson(progress)
  for (const { body } of messages) checkedJson(body)
  for (const { error } of lineage) if (error !== null) checkedJson(error)
  for (const { error } of parked) checkedJson(error)
  for (const { value } of stored) checkedJson(value)
}
