import type { EngineBeat } from "../../journal/port/journal.ts"
import { checkLife, ownIdentity, type ProcessIdentity } from "../../process-identity.ts"

/**
 * Which engines are alive. Liveness only decides which engine tries to take over; the epoch protects the data.
 *
 * A peer is dead when this process has itself seen its heartbeat unchanged for the lease, by its own clock; or at once,
 * when it ran on this host and its process does not exist any more. Time in which this process saw nothing does not
 * count: after an outage of the database (for the peers too) the lease begins again, so that a restart moves nothing.
 */
export class Peers {
  readonly #leaseMs: number
  readonly #maxGapMs: number
  readonly #now: () => number
  readonly #seen = new Map<string, { beat: number; since: number }>()
  #lastRead: number

  constructor(parts: { leaseMs: number; beatMs: number; now: () => number }) {
    this.#leaseMs = parts.leaseMs
    this.#maxGapMs = Math.max(parts.leaseMs / 2, parts.beatMs * 1.5)
    this.#now = parts.now
    this.#lastRead = parts.now()
  }

  /** The ids of the live engines. */
  alive(engines: readonly EngineBeat[]): Set<string> {
    const now = this.#now()
    if (now - this.#lastRead > this.#maxGapMs) this.#seen.clear()
    this.#lastRead = now
    const living = new Set<string>()
    for (const { engine, beat, place } of engines) {
      const seen = this.#seen.get(engine)
      if (seen === undefined || seen.beat !== beat) this.#seen.set(engine, { beat, since: now })
      const hasBeaten = seen !== undefined && seen.beat !== beat
      const isSilent = seen !== undefined && seen.beat === beat && now - seen.since >= this.#leaseMs
      if (hasBeaten || !(isSilent || diedOnThisHost(place))) living.add(engine)
    }
    for (const engine of this.#seen.keys())
      if (!engines.some(row => row.engine === engine)) this.#seen.delete(engine)
    return living
  }
}

/** Engines whose heartbeat was old at first sight and has not changed since: they died before this process started. Used as a hint only. */
export class StaleBeats {
  readonly #deadMs: number
  readonly #now: () => number
  readonly #first = new Map<string, number>()

  /** `now`: on the scale of heartbeats. */
  constructor(parts: { deadMs: number; now: () => number }) {
    this.#deadMs = parts.deadMs
    this.#now = parts.now
  }

  receive(engines: readonly EngineBeat[]): void {
    for (const { engine, beat } of engines) if (!this.#first.has(engine)) this.#first.set(engine, beat)
    for (const engine of this.#first.keys())
      if (!engines.some(row => row.engine === engine)) this.#first.delete(engine)
  }

  has({ engine, beat }: Pick<EngineBeat, "engine" | "beat">): boolean {
    return this.#first.get(engine) === beat && this.#now() - beat >= this.#deadMs
  }
}

function diedOnThisHost(place: string): boolean {
  try {
    return checkLife(JSON.parse(place) as ProcessIdentity, ownIdentity()) === "dead"
  } catch {
    // Another release may format it differently: then only its heartbeat counts.
    return false
  }
}

/** Does the process that sends this with its heartbeat share in the partitions? */
export interface TakesPartitions {
  /** false: it never owns partitions, or it is about to end. */
  readonly takes_partitions: boolean
}

/** A process of an earlier release does not send the field, and is an engine. */
export function takesPartitions(place: string): boolean {
  try {
    return (JSON.parse(place) as Partial<TakesPartitions>).takes_partitions !== false
  } catch {
    return true
  }
}
