/** Partitions that this engine owns and has recovered: it executes commands for their jobs, and new jobs go to them. */
export class ReadyPartitions {
  readonly #appendLanes: number
  readonly #ready = new Set<number>()
  /** To be given away as soon as they are idle: since when. They get no new jobs from here. */
  readonly #leaving = new Map<number, number>()
  /** The ready partitions of each append lane that has any. */
  #byLane: number[][] = []
  #picks = 0

  constructor(appendLanes: number) {
    this.#appendLanes = appendLanes
  }

  owns(partition: number): boolean {
    return this.#ready.has(partition) || this.#leaving.has(partition)
  }

  /** With those that are to be given away. */
  all(): readonly number[] {
    return [...this.#ready, ...this.#leaving.keys()]
  }

  get ready(): ReadonlySet<number> {
    return this.#ready
  }

  get leaving(): ReadonlyMap<number, number> {
    return this.#leaving
  }

  /**
   * The partition of the next new job; null: no partition is ready here. The append lanes get jobs in turns. Within a
   * lane a run of jobs goes to one partition before the next partition gets its turn: an append locks the row of every
   * partition in it, and a commit over 60 of them costs twice as much as one over a few.
   */
  pick(): number | null {
    const lanes = this.#byLane
    if (lanes.length === 0) return null
    const lane = lanes[this.#picks % lanes.length]!
    const turn = Math.floor(this.#picks++ / lanes.length / JOBS_PER_TURN)
    return lane[turn % lane.length]!
  }

  add(partitions: Iterable<number>): void {
    for (const partition of partitions) {
      this.#ready.add(partition)
      this.#leaving.delete(partition)
    }
    this.#refresh()
  }

  leave(partitions: Iterable<number>, since: number): void {
    for (const partition of partitions) {
      this.#leaving.set(partition, since)
      this.#ready.delete(partition)
    }
    this.#refresh()
  }

  remove(partition: number): void {
    this.#ready.delete(partition)
    this.#leaving.delete(partition)
    this.#refresh()
  }

  #refresh(): void {
    const lanes = Array.from({ length: this.#appendLanes }, () => [] as number[])
    for (const partition of this.#ready) lanes[partition % this.#appendLanes]!.push(partition)
    this.#byLane = lanes.filter(lane => lane.length > 0)
  }
}

const JOBS_PER_TURN = 256
