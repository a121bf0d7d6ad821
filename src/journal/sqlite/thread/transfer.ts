/**
 * Encodes the arguments of a method for the thread. A list of objects of one shape is sent as one flat list
 * of their values: copying an object repeats the names of its fields. Only the fields that the port names are
 * sent: callers may pass objects that contain more, such as functions, which cannot be copied.
 */
import type * as port from "../../port/journal.ts"

type Keys<T> = readonly (keyof T & string)[]

const epochKeys: Keys<port.PartitionEpoch> = ["partition", "epoch"]
const factKeys: Keys<port.NewFact> = ["partition", "seq", "jobId", "at", "type", "data"]
const changeKeys: Keys<port.JobChange> = [
  "id",
  "partition",
  "seq",
  "status",
  "updatedAt",
  "finishedAt",
  "wakeAt",
  "output",
  "error",
]
const jobKeys: Keys<port.NewJob> = [
  ...changeKeys,
  "owner",
  "workflow",
  "workflowVersion",
  "parentId",
  "labels",
  "priority",
  "createdAt",
  "submittedBy",
]

interface SentBatch extends Pick<port.Batch, "answers" | "messages"> {
  readonly fences: readonly unknown[]
  readonly facts: readonly unknown[]
  readonly newJobs: readonly unknown[]
  readonly changedJobs: readonly unknown[]
  readonly begun: port.Batch["begun"]
  readonly left: port.Batch["left"]
}

/** By method, for all stores. The arguments of the others are sent unchanged. */
const encoders = new Map<string, (argument: never) => unknown>([
  ["append", sentBatch],
  ["tryAppend", sentBatch],
  ["purge", sentPurge],
  ["takePartitions", sentTake],
  ["releasePartitions", sentRelease],
])

export function sentArguments(verb: string, args: readonly unknown[]): readonly unknown[] {
  const encode = encoders.get(verb)
  return encode === undefined ? args : [encode(args[0] as never)]
}

export function receivedArguments(verb: string, args: readonly unknown[]): readonly unknown[] {
  return verb === "append" || verb === "tryAppend" ? [receivedBatch(args[0] as SentBatch)] : args
}

function epoch({ partition, epoch }: port.PartitionEpoch): port.PartitionEpoch {
  return { partition, epoch }
}

function sentPurge({ fences, jobIds, before }: Parameters<port.Journal["purge"]>[0]): unknown {
  return { fences: fences.map(epoch), jobIds, before }
}

function sentTake({ engine, expected }: Parameters<port.Journal["takePartitions"]>[0]): unknown {
  return { engine, expected: expected.map(epoch) }
}

function sentRelease({ engine, held }: Parameters<port.Journal["releasePartitions"]>[0]): unknown {
  return { engine, held: held.map(epoch) }
}

function sentBatch(batch: port.Batch): SentBatch {
  return {
    fences: flat(batch.fences, epochKeys),
    facts: flat(batch.facts, factKeys),
    newJobs: flat(batch.newJobs, jobKeys),
    changedJobs: flat(batch.changedJobs, changeKeys),
    answers: batch.answers,
    messages: batch.messages,
    begun: batch.begun,
    left: batch.left,
  }
}

function receivedBatch(sent: SentBatch): port.Batch {
  const { answers, messages, begun = [], left = [] } = sent
  return {
    fences: objects(sent.fences, epochKeys),
    facts: objects(sent.facts, factKeys),
    newJobs: objects(sent.newJobs, jobKeys),
    changedJobs: objects(sent.changedJobs, changeKeys),
    answers,
    messages,
    begun,
    left,
  }
}

function flat<T>(items: readonly T[], keys: Keys<T>): unknown[] {
  const values: unknown[] = []
  for (const item of items) for (const key of keys) values.push(item[key])
  return values
}

function objects<T>(values: readonly unknown[], keys: Keys<T>): T[] {
  const items: T[] = []
  for (let at = 0; at < values.length; at += keys.length) {
    const item: Partial<Record<string, unknown>> = {}
    for (const [index, key] of keys.entries()) item[key] = values[at + index]
    items.push(item as T)
  }
  return items
}
