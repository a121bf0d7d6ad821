/**
 * The requests to the thread of the embedded database, and its replies. In the arguments of a method a list of
 * objects of one shape is sent as one flat list of their values: copying an object repeats the names of its
 * fields. Only the fields that the port names are sent: callers may pass objects that contain more, such as
 * functions, which cannot be copied.
 */
import type * as port from "../../port/journal.ts"
import { changeKeys, jobKeys, type Keys } from "../../values.ts"
import type { SentError } from "../errors.ts"
import type { Synchronous } from "../open.ts"
import type { StoreName } from "../ports.ts"

export interface ThreadData {
  readonly file: string
  /** The name of the store in messages. */
  readonly label: string
  readonly synchronous: Synchronous
}

export type ThreadRequest =
  | {
      readonly id: number
      readonly store: StoreName
      readonly verb: string
      readonly args: readonly unknown[]
    }
  | { readonly id: number; readonly store: "close" }

export type ThreadReply =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: SentError }

/** The id of the first reply: the database is open, or the error. */
export const OPENED = 0

const epochKeys: Keys<port.PartitionEpoch> = ["partition", "epoch"]
const factKeys: Keys<port.NewFact> = ["partition", "seq", "jobId", "at", "type", "data"]

type Flat = "fences" | "facts" | "newJobs" | "changedJobs"
type SentBatch = Omit<port.Batch, Flat> & Readonly<Record<Flat, readonly unknown[]>>

/** By method, for all stores. The arguments of the others are sent unchanged. */
const encoders = new Map<string, (argument: never) => unknown>([
  ["append", sentBatch],
  ["tryAppend", sentBatch],
  ["purge", withEpochs("fences")],
  ["takePartitions", withEpochs("expected")],
  ["releasePartitions", withEpochs("held")],
])

export function sentArguments(verb: string, args: readonly unknown[]): readonly unknown[] {
  const encode = encoders.get(verb)
  return encode === undefined ? args : [encode(args[0] as never), ...args.slice(1)]
}

export function receivedArguments(verb: string, args: readonly unknown[]): readonly unknown[] {
  return verb === "append" || verb === "tryAppend"
    ? [receivedBatch(args[0] as SentBatch), ...args.slice(1)]
    : args
}

/** The argument with its list of epochs, which may be objects that have more fields. */
function withEpochs<Key extends string>(key: Key) {
  return (argument: Readonly<Record<Key, readonly port.PartitionEpoch[]>>) => ({
    ...argument,
    [key]: argument[key].map(({ partition, epoch }) => ({ partition, epoch })),
  })
}

function sentBatch({ answers, messages, begun = [], left = [], ...batch }: port.Batch): SentBatch {
  const { held = [], definitions = [], schedules = [], fires = [] } = batch
  return {
    ...{ answers, messages, begun, left, held, definitions, schedules, fires },
    fences: flat(batch.fences, epochKeys),
    facts: flat(batch.facts, factKeys),
    newJobs: flat(batch.newJobs, jobKeys),
    changedJobs: flat(batch.changedJobs, changeKeys),
  }
}

function receivedBatch(sent: SentBatch): port.Batch {
  return {
    ...sent,
    fences: objects(sent.fences, epochKeys),
    facts: objects(sent.facts, factKeys),
    newJobs: objects(sent.newJobs, jobKeys),
    changedJobs: objects(sent.changedJobs, changeKeys),
  }
}

function flat<T>(items: readonly T[], keys: Keys<T>): unknown[] {
  const values: unknown[] = []
  for (const item of items) for (const key of keys) values.push(item[key])
  return values
}

function objects<T>(values: readonly unknown[], keys: Keys<T>): T[] {
  const items: T[] = []
  // Copied for each item: adding the fields one by one to an empty object takes twice as long.
  const blank: Partial<Record<string, unknown>> = Object.fromEntries(keys.map(key => [key, null]))
  for (let at = 0; at < values.length; at += keys.length) {
    const item = { ...blank }
    for (let index = 0; index < keys.length; index++) item[keys[index]!] = values[at + index]
    items.push(item as T)
  }
  return items
}
