import { FairQueue, type Queued } from "../../broker/fair-queue.ts"

/** Places for concurrent work of the owners of jobs, who take turns. */
export class PollPlaces {
  readonly #most: number
  readonly #queue = new FairQueue<Waiting>()
  /** How many wait, by owner. */
  readonly #waiting = new Map<string, number>()
  #taken = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Do as many of this owner wait as there are places? */
  isFull(owner: string): boolean {
    return (this.#waiting.get(owner) ?? 0) >= this.#most
  }

  /** Calls `begin` when the owner has a place. The place is free again when `release` is called, or the signal aborts. */
  take(of: PlaceRequest): void {
    this.#queue.push({ ...of, priority: 0, removed: false })
    this.#count(of.owner, 1)
    this.#pump()
  }

  #pump(): void {
    while (this.#taken < this.#most) {
      const next = this.#queue.take()
      if (next === undefined) return
      this.#count(next.owner, -1)
      if (!next.signal.aborted) this.#begin(next)
      else next.abandoned?.()
    }
  }

  #begin({ signal, begin }: PlaceRequest): void {
    let isTaken = true
    const release = () => {
      if (!isTaken) return
      isTaken = false
      signal.removeEventListener("abort", release)
      this.#taken--
      this.#pump()
    }
    this.#taken++
    signal.addEventListener("abort", release)
    begin(release)
  }

  #count(owner: string, more: number): void {
    const count = (this.#waiting.get(owner) ?? 0) + more
    if (count === 0) this.#waiting.delete(owner)
    else this.#waiting.set(owner, count)
  }
}

interface PlaceRequest extends Pick<Queued, "owner" | "workflow"> {
  readonly signal: AbortSignal
  readonly begin: (release: () => void) => void
  /** Called instead of `begin` if the signal was aborted before. */
  readonly abandoned?: () => void
}

type Waiting = PlaceRequest & Queued
