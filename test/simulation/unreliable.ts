/**
 * A journal on a shared store, as one process of a fleet sees it: answers take time, appends fail before or after they
 * were applied, and once the process is dead nothing comes back. All time is the clock's, all chance the seed's.
 */
import type { Clock } from "../../src/engine/clock.ts"
import { JournalUnavailableError } from "../../src/journal/errors.ts"
import type { Journal } from "../../src/journal/port/journal.ts"
import { type MemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import type { Random } from "../crash/random.ts"

export interface FaultRates {
  /** Share of calls that fail; half of the appends among them were applied. */
  faults: number
}

const verbs = [
  "append",
  "readFacts",
  "readFact",
  "readJob",
  "dueJobs",
  "readWorkflow",
  "beat",
  "takePartitions",
  "releasePartitions",
  "readMessages",
  "readAnswers",
  "withdrawMessage",
  "sendMessages",
] as const

/** Sent twice these would be two: a real journal hides lost answers of them behind its own retries. */
const neverLost: ReadonlySet<string> = new Set(["sendMessages", "withdrawMessage"])

export function unreliable(parts: {
  readonly store: MemoryStore
  readonly clock: Clock
  readonly random: Random
  readonly weather: FaultRates
  readonly isDead: () => boolean
}): Journal {
  const { store, clock, random, weather, isDead } = parts
  const journal = openMemory(store)
  const later = () => new Promise<void>(resolve => clock.after(random.between(0, 40), resolve))
  const call = async (verb: string, send: () => Promise<unknown>): Promise<unknown> => {
    const fails = !neverLost.has(verb) && random.chance(weather.faults)
    const isApplied = !fails || random.chance(0.5)
    await later()
    if (isDead()) return new Promise(() => {})
    const answer = isApplied ? await send() : null
    await later()
    if (isDead()) return new Promise(() => {})
    if (fails) throw new JournalUnavailableError(`${verb}: no answer`)
    return answer
  }
  for (const verb of verbs) {
    const send = journal[verb].bind(journal) as (...args: unknown[]) => Promise<unknown>
    Object.assign(journal, { [verb]: (...args: unknown[]) => call(verb, () => send(...args)) })
  }
  // Their answers come at once and are never lost, but a dead process gets none: it would try to write its totals again and
  // again, ten times in a second.
  for (const verb of ["watermarks", "factsOfJobs", "readForUpdate", "write"] as const) {
    const send = journal.statistics[verb].bind(journal.statistics) as (...args: unknown[]) => Promise<unknown>
    const orNever = (...args: unknown[]) => (isDead() ? new Promise(() => {}) : send(...args))
    Object.assign(journal.statistics, { [verb]: orNever })
  }
  for (const verb of ["due", "queued", "readMany"] as const) {
    const send = journal.schedules[verb].bind(journal.schedules) as (...args: unknown[]) => Promise<unknown>
    Object.assign(journal.schedules, { [verb]: (...args: unknown[]) => call(verb, () => send(...args)) })
  }
  return journal
}
