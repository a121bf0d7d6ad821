/** Commits of a pipeline: messages through three adapters each, with their lineage, on one execution. */
import { randomUUID } from "node:crypto"
import type { Journal, PartitionEpoch } from "../src/journal/port/journal.ts"
import type { Attempt, NewMessageRow } from "../src/journal/port/pipelines.ts"

const ADAPTERS = 3

export class PipelineSource {
  readonly #journal: Journal
  readonly #fence: PartitionEpoch
  #execution: number | null = null
  #commit = 0
  #seq = 0

  constructor(journal: Journal, fence: PartitionEpoch) {
    this.#journal = journal
    this.#fence = fence
  }

  /** The median of this many rounds, in ms. */
  async median(size: number, rounds: number): Promise<number> {
    const taken: number[] = []
    for (let round = 0; round < rounds; round++) {
      const messages = Array.from({ length: size }, () => this.#message())
      const execution = await this.#claimed()
      const begin = performance.now()
      const { isHeld } = await this.#journal.pipelines.commit({
        ...{ fence: this.#fence, execution, commit: ++this.#commit },
        ...{ messages, lineage: messages.map(attemptOf), parked: [], unparked: [], stored: [] },
        progress: JSON.stringify({ routes: [{ acknowledged: this.#seq, text: "x".repeat(300) }] }),
      })
      taken.push(performance.now() - begin)
      if (!isHeld) throw new Error("a fence did not hold")
    }
    return taken.sort((a, b) => a - b)[taken.length >> 1]!
  }

  async #claimed(): Promise<number> {
    const claim = { jobId: randomUUID(), at: Date.now(), limit: 1, claimMs: 60_000 }
    this.#execution ??= await this.#journal.pipelines.claimExecution(claim)
    return this.#execution!
  }

  #message(): NewMessageRow {
    const seq = ++this.#seq
    const body = JSON.stringify({ url: `http://127.0.0.1/${seq}`, text: "x".repeat(80) })
    return { route: 1, seq, parent: { route: 0, seq }, root: 1, hops: 1, at: Date.now(), body }
  }
}

/** The attempt at the message that emitted this one. */
function attemptOf({ parent, seq, at }: NewMessageRow): Attempt {
  const invocations = Array.from({ length: ADAPTERS }, (_, adapter) => ({
    ...{ adapter, at, durationUs: 100 + seq, status: "completed" as const, into: null, error: null },
  }))
  return { ...parent!, attempt: 1, invocations, emitted: new Map([[ADAPTERS - 1, `1:${seq}`]]) }
}
