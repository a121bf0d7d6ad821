import type { Heartbeat, Journal, PartitionEpoch, PartitionRow } from "../../journal/port/journal.ts"
import type { Log } from "../../log.ts"
import { firstSeq } from "../ids.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import type { ProviderSweep } from "../providers/sweep.ts"
import type { Recovery } from "../recovery/recovery.ts"
import type { Retention } from "../recovery/retention.ts"
import type { Wakeups } from "../recovery/wakeups.ts"
import type { Inbox } from "../remote/inbox.ts"
import { Peers } from "./peers.ts"
import { takesPartitions } from "./takes-partitions.ts"

/**
 * Which partitions this engine owns. Fence and liveness are separate: an epoch changes only at take-over, a beat only
 * says who is there. A database restart moves nothing; an owner nobody replaced just goes on.
 */
export interface OwnershipParts {
  readonly engine: string
  readonly journal: Journal
  readonly owner: PartitionOwner
  readonly recovery: Recovery
  readonly wakeups: Wakeups
  readonly inbox: Inbox
  readonly retention: Pick<Retention, "partitionsCame">
  readonly upkeep: Pick<ProviderSweep, "partitionsCame">
  readonly leaseMs: number
  readonly beatMs: number
  /** What is to be given away and does not come to rest is handed over after this. */
  readonly rebalanceMs: number
  /** For handlers that run here then. */
  readonly drainMs: number
  /** Does another engine that lives follow what is committed here? */
  readonly followed: (isFollowed: boolean) => void
  /** Others may take what was let go of here; or have somebody to give jobs to, where nobody was. */
  readonly released: () => void
  readonly log: Log
}

export class Ownership {
  readonly #parts: OwnershipParts
  readonly #peers: Peers
  /** Owned, recovered, and not about to be given to somebody else: where new jobs go. */
  readonly #ready = new Set<number>()
  /** To be given away as soon as they rest: since when. */
  readonly #leaving = new Map<number, number>()
  /** Handed over although they do not rest: nothing of them is done here any more. */
  readonly #departing = new Set<number>()
  readonly #readyWaiters = new Set<() => void>()
  #picks = 0
  /** That live, this one included. */
  #engines = 1
  /** Of each append lane that has any. */
  #readyByLane: number[][] = []
  #adjusting: Promise<void> | null = null
  #isLeaving = false
  #stopped = false

  constructor(parts: OwnershipParts) {
    this.#parts = parts
    const { leaseMs, beatMs } = parts
    this.#peers = new Peers({ leaseMs, beatMs, now: () => performance.now() })
  }

  /**
   * Where the next new job goes; null: no partition is ready here. The append lanes have the jobs by turns. Within a
   * lane a run of jobs goes to one partition before the next has its turn: an append locks the row of every partition
   * in it, and a commit over 60 of them costs twice one over a few.
   */
  pick(): number | null {
    const lanes = this.#readyByLane
    if (lanes.length === 0) return null
    const lane = lanes[this.#picks % lanes.length]!
    const turn = Math.floor(this.#picks++ / lanes.length / JOBS_PER_TURN)
    return lane[turn % lane.length]!
  }

  owns(partition: number): boolean {
    return this.#ready.has(partition) || this.#leaving.has(partition)
  }

  get count(): number {
    return this.#parts.owner.holdings.size
  }

  /** Has none although there should be one for it: it cannot take work yet. */
  get isShort(): boolean {
    return this.#mayOwn && this.#ready.size + this.#leaving.size === 0
  }

  /** More engines than partitions: some have none. */
  get #mayOwn(): boolean {
    return this.#engines <= this.#parts.journal.capabilities.partitions
  }

  partitions(): readonly number[] {
    return [...this.#ready, ...this.#leaving.keys()]
  }

  /** Resolves once at least one partition is ready, or none will be. */
  async whenReady(): Promise<void> {
    while (this.#ready.size === 0 && this.#mayOwn && !this.#stopped)
      await new Promise<void>(resolve => this.#readyWaiters.add(resolve))
  }

  /** Nobody else can hold the store: everything is ours at once. */
  async takeAll(): Promise<void> {
    await this.#take(await this.#parts.journal.readPartitions())
  }

  /** What a beat brought. One adjustment at a time; the next beat brings the rest. */
  receive(pulse: Heartbeat): void {
    if (this.#stopped) return
    this.#letGoOfLost(pulse)
    this.#adjusting ??= this.#adjust(pulse)
      .catch(error =>
        this.#parts.log.warn(
          { error: String(error) },
          "could not adjust partitions; the next beat tries again",
        ),
      )
      .finally(() => {
        this.#adjusting = null
      })
    for (const partition of pulse.inbox) if (this.owns(partition)) void this.#parts.inbox.read(partition)
  }

  /** At once, whatever else is under way. */
  #letGoOfLost({ partitions }: Heartbeat): void {
    const { owner } = this.#parts
    for (const { partition, epoch } of partitions) {
      const holding = owner.holdings.get(partition)
      if (holding !== undefined && epoch > holding.epoch) owner.fenced(partition)
    }
  }

  lost(partition: number): void {
    this.#ready.delete(partition)
    this.#leaving.delete(partition)
    this.#refresh()
  }

  /** Takes no more, and hands over at once what is at rest; what is not follows with later beats and with `release`. */
  async leave(): Promise<void> {
    this.#isLeaving = true
    await this.#adjusting
    await this.#shed(this.count)
  }

  /** Lets go of everything, so that others take it at once. Call when nothing is in flight any more. */
  async release(): Promise<void> {
    this.#stopped = true
    await this.#adjusting
    for (const wake of this.#readyWaiters) wake()
    await this.#give([...this.#parts.owner.holdings.keys()])
    const { journal, engine } = this.#parts
    if (journal.capabilities.exclusive) return
    await journal.leave(engine)
    // Until now it was counted, by those who had not heard that it takes no more.
    this.#parts.released()
  }

  async #adjust(pulse: Heartbeat): Promise<void> {
    const { engine, owner } = this.#parts
    const alive = this.#peers.alive(pulse.engines).add(engine)
    this.#parts.followed(pulse.engines.some(peer => peer.follows && alive.has(peer.engine)))
    const sharers = pulse.engines.filter(peer => alive.has(peer.engine) && takesPartitions(peer.place))
    this.#engines = sharers.length + 1
    if (!this.#mayOwn) this.#announce()
    const others = sharers.map(peer => peer.engine)
    const share = this.#isLeaving ? 0 : shareOf(others, pulse.partitions)
    await this.#shed(this.count - this.#departing.size - share)
    const free = pulse.partitions.filter(row => isFree(row, alive) && !owner.holdings.has(row.partition))
    const room = share - this.count
    if (room > 0 && free.length > 0) await this.#take(free.slice(0, room))
    await this.#disown(pulse.partitions)
  }

  /** What the store says is ours and we do not hold (a take-over that failed half way): nobody else would ever take it. */
  async #disown(rows: readonly PartitionRow[]): Promise<void> {
    const { journal, engine, owner } = this.#parts
    const held = rows.filter(row => row.owner === engine && !owner.holdings.has(row.partition))
    if (held.length > 0) await journal.releasePartitions({ engine, held })
  }

  /**
   * Gives up to `surplus` partitions away, those at rest first; the others take no new jobs from here and follow when they
   * rest. Others may send them jobs, or a job may run for hours: it is not waited for that for ever.
   */
  async #shed(surplus: number): Promise<void> {
    if (surplus <= 0) {
      for (const partition of this.#leaving.keys()) this.#ready.add(partition)
      this.#leaving.clear()
      this.#refresh()
      return
    }
    const busy = new Set<number>()
    for (const job of this.#parts.owner.jobs.values()) busy.add(job.partition)
    const restingFirst = [...this.#ready].sort((a, b) => Number(busy.has(a)) - Number(busy.has(b)))
    for (const partition of restingFirst) {
      if (this.#leaving.size >= surplus) break
      this.#leaving.set(partition, performance.now())
      this.#ready.delete(partition)
    }
    this.#refresh()
    await this.#give([...this.#leaving.keys()].filter(partition => !busy.has(partition)))
    // When the process ends, what still runs in it has the drain time, and then everything is given away.
    if (this.#isLeaving) return
    const since = performance.now() - this.#parts.rebalanceMs
    for (const [partition, leavingSince] of [...this.#leaving])
      if (leavingSince <= since) void this.#depart(partition)
  }

  /** Beside everything else: handlers may take their time to end. */
  async #depart(partition: number): Promise<void> {
    const { owner, journal, engine, drainMs, log } = this.#parts
    const holding = owner.holdings.get(partition)
    this.lost(partition)
    if (holding === undefined) return
    this.#departing.add(partition)
    try {
      await owner.departures.depart(partition, drainMs)
      await journal.releasePartitions({ engine, held: [{ partition, epoch: holding.epoch }] })
      this.#parts.released()
    } catch (error) {
      // Lost meanwhile, or the store is away: the next beat tells whose it is.
      log.debug({ partition, error: String(error) }, "a partition was not handed over")
      if (owner.holdings.get(partition) === holding) owner.forget(partition)
    } finally {
      this.#departing.delete(partition)
    }
  }

  async #take(rows: readonly PartitionRow[]): Promise<void> {
    const { journal, engine, owner, recovery, wakeups, inbox, retention, upkeep } = this.#parts
    const taken = await journal.takePartitions({ engine, expected: rows })
    if (taken.length === 0) return
    for (const { partition, epoch } of taken)
      owner.holdings.set(partition, { epoch, nextSeq: firstSeq(epoch) })
    const partitions = taken.map(row => row.partition)
    let recoveredAt: number
    try {
      recoveredAt = await recovery.recover(partitions)
    } catch (error) {
      // Half recovered is not recovered: forget them, and take them again at the next beat.
      for (const partition of partitions) owner.forget(partition)
      throw error
    }
    const isFirst = this.#ready.size === 0
    for (const partition of partitions) if (owner.holdings.has(partition)) this.#ready.add(partition)
    this.#refresh()
    if (isFirst) this.#parts.released()
    owner.broker.remote?.partitionsTaken(partitions.filter(partition => owner.holdings.has(partition)))
    this.#announce()
    retention.partitionsCame()
    upkeep.partitionsCame()
    // First what nobody would repeat: unread messages come again with the next beat, alarms do not.
    await wakeups.partitionsCame(recoveredAt)
    const waiting = await journal.readMessages({ partitions, limit: 1000 })
    for (const partition of new Set(waiting.map(message => message.partition))) await inbox.read(partition)
  }

  async #give(partitions: readonly number[]): Promise<void> {
    const { journal, engine, owner } = this.#parts
    const held: PartitionEpoch[] = []
    for (const partition of partitions) {
      const holding = owner.holdings.get(partition)
      if (holding === undefined) continue
      held.push({ partition, epoch: holding.epoch })
      owner.holdings.delete(partition)
      this.lost(partition)
    }
    owner.broker.remote?.left(partitions)
    if (held.length === 0) return
    await journal.releasePartitions({ engine, held })
    this.#parts.released()
  }

  #refresh(): void {
    const { appendLanes } = this.#parts.journal.capabilities
    const lanes = Array.from({ length: appendLanes }, () => [] as number[])
    for (const partition of this.#ready) lanes[partition % appendLanes]!.push(partition)
    this.#readyByLane = lanes.filter(lane => lane.length > 0)
  }

  #announce(): void {
    for (const wake of this.#readyWaiters) wake()
    this.#readyWaiters.clear()
  }
}

const JOBS_PER_TURN = 256

/**
 * Fair by count: in the end no two engines are more than one apart. Where it does not come out even, those that have one
 * more keep it, and only so many as there are over take one more.
 */
function shareOf(others: readonly string[], rows: readonly PartitionRow[]): number {
  const engines = others.length + 1
  const even = Math.floor(rows.length / engines)
  const countOf = (engine: string) => rows.filter(row => row.owner === engine).length
  const richer = others.filter(other => countOf(other) > even).length
  return richer < rows.length % engines ? even + 1 : even
}

function isFree(row: PartitionRow, alive: ReadonlySet<string>): boolean {
  return row.owner === null || !alive.has(row.owner)
}
