import { valueIn } from "../../core/maps.ts"
import {
  addJob,
  decodeTotals,
  encodeTotals,
  mergeByNode,
  mergeTotals,
  newTotals,
  type Totals,
} from "../../core/statistics/totals.ts"
import type { RollUp, RollUpKey, StatisticsStore, WatermarkMove } from "../../journal/port/statistics.ts"
import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import type { CommittedBatch } from "../commit/committer.ts"
import { firstSeq } from "../ids.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import type { LoadParts } from "../recovery/fold.ts"
import { countPage, type End } from "./ended-facts.ts"

/** How long an end may wait in memory to be counted. Readers are promised a minute. */
const INTERVAL_MS = 15_000
const MIN_INTERVAL_MS = 100
const HOUR_MS = 3_600_000
/** Facts that are read at once after a take-over. */
const PAGE = 1000
/** Partitions are written together up to about this many rows. On SQLite nothing else is stored meanwhile. */
const ROWS = 1000

/**
 * Counts the jobs that end in this engine's partitions, and rolls them up into statistics by node and hour.
 *
 * 1. Ends are counted in memory once they are durable, and written every few seconds: the totals of a partition, and its
 *    watermark, the seq up to which all ends are counted. Both are one statement behind the fence, so each end is counted
 *    once, whenever a process dies or a partition moves.
 * 2. A new owner counts what the one before had not written from the journal, in pages, before it writes its own.
 * 3. Roll-ups of all partitions of an engine are stored in the name of one of them, so that there are as many rows as
 *    engines, not as partitions.
 */
export class RollUps {
  readonly #parts: RollUpsParts
  readonly #store: StatisticsStore
  readonly #intervalMs: number
  readonly #partitions = new Map<number, Uncounted>()
  #unsettled: Write | null = null
  #cancel: (() => void) | null = null
  #running: Promise<void> | null = null
  #isClosed = false

  constructor(parts: RollUpsParts) {
    this.#parts = parts
    this.#store = parts.load.journal.statistics
    // Retention waits until a job is counted.
    const tenthMs = (parts.retentionSeconds ?? Number.POSITIVE_INFINITY) * 100
    this.#intervalMs = Math.min(INTERVAL_MS, Math.max(MIN_INTERVAL_MS, tenthMs))
  }

  /** Their last owners may have left ends that are not counted. */
  partitionsAdded(): void {
    for (const [partition, { epoch }] of this.#parts.partitionOwner.owned) this.#uncounted(partition, epoch)
    this.#schedule(0)
  }

  /** The ends in a batch whose append has an outcome. */
  add({ batch, refused }: CommittedBatch): void {
    if (batch.lastEnded.size === 0) return
    for (const [partition, seq] of batch.lastEnded) {
      const uncounted = this.#current(partition, batch.epochs)
      if (uncounted !== null) uncounted.upTo = Math.max(uncounted.upTo, seq)
    }
    const refusedIds = refused.length === 0 ? null : new Set(refused.map(({ job }) => job.id))
    for (const end of batch.ends)
      if (refusedIds === null || !refusedIds.has(end.jobId))
        this.#current(end.partition, batch.epochs)?.totals.add(end)
    this.#schedule(this.#intervalMs)
  }

  /** null: the partition has moved since the batch was made. */
  #current(partition: number, epochs: ReadonlyMap<number, number>): Uncounted | null {
    const epoch = epochs.get(partition)
    if (epoch === undefined || this.#parts.partitionOwner.owned.get(partition)?.epoch !== epoch) return null
    return this.#uncounted(partition, epoch)
  }

  /** Writes what is counted so far. */
  async flush(): Promise<void> {
    while (this.#running !== null) await this.#running
    await this.#run()
  }

  /** What is not written, the next owners count from the journal. */
  async close(isStoreAvailable: boolean): Promise<void> {
    if (isStoreAvailable) await this.flush()
    this.#isClosed = true
    this.#cancel?.()
  }

  #uncounted(partition: number, epoch: number): Uncounted {
    const known = this.#partitions.get(partition)
    if (known?.epoch === epoch) return known
    const uncounted: Uncounted = { epoch, from: null, upTo: 0, totals: new TotalsByKey() }
    this.#partitions.set(partition, uncounted)
    return uncounted
  }

  #schedule(ms: number): void {
    if (this.#isClosed || (this.#cancel !== null && ms > 0)) return
    this.#cancel?.()
    this.#cancel = this.#parts.clock.after(ms, () => {
      this.#cancel = null
      // A write in flight has not taken what ended since it began.
      if (this.#running === null) void this.#run()
      else void this.#running.then(() => this.#schedule(0))
    })
  }

  async #run(): Promise<void> {
    this.#running = this.#write()
      .catch(error => {
        this.#parts.log.warn({ error: String(error) }, "could not write statistics; retrying later")
        this.#schedule(this.#intervalMs)
      })
      .finally(() => {
        this.#running = null
      })
    await this.#running
  }

  async #write(): Promise<void> {
    if (this.#unsettled !== null) await this.#settle(this.#unsettled)
    const { owned } = this.#parts.partitionOwner
    for (const [partition, { epoch }] of this.#partitions)
      if (owned.get(partition)?.epoch !== epoch) this.#partitions.delete(partition)
    await this.#catchUp()
    for (const group of this.#groups()) await this.#writeGroup(group)
  }

  /** Counts the ends that earlier owners of these partitions did not write. */
  async #catchUp(): Promise<void> {
    const added = [...this.#partitions].filter(([, { from }]) => from === null)
    if (added.length === 0) return
    const ends = added.map(([partition, { epoch }]) => ({ partition, upTo: firstSeq(epoch) - 1 }))
    for (const { partition, seq, isBehind } of await this.#store.watermarks(ends)) {
      const uncounted = this.#partitions.get(partition)
      if (uncounted === undefined) continue
      const from = isBehind ? await this.#countJournal(partition, uncounted.epoch, seq) : seq
      if (from !== null) uncounted.from = from
      else if (this.#partitions.get(partition) === uncounted) this.#partitions.delete(partition)
    }
  }

  /** Returns the new watermark; null: another engine owns the partition. What is read never changes, so a page that fails is written again unchanged. */
  async #countJournal(partition: number, epoch: number, watermark: number): Promise<number | null> {
    const { load, log } = this.#parts
    const upTo = firstSeq(epoch) - 1
    for (let from = watermark; from < upTo; ) {
      const facts = await this.#store.factsOfJobs({ partition, after: from, upTo, limit: PAGE })
      const to = facts.length < PAGE ? upTo : facts.at(-1)!.seq
      const totals = new TotalsByKey()
      for (const end of await countPage(load, facts, log)) totals.add(end)
      const rollUps = await this.#merged(partition, totals)
      if (!(await this.#store.write({ partition, moves: [{ partition, epoch, from, to }], rollUps })))
        return null
      from = to
    }
    return upTo
  }

  /** Partitions with something to write, in groups of a few rows. */
  #groups(): (readonly [number, Uncounted])[][] {
    const groups: (readonly [number, Uncounted])[][] = []
    let rows = Number.POSITIVE_INFINITY
    for (const [partition, uncounted] of this.#partitions) {
      if (uncounted.from === null || uncounted.upTo <= uncounted.from) continue
      if (rows >= ROWS) {
        groups.push([])
        rows = 0
      }
      groups.at(-1)!.push([partition, uncounted])
      for (const byNode of uncounted.totals.values()) rows += byNode.totals.size
    }
    return groups
  }

  async #writeGroup(group: readonly (readonly [number, Uncounted])[]): Promise<void> {
    const moves: WatermarkMove[] = []
    const sum = new TotalsByKey()
    // Taken before the first wait: jobs that end meanwhile belong to the next write.
    const taken = group.map(([partition, uncounted]) => {
      const { epoch, from, upTo: to, totals } = uncounted
      moves.push({ partition, epoch, from: from!, to })
      sum.merge(totals)
      uncounted.totals = new TotalsByKey()
      return { partition, uncounted, totals, to }
    })
    const name = this.#name()
    if (!moves.some(({ partition }) => partition === name.partition)) moves.push(name)
    let rollUps: RollUp[]
    try {
      rollUps = await this.#merged(name.partition, sum)
    } catch (error) {
      putBack(taken)
      throw error
    }
    await this.#settle({ taken, sent: { partition: name.partition, moves, rollUps } })
  }

  /** The first of all partitions that are ready, so that it rarely changes. Its watermark stays. */
  #name(): WatermarkMove {
    const ready = [...this.#partitions].filter(([, { from }]) => from !== null)
    const [partition, { epoch, from }] = ready.reduce((first, next) => (next[0] < first[0] ? next : first))
    return { partition, epoch, from: from!, to: from! }
  }

  /** What is stored, with these totals added. */
  async #merged(partition: number, added: TotalsByKey): Promise<RollUp[]> {
    const keys = [...added.values()].map(({ key }) => key)
    const stored = keys.length === 0 ? [] : await this.#store.readForUpdate({ partition, keys })
    const known = new Map(stored.map(rollUp => [`${keyText(rollUp)}\u001f${rollUp.node}`, rollUp.data]))
    const rollUps: RollUp[] = []
    for (const { key, totals } of added.values())
      for (const [node, more] of totals) {
        const data = known.get(`${keyText(key)}\u001f${node}`)
        const sum = data === undefined ? newTotals() : decodeTotals(data)
        mergeTotals(sum, more)
        rollUps.push({ ...key, node, data: encodeTotals(sum) })
      }
    return rollUps
  }

  /** A write whose outcome is not known is sent again unchanged, before anything else is written. */
  async #settle(write: Write): Promise<void> {
    this.#unsettled = write
    const isWritten = (await this.#store.write(write.sent)) || (await this.#wasWritten(write))
    this.#unsettled = null
    if (isWritten) for (const { uncounted, to } of write.taken) uncounted.from = to
    else putBack(write.taken)
    // A partition has moved: the others are written without it.
    if (!isWritten) this.#schedule(MIN_INTERVAL_MS)
  }

  /** A partition has moved. An earlier send may have been stored, or never will be: the watermarks of the other partitions show which. */
  async #wasWritten({ taken }: Write): Promise<boolean> {
    const { owned } = this.#parts.partitionOwner
    const ours = taken.filter(({ partition, uncounted }) => owned.get(partition)?.epoch === uncounted.epoch)
    const found = await this.#store.watermarks(ours.map(({ partition }) => ({ partition, upTo: 0 })))
    return found.some(({ partition, seq }) =>
      ours.some(each => each.partition === partition && each.to === seq),
    )
  }
}

export interface RollUpsParts {
  readonly load: LoadParts
  readonly partitionOwner: Pick<PartitionOwner, "owned">
  readonly clock: Clock
  readonly retentionSeconds: number | null
  readonly log: Log
}

/** The ends of a partition that are not written yet. */
interface Uncounted {
  readonly epoch: number
  /** The watermark; null: earlier owners may have left ends that are not counted. */
  from: number | null
  /** The seq of the last row of an ended job that is durable. */
  upTo: number
  totals: TotalsByKey
}

interface Write {
  readonly sent: Parameters<StatisticsStore["write"]>[0]
  readonly taken: readonly {
    readonly partition: number
    readonly uncounted: Uncounted
    readonly totals: TotalsByKey
    readonly to: number
  }[]
}

function putBack(taken: Write["taken"]): void {
  for (const { uncounted, totals } of taken) {
    totals.merge(uncounted.totals)
    uncounted.totals = totals
  }
}

function keyText({ owner, workflow, version, hour }: RollUpKey): string {
  return `${owner}\u001f${workflow}\u001f${version}\u001f${hour}`
}

interface KeyTotals {
  readonly key: RollUpKey
  /** By node. */
  readonly totals: Map<string, Totals>
}

/** Totals by workflow version and hour, then by node. */
class TotalsByKey {
  readonly #byText = new Map<string, KeyTotals>()
  /** Most ends are of the same version and hour as the end before. */
  #latest: KeyTotals | null = null

  add({ owner, workflow, version, at, metrics }: End): void {
    const hour = Math.floor(at / HOUR_MS) * HOUR_MS
    const latest = this.#latest?.key
    const isSame =
      latest?.hour === hour &&
      latest.version === version &&
      latest.workflow === workflow &&
      latest.owner === owner
    if (!isSame) this.#latest = this.#of({ owner, workflow, version, hour })
    addJob(this.#latest!.totals, metrics)
  }

  merge(other: TotalsByKey): void {
    for (const { key, totals } of other.values()) mergeByNode(this.#of(key).totals, totals)
  }

  values(): Iterable<KeyTotals> {
    return this.#byText.values()
  }

  #of(key: RollUpKey): KeyTotals {
    return valueIn(this.#byText, keyText(key), () => ({ key, totals: new Map() }))
  }
}
