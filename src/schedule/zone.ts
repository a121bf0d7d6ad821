/**
 * Local time of an IANA zone. A local time is counted in milliseconds, as if the clock on the wall showed UTC.
 * The offsets come from `Intl`. Formatting is slow, so only the days around an instant are searched for a change, once.
 */
const DAY = 86_400_000
/** Zones change their offset at most once within this time. */
const SAMPLE_MS = DAY / 2
const CHUNK_MS = 4 * DAY
/** Chunks that are kept for each zone. */
const MAX_CHUNKS = 256
/** Zones that are kept. `Intl` knows some 600, in any case of letters, and 2,879 that are named by their offset. */
const MAX_ZONES = 200
/** Before the year 100 every zone has the offset of its longitude. `Date.UTC` takes smaller years for those from 1900 on. */
const FIRST = Date.UTC(100, 0, 3)

/** From `start` on the offset applies: local time is the instant plus `offset`. */
interface Segment {
  readonly start: number
  readonly offset: number
}

const zones = new Map<string, Zone>()

/** Throws a RangeError for an unknown name. */
export function findZone(name: string): Zone {
  return kept(zones, name.toLowerCase(), MAX_ZONES, () => new Zone(name))
}

export class Zone {
  readonly name: string
  readonly #format: Intl.DateTimeFormat
  readonly #chunks = new Map<number, readonly Segment[]>()

  constructor(name: string) {
    this.name = name
    this.#format = new Intl.DateTimeFormat("en-US-u-ca-gregory-nu-latn", {
      timeZone: name,
      hourCycle: "h23",
      ...{ year: "numeric", month: "numeric", day: "numeric" },
      ...{ hour: "numeric", minute: "numeric", second: "numeric" },
    })
  }

  /** The segment of this instant; `end` is its end, or an earlier time at which the offset does not change. */
  segment(at: number): Segment & { readonly end: number } {
    const index = Math.floor(at / CHUNK_MS)
    const segments = this.#chunk(index)
    let last = segments.length - 1
    while (segments[last]!.start > at) last--
    return { ...segments[last]!, end: segments[last + 1]?.start ?? (index + 1) * CHUNK_MS }
  }

  local(at: number): number {
    return at + this.segment(at).offset
  }

  /** The highest local time that the clock has shown until this instant: after it was set back, more than it shows now. */
  highest(at: number): number {
    let highest = this.local(at)
    // Clocks were never set back by more than a day, and it takes as long until the local time is reached again.
    for (let from = at - 2 * DAY; from <= at; ) {
      const { end, offset } = this.segment(from)
      if (end <= at) highest = Math.max(highest, end - 1 + offset)
      from = end
    }
    return highest
  }

  /** The first instant at which the clock shows this local time or a later one: in a gap, the first instant after it. */
  firstInstant(local: number): number {
    for (let from = local - 2 * DAY; ; ) {
      const { end, offset } = this.segment(from)
      if (end + offset > local) return Math.max(from, local - offset)
      from = end
    }
  }

  #chunk(index: number): readonly Segment[] {
    return kept(this.#chunks, index, MAX_CHUNKS, () => this.#segments(index * CHUNK_MS))
  }

  /** Of the chunk that begins then. */
  #segments(first: number): readonly Segment[] {
    const segments: Segment[] = [{ start: first, offset: this.#offset(first) }]
    for (let at = first + SAMPLE_MS; at <= first + CHUNK_MS; at += SAMPLE_MS) {
      const { offset } = segments.at(-1)!
      if (this.#offset(at) === offset) continue
      const start = this.#change(at - SAMPLE_MS, at, offset)
      if (start < first + CHUNK_MS) segments.push({ start, offset: this.#offset(start) })
    }
    return segments
  }

  /** The first instant in (from, to] with another offset; changes are at full seconds. */
  #change(from: number, to: number, offset: number): number {
    let [before, after] = [from / 1000, to / 1000]
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2)
      if (this.#offset(middle * 1000) === offset) before = middle
      else after = middle
    }
    return after * 1000
  }

  #offset(instant: number): number {
    const at = Math.max(instant, FIRST)
    // 3/29/2026, 03:00:00. Several times faster than `formatToParts`.
    const [month, day, year, hour, minute, second] = this.#format.format(at).match(/\d+/g)!.map(Number)
    return Date.UTC(year!, month! - 1, day, hour, minute, second) - at
  }
}

/** The value of the key, or a new one. Beyond `limit` the oldest is evicted. */
function kept<K, V>(values: Map<K, V>, key: K, limit: number, make: () => V): V {
  const known = values.get(key)
  if (known !== undefined) return known
  const value = make()
  values.set(key, value)
  if (values.size > limit) values.delete(values.keys().next().value!)
  return value
}
