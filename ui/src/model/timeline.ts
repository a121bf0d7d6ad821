/**
 * One job as a function of a moment. The facts are folded with the code of the engine (`umbra/core`); what a page shows is
 * the state after the first `index` facts, and live is only the newest index.
 *
 * 1. Every 1,024 facts there is a checkpoint, so a moment costs the fold of at most 1,024 facts.
 * 2. Facts are appended in the order of their seq; one that is known already is ignored.
 */
import {
  apply,
  Checkpoint,
  type CompiledGraph,
  type FactRecord,
  type GraphView,
  graphView,
  type JobState,
  type LiveGraph,
  newState,
  withLive,
} from "../../../src/core/index.ts"
import { type Mark, toMark } from "./marks.ts"
import { type EndedTry, endedTries } from "./tries.ts"

const SPACING = 1024

/** A moment of the job, and all that is shown of it. */
export interface Moment {
  /** The number of facts. */
  readonly index: number
  readonly seq: number
  readonly at: number
  readonly view: GraphView
  /** Belongs to the timeline: read it at once, and do not keep it. */
  readonly state: JobState
  readonly isLive: boolean
}

export class Timeline {
  readonly graph: CompiledGraph
  readonly facts: FactRecord[] = []
  readonly marks: Mark[] = []
  /** Attempts that have ended, by node and then in order. Those of items are not listed. */
  readonly tries = new Map<number, EndedTry[]>()
  /** Positions in `facts` of those that name a node, by node. */
  readonly factsByNode = new Map<number, number[]>()
  /** What is never stored: which handlers run, progress, positions in queues. */
  live: LiveGraph | null = null
  readonly positions: ReadonlyMap<string, number>
  readonly #checkpoints: Checkpoint[] = []
  readonly #head: JobState
  /** Where the last moment was: the next one is often right behind it. */
  #cursor: { index: number; state: JobState } | null = null

  constructor(graph: CompiledGraph) {
    this.graph = graph
    this.positions = new Map(graph.nodes.map(({ id }, position) => [id, position]))
    this.#head = newState(graph)
    this.#checkpoints.push(new Checkpoint(this.#head))
  }

  get lastSeq(): number {
    return this.facts.at(-1)?.seq ?? -1
  }

  get length(): number {
    return this.facts.length
  }

  /** Returns how many of the facts were new. */
  append(records: readonly FactRecord[]): number {
    let added = 0
    for (const record of records) {
      if (record.seq <= this.lastSeq) continue
      this.#append(record)
      added++
    }
    return added
  }

  #append(record: FactRecord): void {
    const position = this.facts.length
    this.facts.push(record)
    if (record.node !== undefined) {
      const known = this.factsByNode.get(record.node)
      if (known === undefined) this.factsByNode.set(record.node, [position])
      else known.push(position)
    }
    apply(this.#head, record)
    for (const ended of endedTries(this.#head, record)) {
      const known = this.tries.get(ended.node)
      if (known === undefined) this.tries.set(ended.node, [ended])
      else known.push(ended)
    }
    const mark = toMark(record, this.graph)
    if (mark !== null) this.marks.push(mark)
    if (this.facts.length % SPACING === 0)
      this.#checkpoints.push(new Checkpoint(this.#head, this.#checkpoints.at(-1)))
  }

  /** How many facts have a seq up to this one. */
  indexAtSeq(seq: number): number {
    let [low, high] = [0, this.facts.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.facts[middle]!.seq <= seq) low = middle + 1
      else high = middle
    }
    return low
  }

  /** The state after the first `index` facts. */
  stateAt(index: number): JobState {
    if (index === this.facts.length) return this.#head
    const cursor = this.#cursor
    const checkpoint = Math.floor(index / SPACING)
    const isNear = cursor !== null && cursor.index <= index && index - cursor.index <= SPACING
    const state = isNear ? cursor.state : this.#checkpoints[checkpoint]!.restore()
    for (let next = isNear ? cursor.index : checkpoint * SPACING; next < index; next++)
      apply(state, this.facts[next]!)
    this.#cursor = { index, state }
    return state
  }

  /** The moment after the first `index` facts, as `GET /jobs/{job}/graph?at=` shows it. */
  past(index: number): Moment {
    const state = this.stateAt(index)
    const last = this.facts[index - 1]
    const at = last?.at ?? 0
    return { index, seq: last?.seq ?? -1, at, view: graphView(state, { now: at }), state, isLive: false }
  }

  /** The newest moment, with what is never stored. `now`: by the clock of the server. */
  newest(now: number): Moment {
    const index = this.facts.length
    const last = this.facts[index - 1]
    const at = Math.max(now, last?.at ?? 0)
    const view = graphView(this.#head, { now: at })
    const merged = this.live === null ? view : withLive({ ...view, live: this.live })
    return { index, seq: last?.seq ?? -1, at, view: merged, state: this.#head, isLive: true }
  }
}
