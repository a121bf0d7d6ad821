/** Journals of the core's simulations in a real store, and how much of the store is read. */
import type { Fact } from "../../src/core/facts.ts"
import type { Graph } from "../../src/core/plan.ts"
import type { Plan } from "../../src/definition/plan.ts"
import type { LoadParts } from "../../src/engine/recovery/fold.ts"
import { JobFacts } from "../../src/jobs/facts.ts"
import type { HistoryOptions } from "../../src/jobs/history.ts"
import type { Journal } from "../../src/journal/port/journal.ts"
import { batch, hold, newId } from "../journal/fixture.ts"

export interface StoredJob {
  readonly jobId: string
  readonly facts: JobFacts
  readonly parts: LoadParts
  /** Rows and bytes of data that were read since the last call. */
  taken(): { readonly rows: number; readonly bytes: number }
  seq(index: number): number
}

type Held = Awaited<ReturnType<typeof hold>>
const held = new WeakMap<Journal, Promise<Held>>()
const counters = new WeakMap<Journal, number>()
/** Facts of one append. */
const PIECE = 2000

export async function storeJob(
  journal: Journal,
  graph: Graph,
  given: readonly Fact[],
  options?: HistoryOptions,
): Promise<StoredJob> {
  const own = held.get(journal) ?? hold(journal)
  held.set(journal, own)
  const owner = await own
  const jobId = newId()
  const first = counters.get(journal) ?? 1
  counters.set(journal, first + given.length)
  const { partition } = owner
  for (let from = 0; from < given.length; from += PIECE) {
    const facts = given.slice(from, from + PIECE).map(({ at, type, ...data }, i) => {
      return { partition, seq: owner.seq(first + from + i), jobId, at, type, data: JSON.stringify(data) }
    })
    await journal.append(batch(owner, { facts }))
  }
  const read = { rows: 0, bytes: 0 }
  const counting = counted(journal, read)
  const ofJob = async () => ({ pipeline: null, ...graph }) as Plan
  const plans = { get: ofJob, ofJob } as unknown as LoadParts["plans"]
  const parts = { journal: counting, plans, largeOutputBytes: 256 * 1024 }
  return {
    jobId,
    parts,
    facts: new JobFacts(parts, options),
    taken: () => {
      const taken = { ...read }
      read.rows = read.bytes = 0
      return taken
    },
    seq: index => owner.seq(first + index - 1),
  }
}

function counted(journal: Journal, read: { rows: number; bytes: number }): Journal {
  return new Proxy(journal, {
    get(target, name: keyof Journal) {
      const method = target[name] as unknown
      if (typeof method !== "function" || !String(name).startsWith("readFact")) return method
      return async (...given: unknown[]) => {
        const found = await (method as (...all: unknown[]) => Promise<unknown>).apply(target, given)
        for (const row of [found].flat() as (string | null | { data: string | null })[]) {
          read.rows++
          const data = typeof row === "string" ? row : (row?.data ?? "")
          read.bytes += data.length
        }
        return found
      }
    },
  })
}
