/** The dependencies of one node, declared or read by templates, each once, and which of them its templates read. */

/** For every node, the last node (its position + 1) that depends on it: this avoids a set per node. */
export interface SeenMarks {
  readonly edges: Int32Array
  readonly reads: Int32Array
}

const nothing = new Int32Array(0)
const byPosition = (a: number, b: number): number => a - b

export class NodeEdges {
  readonly #position: number
  readonly #seen: SeenMarks
  readonly #edges: number[] = []
  readonly #reads: number[] = []
  #readsAny = false
  #needsItself = false

  constructor(position: number, seen: SeenMarks) {
    this.#position = position
    this.#seen = seen
  }

  /** False the first time that the node depends on itself. */
  declare(to: number): boolean {
    if (to === this.#position) {
      const isNew = !this.#needsItself
      this.#needsItself = true
      return !isNew
    }
    if (this.#seen.edges[to] !== this.#position + 1) {
      this.#seen.edges[to] = this.#position + 1
      this.#edges.push(to)
    }
    return true
  }

  /** As `declare`, for a dependency of a template. */
  read(to: number): boolean {
    if (to !== this.#position && this.#seen.reads[to] !== this.#position + 1) {
      this.#seen.reads[to] = this.#position + 1
      this.#reads.push(to)
    }
    return this.declare(to)
  }

  /** An id that is computed when the node runs may be any of its dependencies. */
  readAny(): void {
    this.#readsAny = true
  }

  dependencies(): number[] {
    return this.#edges.length > 1 ? this.#edges.sort(byPosition) : this.#edges
  }

  reads(): Int32Array {
    const reads = this.#readsAny ? this.#edges : this.#reads
    return reads.length === 0 ? nothing : new Int32Array(reads.length > 1 ? reads.sort(byPosition) : reads)
  }
}
