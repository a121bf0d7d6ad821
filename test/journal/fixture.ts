/** Rows for the contract suite: complete, plausible, and changed only where a test says so. */
import { randomUUID } from "node:crypto"
import type {
  Batch,
  JobChange,
  Journal,
  NewFact,
  NewJob,
  NewMessage,
  PartitionEpoch,
} from "../../src/journal/port/journal.ts"

/** What a contract test gets: a journal, and a second opening of the same store where the store allows one. */
export interface Stage {
  readonly journal: Journal
  /** Another process's view; the same object where only one process can hold the store. */
  readonly peer: Journal
}

export interface Held extends PartitionEpoch {
  readonly engine: string
  /** epoch × 2^34 + counter, as the engine makes it. */
  seq(counter: number): number
}

const nextPartition = new WeakMap<Journal, number>()

/** Retention takes the jobs of these epochs as counted by the statistics. */
export async function countAll(journal: Journal, held: readonly PartitionEpoch[]): Promise<void> {
  const found = await journal.statistics.watermarks(held.map(({ partition }) => ({ partition, upTo: 0 })))
  const moves = held.map(({ partition, epoch }) => {
    const { seq: from } = found.find(each => each.partition === partition)!
    return { partition, epoch, from, to: (epoch + 1) * 2 ** 34 - 1 }
  })
  await journal.statistics.write({ partition: held[0]!.partition, moves, rollUps: [] })
}

/** As `hold`; the statistics have counted nothing of it. */
export async function holdUncounted(journal: Journal): Promise<Held> {
  const engine = `engine-${randomUUID()}`
  const partitions = await journal.readPartitions()
  const partition = (nextPartition.get(journal) ?? 0) % partitions.length
  nextPartition.set(journal, partition + 1)
  const { epoch } = partitions[partition]!
  const [taken] = await journal.takePartitions({ engine, expected: [{ partition, epoch }] })
  if (!taken) throw new Error(`partition ${partition} could not be taken`)
  return { ...taken, engine, seq: counter => taken.epoch * 2 ** 34 + counter }
}

/** The partition that was not used for longest, owned by a new engine. */
export async function hold(journal: Journal): Promise<Held> {
  const held = await holdUncounted(journal)
  await countAll(journal, [held])
  return held
}

export async function sendMessage(journal: Journal, message: NewMessage): Promise<number> {
  return (await journal.sendMessages([message]))[0]!
}

/** null: not answered yet. */
export async function answerOf(journal: Journal, messageId: number): Promise<string | null> {
  return (await journal.readAnswers({ messageIds: [messageId] })).get(messageId) ?? null
}

/** Ids rise with time, as UUIDv7 do: the later made, the larger. */
let ids = Date.now()
export function newId(): string {
  const time = (++ids).toString(16).padStart(12, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

export function fact(held: Held, counter: number, over: Partial<NewFact> = {}): NewFact {
  const { partition } = held
  return {
    partition,
    seq: held.seq(counter),
    jobId: newId(),
    at: 1_000 + counter,
    type: "node_completed",
    data: "{}",
    ...over,
  }
}

export function newJob(held: Held, counter: number, over: Partial<NewJob> = {}): NewJob {
  return {
    id: newId(),
    partition: held.partition,
    seq: held.seq(counter),
    status: "PROCESSING",
    updatedAt: 1_000_000,
    finishedAt: null,
    wakeAt: null,
    output: null,
    error: null,
    fingerprint: null,
    owner: "somebody",
    workflow: "flow",
    workflowVersion: 1,
    parentId: null,
    labels: null,
    priority: 0,
    createdAt: 1_000_000,
    submittedBy: null,
    forkedFrom: null,
    definition: null,
    ...over,
  }
}

export function change(job: NewJob, over: Partial<JobChange>): JobChange {
  const { parentId: _, priority: __, submittedBy: ___, ...changed } = job
  return { ...changed, ...over }
}

export function batch(fences: PartitionEpoch | readonly PartitionEpoch[], over: Partial<Batch>): Batch {
  const list = Array.isArray(fences) ? fences : [fences as PartitionEpoch]
  return {
    fences: list.map(({ partition, epoch }) => ({ partition, epoch })),
    facts: [],
    newJobs: [],
    changedJobs: [],
    answers: [],
    messages: [],
    ...over,
  }
}

/** Stores jobs with one fact each. */
export async function store(journal: Journal, held: Held, jobs: readonly NewJob[]): Promise<void> {
  const facts = jobs.map(job => ({ ...fact(held, 0), seq: job.seq, jobId: job.id }))
  await journal.append(batch(held, { facts, newJobs: jobs }))
}

/** The jobs of a partition that retention may remove, oldest first. */
export async function freeJobs(
  journal: Journal,
  { partition }: PartitionEpoch,
  { before, unsettledBefore = 0 }: { readonly before: number; readonly unsettledBefore?: number },
): Promise<string[]> {
  const query = { partitions: [partition], before, unsettledBefore, limit: 10_000 }
  return (await journal.endedJobs(query)).filter(({ isFree }) => isFree).map(({ id }) => id)
}
