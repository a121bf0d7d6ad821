import type { FactRow, NewFact } from "../../journal/port/journal.ts"
import { jobPartition } from "../ids.ts"

/** Of all texts that are kept. What does not fit is read from the store. */
const MAX_BYTES = 16 * 1024 * 1024
/** A larger fact is not kept. */
const MAX_FACT_BYTES = 4096
const OVERHEAD = 200

/**
 * The facts of jobs that wait as rows, as far as they fit. A job whose fact is here is loaded without reading it again, and
 * has certainly not ended.
 *
 * 1. A fact is kept once it is durable, until its job is loaded or its partition is lost. So as long as it is here, it is
 *    the only fact of its job.
 * 2. A row can be read, and its job loaded, as soon as the store has it, before this process is told so. Then its fact is
 *    not kept.
 */
export class QueuedFacts {
  /** Rows that are not known to be stored, and whether their job was loaded. */
  readonly #unstored = new Map<string, boolean>()
  readonly #facts = new Map<string, FactRow>()
  #bytes = 0

  /** A new row is about to be stored. */
  expect(jobId: string): void {
    this.#unstored.set(jobId, false)
  }

  isUnstored(jobId: string): boolean {
    return this.#unstored.has(jobId)
  }

  /** `fact`: of a row that was stored and waits for a place; null: it was not stored, or waits for something else. */
  settled(jobId: string, fact: NewFact | null): void {
    const wasLoaded = this.#unstored.get(jobId)
    this.#unstored.delete(jobId)
    if (wasLoaded !== false || fact === null || fact.data.length > MAX_FACT_BYTES) return
    if (this.#bytes >= MAX_BYTES) return
    const { seq, at, type, data } = fact
    this.#facts.set(jobId, { seq, jobId, at, type, data, bytes: data.length })
    this.#bytes += data.length + OVERHEAD
  }

  get(jobId: string): FactRow | undefined {
    return this.#facts.size === 0 ? undefined : this.#facts.get(jobId)
  }

  /** The job is in memory. */
  loaded(jobId: string): void {
    if (this.#unstored.has(jobId)) this.#unstored.set(jobId, true)
    this.#remove(jobId)
  }

  #remove(jobId: string): void {
    const fact = this.#facts.get(jobId)
    if (fact === undefined) return
    this.#facts.delete(jobId)
    this.#bytes -= fact.bytes + OVERHEAD
  }

  forget(partition: number): void {
    for (const id of this.#unstored.keys()) if (jobPartition(id) === partition) this.#unstored.delete(id)
    for (const id of this.#facts.keys()) if (jobPartition(id) === partition) this.#remove(id)
  }
}
