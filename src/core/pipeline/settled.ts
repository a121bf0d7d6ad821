/**
 * Which messages of a queue are settled: all up to one, and some beyond it. Stored as ranges, so that one message that
 * takes an hour costs a few numbers however many messages pass it.
 */
export class Settled {
  #upTo: number
  /** Ranges beyond, in order, both ends included: from, to, from, to … They touch neither each other nor `upTo`. */
  readonly #beyond: number[]

  constructor(upTo = 0, beyond: readonly number[] = []) {
    this.#upTo = upTo
    this.#beyond = [...beyond]
  }

  /** All messages up to this one are settled; the next one is not. */
  get upTo(): number {
    return this.#upTo
  }

  get beyond(): readonly number[] {
    return this.#beyond
  }

  has(seq: number): boolean {
    if (seq <= this.#upTo) return true
    const at = this.#rangeEndingFrom(seq)
    return at < this.#beyond.length && this.#beyond[at]! <= seq
  }

  /** The first message after this one that is not settled. */
  nextUnsettled(after: number): number {
    const seq = Math.max(after, this.#upTo) + 1
    const at = this.#rangeEndingFrom(seq)
    return at < this.#beyond.length && this.#beyond[at]! <= seq ? this.#beyond[at + 1]! + 1 : seq
  }

  add(seq: number): void {
    if (seq === this.#upTo + 1) {
      this.#upTo = seq
      if (this.#beyond[0] === seq + 1) this.#upTo = this.#beyond.splice(0, 2)[1]!
      return
    }
    if (this.has(seq)) return
    // The index of the range after it; the range before it ends two places earlier.
    const at = this.#rangeEndingFrom(seq)
    const joinsBefore = at > 0 && this.#beyond[at - 1] === seq - 1
    const joinsAfter = this.#beyond[at] === seq + 1
    if (joinsBefore && joinsAfter) this.#beyond.splice(at - 1, 2)
    else if (joinsBefore) this.#beyond[at - 1] = seq
    else if (joinsAfter) this.#beyond[at] = seq
    else this.#beyond.splice(at, 0, seq, seq)
  }

  /** Index of the first range that ends at or after this one. */
  #rangeEndingFrom(seq: number): number {
    let low = 0
    let high = this.#beyond.length / 2
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#beyond[middle * 2 + 1]! < seq) low = middle + 1
      else high = middle
    }
    return low * 2
  }
}

/** A message in maps: its route and its number there. */
export function formatMessageKey({ route, seq }: { readonly route: number; readonly seq: number }): string {
  return `${route}:${seq}`
}
