/** The life of a job, fact by fact: what the tree of its nodes showed after each. Pure: time and size are arguments. */
import type { FactRecord, RemoteEvent } from "../../client/index.ts"
import { type CompiledGraph, readGraph } from "../../core/compiled-graph.ts"
import { toFact } from "../../core/payloads.ts"
import { newJobState } from "../../core/state.ts"
import { expand } from "../../core/view/events.ts"
import { isoEvent } from "../../jobs/iso-times.ts"
import { duration, type Paint, printable, shorten } from "../output/terminal.ts"
import { Board } from "./board.ts"
import { frame } from "./frame.ts"
import { formatEvent } from "./lines.ts"
import { buildTree, type TreeRow } from "./tree.ts"

/** A longer gap between two facts is shown as this. */
const IDLE_MS = 500
/** Even facts of the same millisecond are seen one after another. */
const LEAST_MS = 40

interface Step {
  readonly record: FactRecord
  readonly events: readonly RemoteEvent[]
}

export interface ReplayParts {
  readonly jobId: string
  readonly title: string
  readonly graph: CompiledGraph
  /** All facts of the job, at least one. */
  readonly facts: readonly FactRecord[]
}

export class Replay {
  readonly #title: string
  readonly #ids: readonly string[]
  readonly #tree: readonly TreeRow[]
  readonly #steps: readonly Step[]
  readonly #newBoard: () => Board
  #board: Board
  /** Facts that are shown, from 1. */
  #position = 0

  constructor({ jobId, title, graph, facts }: ReplayParts) {
    const compiled = readGraph(graph)
    const state = newJobState(compiled)
    this.#title = title
    this.#ids = compiled.nodes.map(({ id }) => id)
    this.#tree = buildTree(compiled)
    this.#steps = facts.map(record => ({
      record,
      events: expand(state, jobId, { seq: record.seq, fact: toFact(record) }).map(isoEvent),
    }))
    this.#newBoard = () => new Board(compiled)
    this.#board = this.#newBoard()
    this.go(1)
  }

  get position(): number {
    return this.#position
  }

  get isAtEnd(): boolean {
    return this.#position === this.#steps.length
  }

  /** Shows the first facts, at least one and at most all. */
  go(position: number): void {
    const wanted = Math.max(1, Math.min(this.#steps.length, position))
    if (wanted < this.#position) {
      this.#board = this.#newBoard()
      this.#position = 0
    }
    for (; this.#position < wanted; this.#position++)
      for (const event of this.#steps[this.#position]!.events) this.#board.apply(event)
  }

  /** To the next fact that is a failure, or to the one before; stays where it is if there is none. */
  goToFailure(direction: 1 | -1): void {
    for (let at = this.#position + direction; at >= 1 && at <= this.#steps.length; at += direction) {
      if (!isFailure(this.#steps[at - 1]!.record)) continue
      this.go(at)
      return
    }
  }

  /** The time until the next fact is shown: real time divided by `speed`, with idle time collapsed. */
  delayMs(speed: number): number {
    const next = this.#steps[this.#position]
    if (next === undefined) return 0
    const gap = (next.record.at - this.#current.record.at) / speed
    return Math.max(LEAST_MS, Math.min(IDLE_MS, gap))
  }

  /** The tree, and a line about the current fact. */
  lines(size: { readonly columns: number; readonly rows: number }, paint: Paint, hint: string): string[] {
    const { at } = this.#current.record
    const tree = frame({
      ...{ title: this.#title, board: this.#board, tree: this.#tree, paint },
      ...{ columns: size.columns, rows: size.rows - 2, now: at, tick: this.#position },
    })
    return [...tree, shorten(this.#place(), size.columns), paint.dim(shorten(hint, size.columns))]
  }

  /** The current fact as plain text: one line for each change that matters, at least one. */
  text(paint: Paint): string[] {
    const { events, record } = this.#current
    const told = events.flatMap(event => formatEvent(event, this.#board, paint) ?? [])
    const lines = told.length > 0 ? told : [`${paint.dim(new Date(record.at).toISOString())} ${this.#what()}`]
    return [...this.#idleText(), ...lines.map(line => `${paint.dim(`#${record.index}`)} ${line}`)]
  }

  get #current(): Step {
    return this.#steps[this.#position - 1]!
  }

  #place(): string {
    const first = this.#steps[0]!.record.at
    const since = `+${duration(this.#current.record.at - first)}`
    return [`#${this.#position} of ${this.#steps.length}`, since, this.#what(), ...this.#idleText()].join(
      " · ",
    )
  }

  #what(): string {
    const { type, node, item, code } = this.#current.record
    const id = node === undefined ? "" : printable(this.#ids[node] ?? String(node))
    return [type, item === undefined ? id : `${id}[${item}]`, code ?? ""].filter(Boolean).join(" ")
  }

  /** For the first fact after an idle time. */
  #idleText(): string[] {
    const before = this.#steps[this.#position - 2]
    const gap = before === undefined ? 0 : this.#current.record.at - before.record.at
    return gap < IDLE_TOLD_MS ? [] : [`after ${duration(gap)}`]
  }
}

/** Shorter gaps are not mentioned. */
const IDLE_TOLD_MS = 5000

const failures = new Set([
  "node_failed",
  "item_failed",
  "job_failed",
  "job_expired",
  "tasks_lost",
  "items_lost",
])

function isFailure({ type, job_fault, handed_over, postponed }: FactRecord): boolean {
  return (failures.has(type) && handed_over !== true && postponed !== true) || job_fault !== undefined
}
