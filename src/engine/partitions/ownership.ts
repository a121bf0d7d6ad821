import type { Heartbeat, Journal, PartitionEpoch, PartitionRow } from "../../journal/port/journal.ts"
import type { Log } from "../../log.ts"
import type { EngineObserver } from "../engine.ts"
import { firstSeq, jobPartition } from "../ids.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import type { ProviderSweep } from "../providers/sweep.ts"
import type { ReasonCheck } from "../reason-check.ts"
import type { Recovery } from "../recovery/recovery.ts"
import type { Retention } from "../recovery/retention.ts"
import type { Wakeups } from "../recovery/wakeups.ts"
import type { Inbox } from "../remote/inbox.ts"
import type { RollUps } from "../statistics/roll-ups.ts"
import { Peers, takesPartitions } from "./peers.ts"
import type { ReadyPartitions } from "./ready-partitions.ts"

/**
 * Which partitions this engine owns. Fence and liveness are separate: an epoch changes only at take-over, a heartbeat
 * only shows which engines are alive. A database restart moves nothing; an owner that was not replaced continues.
 */
export interface OwnershipParts {
  readonly engine: string
  readonly journal: Journal
  readonly partitionOwner: PartitionOwner
  readonly partitions: ReadyPartitions
  readonly recovery: Recovery
  readonly wakeups: Wakeups
  readonly inbox: Inbox
  readonly retention: Pick<Retention, "partitionsAdded">
  readonly rollUps: Pick<RollUps, "partitionsAdded">
  readonly sweep: Pick<ProviderSweep, "partitionsAdded">
  readonly reasons: Pick<ReasonCheck, "partitionsAdded">
  readonly leaseMs: number
  readonly beatMs: number
  /** A partition that is to be given away and does not become idle is handed over after this time. */
  readonly rebalanceMs: number
  /** The time that handlers running here get then. */
  readonly drainMs: number
  readonly observer: Pick<EngineObserver, "followed" | "lost" | "released">
  readonly log: Log
}

export class Ownership {
  readonly #parts: OwnershipParts
  readonly #peers: Peers
  /** Handed over although they are not idle: none of their tasks begins here any more. */
  readonly #handingOver = new Set<number>()
  readonly #readyWaiters = new Set<() => void>()
  /** The number of live engines, this one included. */
  #engines = 1
  #adjusting: Promise<void> | null = null
  /** The last heartbeat, until an adjustment has begun with it. */
  #latest: Heartbeat | null = null
  #isLeaving = false
  #stopped = false

  constructor(parts: OwnershipParts) {
    this.#parts = parts
    const { leaseMs, beatMs } = parts
    this.#peers = new Peers({ leaseMs, beatMs, now: () => performance.now() })
  }

  get count(): number {
    return this.#parts.partitionOwner.owned.size
  }

  /** Owns no partition although it should own one: it cannot take work yet. */
  get isShort(): boolean {
    return this.#mayOwn && this.#parts.partitions.all().length === 0
  }

  /** With more engines than partitions some engines own none. */
  get #mayOwn(): boolean {
    return this.#engines <= this.#parts.journal.capabilities.partitions
  }

  get isReady(): boolean {
    return this.#parts.partitions.ready.size > 0
  }

  /** Resolves once at least one partition is ready, or none will be. */
  async whenReady(): Promise<void> {
    while (!this.isReady && this.#mayOwn && !this.#stopped)
      await new Promise<void>(resolve => this.#readyWaiters.add(resolve))
  }

  /** The store is exclusive: take all partitions at once. */
  async takeAll(): Promise<void> {
    await this.#take(await this.#parts.journal.readPartitions())
  }

  /** Handles the rows of a heartbeat. One adjustment runs at a time; then the latest heartbeat that arrived meanwhile has its turn. */
  receive(heartbeat: Heartbeat): void {
    if (this.#stopped) return
    this.#dropLost(heartbeat)
    this.#latest = heartbeat
    this.#adjusting ??= this.#adjustToLatest().finally(() => {
      this.#adjusting = null
    })
    const { inbox, partitions } = this.#parts
    for (const partition of heartbeat.inbox) if (partitions.owns(partition)) void inbox.read(partition)
  }

  /** An engine that leaves is announced once: if that heartbeat were dropped, its partitions would wait for the next one. */
  async #adjustToLatest(): Promise<void> {
    for (let heartbeat = this.#latest; heartbeat !== null && !this.#stopped; heartbeat = this.#latest) {
      this.#latest = null
      try {
        await this.#adjust(heartbeat)
      } catch (error) {
        const message = "could not adjust partitions; retrying with the next heartbeat"
        this.#parts.log.warn({ error: String(error) }, message)
      }
    }
  }

  /** Runs at once, also during an adjustment. */
  #dropLost({ partitions }: Heartbeat): void {
    const { partitionOwner } = this.#parts
    for (const { partition, epoch } of partitions) {
      const owned = partitionOwner.owned.get(partition)
      if (owned === undefined || epoch <= owned.epoch) continue
      partitionOwner.fenced(partition)
      this.#parts.partitions.remove(partition)
    }
  }

  /** Takes no more partitions, and hands over idle ones at once; the others follow with later heartbeats and with `release`. */
  async leave(): Promise<void> {
    this.#isLeaving = true
    await this.#adjusting
    await this.#shed(this.count)
  }

  /** Releases everything, so that others take it at once. Call when nothing is in flight any more. */
  async release(): Promise<void> {
    this.#stopped = true
    await this.#adjusting
    for (const wake of this.#readyWaiters) wake()
    await this.#give([...this.#parts.partitionOwner.owned.keys()])
    const { journal, engine } = this.#parts
    if (journal.capabilities.exclusive) return
    await journal.leave(engine)
    // Engines that had not learned that it takes no more have counted it until now.
    this.#parts.observer.released()
  }

  async #adjust(heartbeat: Heartbeat): Promise<void> {
    const { engine, partitionOwner } = this.#parts
    const alive = this.#peers.alive(heartbeat.engines).add(engine)
    this.#parts.observer.followed(heartbeat.engines.some(peer => peer.follows && alive.has(peer.engine)))
    const sharers = heartbeat.engines.filter(peer => alive.has(peer.engine) && takesPartitions(peer.place))
    this.#engines = sharers.length + 1
    if (!this.#mayOwn) this.#announce()
    const others = sharers.map(peer => peer.engine)
    const share = this.#isLeaving ? 0 : fairShare(others, heartbeat.partitions)
    await this.#shed(this.count - this.#handingOver.size - share)
    const free = heartbeat.partitions.filter(
      row => isFree(row, alive) && !partitionOwner.owned.has(row.partition),
    )
    const room = share - this.count
    if (room > 0 && free.length > 0) await this.#take(free.slice(0, room))
    await this.#disown(heartbeat.partitions)
  }

  /** Releases partitions that the store assigns to this engine but that it does not hold (a take-over that failed half way): no other engine would take them. */
  async #disown(rows: readonly PartitionRow[]): Promise<void> {
    const { journal, engine, partitionOwner } = this.#parts
    const held = rows.filter(row => row.owner === engine && !partitionOwner.owned.has(row.partition))
    if (held.length > 0) await journal.releasePartitions({ engine, held })
  }

  /**
   * Gives up to `surplus` partitions away, idle ones first; the others get no new jobs from here and follow when they are
   * idle. Other processes may send them jobs, or a job may run for hours: after `rebalanceMs` they are handed over busy.
   */
  async #shed(surplus: number): Promise<void> {
    const { partitionOwner, partitions, rebalanceMs } = this.#parts
    if (surplus <= 0) {
      partitions.add([...partitions.leaving.keys()])
      return
    }
    const busy = new Set<number>()
    for (const job of partitionOwner.jobs.values()) busy.add(job.partition)
    for (const id of partitionOwner.broker.aborted()) busy.add(jobPartition(id))
    const idleFirst = [...partitions.ready].sort((a, b) => Number(busy.has(a)) - Number(busy.has(b)))
    partitions.leave(idleFirst.slice(0, Math.max(0, surplus - partitions.leaving.size)), performance.now())
    await this.#give([...partitions.leaving.keys()].filter(partition => !busy.has(partition)))
    // When the process ends, its running handlers get the drain time, and then everything is given away.
    if (this.#isLeaving) return
    const since = performance.now() - rebalanceMs
    for (const [partition, leavingSince] of [...partitions.leaving])
      if (leavingSince <= since) void this.#handOver(partition)
  }

  /** Runs concurrently with everything else: handlers may take long to end. */
  async #handOver(partition: number): Promise<void> {
    const { partitionOwner, journal, engine, partitions, drainMs, log } = this.#parts
    const owned = partitionOwner.owned.get(partition)
    partitions.remove(partition)
    if (owned === undefined) return
    this.#handingOver.add(partition)
    try {
      await partitionOwner.handover.handOver(partition, drainMs)
      await journal.releasePartitions({ engine, held: [{ partition, epoch: owned.epoch }] })
      this.#parts.observer.released()
    } catch (error) {
      // Lost meanwhile, or the store is unavailable: the next heartbeat shows the owner.
      log.debug({ partition, error: String(error) }, "could not hand over a partition")
      if (partitionOwner.owned.get(partition) === owned) partitionOwner.forget(partition)
    } finally {
      this.#handingOver.delete(partition)
    }
  }

  async #take(rows: readonly PartitionRow[]): Promise<void> {
    const { journal, engine, partitionOwner, recovery, wakeups, inbox, retention, sweep, partitions } =
      this.#parts
    const taken = await journal.takePartitions({ engine, expected: rows })
    if (taken.length === 0) return
    for (const { partition, epoch } of taken)
      partitionOwner.owned.set(partition, { epoch, nextSeq: firstSeq(epoch) })
    const added = taken.map(row => row.partition)
    let recoveredAt: number
    try {
      recoveredAt = await recovery.recover(added)
    } catch (error) {
      // A failed recovery leaves them half recovered: forget them, and take them again with the next heartbeat.
      for (const partition of added) partitionOwner.forget(partition)
      throw error
    }
    const isFirst = partitions.ready.size === 0
    const held = added.filter(partition => partitionOwner.owned.has(partition))
    partitions.add(held)
    if (isFirst) this.#parts.observer.released()
    partitionOwner.broker.remote?.partitionsTaken(held)
    this.#announce()
    retention.partitionsAdded()
    this.#parts.rollUps.partitionsAdded()
    sweep.partitionsAdded()
    this.#parts.reasons.partitionsAdded()
    // Alarms first, because nothing repeats them; unread messages are found again with the next heartbeat.
    await wakeups.partitionsAdded(recoveredAt)
    partitionOwner.queue.partitionsAdded(held)
    const waiting = await journal.readMessages({ partitions: added, limit: 1000 })
    for (const partition of new Set(waiting.map(message => message.partition))) await inbox.read(partition)
  }

  async #give(partitions: readonly number[]): Promise<void> {
    const { journal, engine, partitionOwner } = this.#parts
    const held: PartitionEpoch[] = []
    for (const partition of partitions) {
      const owned = partitionOwner.owned.get(partition)
      if (owned === undefined) continue
      held.push({ partition, epoch: owned.epoch })
      partitionOwner.owned.delete(partition)
      this.#parts.partitions.remove(partition)
      this.#parts.observer.lost(partition)
    }
    partitionOwner.broker.remote?.left(partitions)
    if (held.length === 0) return
    await journal.releasePartitions({ engine, held })
    this.#parts.observer.released()
  }

  #announce(): void {
    for (const wake of this.#readyWaiters) wake()
    this.#readyWaiters.clear()
  }
}

/**
 * Fair by count: in the end no two engines differ by more than one. Where the division leaves a remainder, engines that
 * have one more keep it, and only as many engines as the remainder take one more.
 */
function fairShare(others: readonly string[], rows: readonly PartitionRow[]): number {
  const engines = others.length + 1
  const even = Math.floor(rows.length / engines)
  const count = (engine: string) => rows.filter(row => row.owner === engine).length
  const larger = others.filter(other => count(other) > even).length
  return larger < rows.length % engines ? even + 1 : even
}

function isFree(row: PartitionRow, alive: ReadonlySet<string>): boolean {
  return row.owner === null || !alive.has(row.owner)
}
