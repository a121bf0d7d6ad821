import type { Json } from "../json.ts"

/** Elements of a list, or fields of an object, that are numbered or aligned in one piece: a few milliseconds. */
export const MOST_PARTS = 20_000

/** An element of two lists by its places in them; undefined: the other list does not have it. */
export interface Aligned {
  readonly a: number | undefined
  readonly b: number | undefined
}

/**
 * Numbers for JSON values: two values have the same number if they are equal, whatever the order of keys. Each value is
 * numbered once, so nested lists cost nothing more.
 */
export class ValueNumbers {
  readonly #byContent = new Map<string, number>()
  readonly #byValue = new Map<object, number>()
  #left: number

  /** `most`: values that are numbered at most. */
  constructor(most: number) {
    this.#left = most
  }

  get isExhausted(): boolean {
    return this.#left < 0
  }

  /** The number of a value of which `number` has run, or of one that is neither list nor object. */
  of(value: Json): number {
    const isInner = typeof value === "object" && value !== null
    return isInner ? this.#byValue.get(value)! : this.#intern(JSON.stringify(value))
  }

  /** Yields after each value, and ends early when too many are numbered, or one is too large. A stack of its own: values may be nested deeply. */
  *number(value: Json): Generator<undefined, void, undefined> {
    const stack: { readonly value: Json; readonly isOpen: boolean }[] = [{ value, isOpen: false }]
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      const { value: inner, isOpen } = next
      if (typeof inner !== "object" || inner === null || this.#byValue.has(inner)) continue
      if (isOpen) this.#byValue.set(inner, this.#intern(this.#content(inner)))
      else {
        const parts = Object.values(inner) as readonly Json[]
        this.#left -= parts.length > MOST_PARTS ? Number.POSITIVE_INFINITY : 1 + parts.length
        if (this.#left < 0) return
        stack.push({ value: inner, isOpen: true })
        for (const part of parts) stack.push({ value: part, isOpen: false })
      }
      yield
    }
  }

  #content(value: object): string {
    if (Array.isArray(value)) return `[${value.map(part => this.of(part as Json)).join(",")}`
    const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
    return `{${entries.map(([key, part]) => `${JSON.stringify(key)}:${this.of(part as Json)}`).join(",")}`
  }

  #intern(content: string): number {
    const known = this.#byContent.get(content)
    if (known !== undefined) return known
    this.#byContent.set(content, this.#byContent.size)
    return this.#byContent.size - 1
  }
}

/**
 * Aligns two lists, given as the numbers of their elements. Elements that occur once in each list, and in the same order,
 * are aligned first. Between two of them equal elements at the end are, and the rest by position. So an element that was
 * inserted or removed changes nothing else.
 */
export function alignLists(a: readonly number[], b: readonly number[]): Aligned[] {
  const aligned: Aligned[] = []
  let [nextA, nextB] = [0, 0]
  const fillUpTo = (endA: number, endB: number) => {
    let tail = 0
    while (endA - tail > nextA && endB - tail > nextB && a[endA - tail - 1] === b[endB - tail - 1]) tail++
    while (nextA < endA - tail || nextB < endB - tail)
      aligned.push({
        a: nextA < endA - tail ? nextA++ : undefined,
        b: nextB < endB - tail ? nextB++ : undefined,
      })
    while (nextA < endA) aligned.push({ a: nextA++, b: nextB++ })
  }
  for (const [inA, inB] of anchors(a, b)) {
    fillUpTo(inA, inB)
    aligned.push({ a: nextA++, b: nextB++ })
  }
  fillUpTo(a.length, b.length)
  return aligned
}

type Places = readonly [inA: number, inB: number]

/** The longest sequence of elements that occur once in each list, and in the same order in both. */
function anchors(a: readonly number[], b: readonly number[]): Places[] {
  const inB = uniquePlaces(b)
  const common: Places[] = []
  for (const [value, place] of uniquePlaces(a)) {
    const other = inB.get(value)
    if (place !== null && other != null) common.push([place, other])
  }
  // For each length the sequence that ends earliest in b, as the index of its last pair.
  const ends: number[] = []
  const before: (number | undefined)[] = []
  for (const [index, [, place]] of common.entries()) {
    let [low, high] = [0, ends.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (common[ends[middle]!]![1] < place) low = middle + 1
      else high = middle
    }
    before.push(ends[low - 1])
    ends[low] = index
  }
  const longest: Places[] = []
  for (let index = ends.at(-1); index !== undefined; index = before[index]) longest.push(common[index]!)
  return longest.reverse()
}

/** By value, in the order of their first places; null: it occurs more than once. */
function uniquePlaces(list: readonly number[]): ReadonlyMap<number, number | null> {
  const places = new Map<number, number | null>()
  for (const [place, value] of list.entries()) places.set(value, places.has(value) ? null : place)
  return places
}
