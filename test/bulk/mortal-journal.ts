/** Processes that die in a test, at one of their appends. */
import type { Journal } from "../../src/journal/port/journal.ts"
import { type MemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"

export interface Crash {
  /** The append, counted from the start of the operation, with which the process dies. */
  readonly at: number
  readonly isApplied: boolean
}

/** The journal of a process that dies with one of its appends: nothing is answered from then on. */
export function dyingJournal(
  store: MemoryStore,
  crash: Crash | null,
): { journal: Journal; death: Promise<void> } {
  const journal = openMemory(store)
  let appends = 0
  let isDead = false
  let die!: () => void
  const death = new Promise<void>(resolve => {
    die = resolve
  })
  const never = new Promise<never>(() => {})
  const append = journal.append.bind(journal)
  const verbs = ["beat", "takePartitions", "readFacts", "readFactPage", "listJobs", "readJob", "readMessages"]
  for (const verb of verbs as "beat"[]) {
    const send = journal[verb].bind(journal)
    journal[verb] = (...given) => (isDead ? never : send(...given))
  }
  journal.append = async batch => {
    if (isDead) return never
    if (crash === null || ++appends < crash.at) return append(batch)
    isDead = true
    if (crash.isApplied) await append(batch)
    die()
    return never
  }
  return { journal, death }
}
