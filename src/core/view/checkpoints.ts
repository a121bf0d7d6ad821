/**
 * Copies of a job's state at several moments. Consecutive copies share what did not change in between: the columns of a
 * state are stored in chunks, so a checkpoint of a list with 50,000 items costs as much as the items that have changed.
 */
import type { ItemList } from "../item-list.ts"
import type { Json } from "../json.ts"
import { type JobState, newJobState, type Usage } from "../state.ts"

const CHUNK = 1024
/** Estimates, in bytes. */
const STATE_BYTES = 2000
const ENTRY_BYTES = 80
const POINTER_BYTES = 8
/** What the graph of a list has per item. */
const ITEM_BYTES = 28

type Typed = Uint8Array | Uint16Array | Int32Array | Float64Array
type Column = Typed | readonly unknown[]
type Chunks = readonly Column[]

export class Checkpoint {
  /** Memory besides the chunks of its columns. */
  readonly #ownBytes: number
  readonly #graph: JobState["graph"]
  readonly #columns = new Map<string, Chunks>()
  readonly #lists = new Map<number, { readonly items: readonly Json[]; readonly state: Checkpoint }>()
  readonly #rest: Partial<JobState>

  /** `before`: an earlier checkpoint of the same job, or of the same list. */
  constructor(state: JobState, before?: Checkpoint) {
    this.#graph = state.graph
    let bytes = STATE_BYTES
    const rest: { [name: string]: unknown } = {}
    for (const [name, value] of Object.entries(state)) {
      if (name === "lists") continue
      if (isColumn(value))
        this.#columns.set(
          name,
          splitColumn(value, before === undefined ? undefined : before.#columns.get(name)),
        )
      else {
        rest[name] = copyValue(value)
        if (isMap(value) || value instanceof Set) bytes += ENTRY_BYTES * value.size
      }
    }
    for (const [node, { items, state: list }] of state.lists) {
      const known = before === undefined ? undefined : before.#lists.get(node)?.state
      this.#lists.set(node, { items, state: new Checkpoint(list, known) })
      if (known === undefined) bytes += ITEM_BYTES * items.length
    }
    this.#rest = rest
    this.#ownBytes = bytes
  }

  /** Its memory, without chunks that were counted before. */
  bytes(counted: Set<object>): number {
    let sum = this.#ownBytes
    for (const chunks of this.#columns.values())
      for (const chunk of chunks) {
        if (counted.has(chunk)) continue
        counted.add(chunk)
        sum += "byteLength" in chunk ? chunk.byteLength : POINTER_BYTES * chunk.length
      }
    for (const { state } of this.#lists.values()) sum += state.bytes(counted)
    return sum
  }

  /** A state of its own: the caller may change it. */
  restore(): JobState {
    const { places, continuesOnFailure } = this.#rest as JobState
    const state = newJobState(this.#graph, { places, continuesOnFailure })
    for (const [name, value] of Object.entries(this.#rest)) Object.assign(state, { [name]: copyValue(value) })
    for (const [name, chunks] of this.#columns) Object.assign(state, { [name]: joined(chunks) })
    const { signals, usage } = state
    const lists = new Map<number, ItemList>()
    // Signals and usage belong to the job: its lists have the same maps (core/item-list.ts).
    for (const [node, { items, state: list }] of this.#lists)
      lists.set(node, { items, state: { ...list.restore(), signals, usage } })
    state.lists = lists
    return state
  }
}

/**
 * `before`: the chunks of the same column in an earlier checkpoint; those that did not change are shared, and so are
 * consecutive chunks that are equal.
 */
function splitColumn(column: Column, before: Chunks | undefined): Chunks {
  const chunks: Column[] = []
  for (let start = 0; start < Math.max(1, column.length); start += CHUNK) {
    const known = before?.[chunks.length]
    const length = Math.min(CHUNK, column.length - start)
    // Most of a long list has not begun, or has ended: its chunks are equal in many columns.
    const same = [known, chunks.at(-1)].find(
      each => each !== undefined && isSame(each, column, start, length),
    )
    chunks.push(same ?? column.slice(start, start + length))
  }
  return chunks
}

function isColumn(value: unknown): value is Column {
  return ArrayBuffer.isView(value) || Array.isArray(value)
}

function isSame(chunk: Column, column: Column, start: number, length: number): boolean {
  if (chunk.length !== length) return false
  if (ArrayBuffer.isView(chunk))
    return isSameWords(viewAsWords(chunk, 0, length), viewAsWords(column as Typed, start, length))
  for (let i = 0; i < length; i++) if (chunk[i] !== column[start + i]) return false
  return true
}

/** All kinds of typed arrays as two: a loop over five kinds is several times slower. */
function viewAsWords(
  { buffer, byteOffset, BYTES_PER_ELEMENT }: Typed,
  start: number,
  length: number,
): Uint32Array | Uint8Array {
  const offset = byteOffset + start * BYTES_PER_ELEMENT
  const bytes = length * BYTES_PER_ELEMENT
  const isAligned = offset % 4 === 0 && bytes % 4 === 0
  return isAligned ? new Uint32Array(buffer, offset, bytes / 4) : new Uint8Array(buffer, offset, bytes)
}

function isSameWords(a: Uint32Array | Uint8Array, b: Uint32Array | Uint8Array): boolean {
  // The same bytes, aligned differently.
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}

function joined(chunks: Chunks): Column {
  const [first] = chunks
  if (chunks.length === 1) return first!.slice()
  // Unlike `flat`, it keeps holes.
  if (Array.isArray(first)) return first.concat(...chunks.slice(1))
  const whole = new (first!.constructor as new (length: number) => Typed)(
    chunks.reduce((sum, { length }) => sum + length, 0),
  )
  let at = 0
  for (const chunk of chunks as Typed[]) {
    whole.set(chunk, at)
    at += chunk.length
  }
  return whole
}

/** Maps and sets are changed in place, and so are the sums of usage and the lists of signals in them. */
function copyValue(value: unknown): unknown {
  if (value instanceof Set) return new Set(value)
  if (!isMap(value)) return value
  return new Map([...value].map(([key, entry]) => [key, copyEntry(entry)]))
}

/** The maps of a state are not all of the class Map (`LazyMap` in core/state.ts). */
function isMap(value: unknown): value is ReadonlyMap<unknown, unknown> {
  return Object.prototype.toString.call(value) === "[object Map]"
}

function copyEntry(entry: unknown): unknown {
  if (Array.isArray(entry)) return entry.slice()
  return isUsage(entry) ? Object.assign(Object.create(null), entry) : entry
}

function isUsage(value: unknown): value is Usage {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === null
}
