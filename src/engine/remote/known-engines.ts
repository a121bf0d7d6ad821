import type { EngineBeat, Heartbeat } from "../../journal/port/journal.ts"
import { Peers, StaleBeats, takesPartitions } from "../partitions/peers.ts"

/**
 * Which other engines are alive, and what they own, according to the last heartbeat: for code that sends jobs and
 * commands to them. It is a hint. A message for an owner that has died meanwhile waits for the next owner.
 */
export class KnownEngines {
  readonly #peers: Peers
  readonly #stale: StaleBeats
  readonly #random: () => number
  /** Engines that take jobs and own partitions. */
  #takers: readonly Taker[] = []
  /** The partitions of engines that are not known to be silent, if there are any. */
  #partitions: (readonly number[])[] = []
  /** Engines that left a command without an answer, and their heartbeat at that time: after the next heartbeat they are used again. */
  readonly #silent = new Map<string, number>()
  #anyAlive = false
  #livePartitions: ReadonlySet<number> = new Set()
  #hadTaker = false
  #engines: Heartbeat["engines"] = []
  #owned: Heartbeat["partitions"] = []
  #isKnown = false
  #isStopped = false
  #waiters: (() => void)[] = []
  #picks: number

  constructor(parts: { leaseMs: number; beatMs: number; now: () => number; random: () => number }) {
    const { leaseMs, beatMs } = parts
    this.#peers = new Peers({ leaseMs, beatMs, now: () => performance.now() })
    this.#stale = new StaleBeats({ deadMs: leaseMs, now: parts.now })
    this.#random = parts.random
    this.#picks = this.#randomStart()
  }

  receive({ engines, partitions }: Heartbeat): void {
    this.#engines = engines
    this.#owned = partitions
    const living = this.#peers.alive(engines)
    this.#stale.receive(engines)
    const isLive = (row: EngineBeat) => living.has(row.engine) && !this.#stale.has(row)
    const live = engines.filter(isLive)
    const takers = live.filter(({ place }) => takesPartitions(place))
    const owned = new Map<string, number[]>(live.map(({ engine }) => [engine, []]))
    for (const { owner, partition } of partitions) if (owner !== null) owned.get(owner)?.push(partition)
    this.#takers = takers
      .map(({ engine, beat }) => ({ engine, beat, partitions: owned.get(engine)! }))
      .filter(taker => taker.partitions.length > 0)
    this.#choose()
    this.#hadTaker ||= this.hasTaker
    // An engine that is about to end still answers.
    this.#livePartitions = new Set([...owned.values()].flat())
    this.#anyAlive = takers.length > 0 || [...owned.values()].some(list => list.length > 0)
    this.#isKnown = true
    for (const wake of this.#waiters.splice(0)) wake()
  }

  /** No engine answered a command for this partition. */
  unanswered(partition: number): void {
    const taker = this.#takers.find(({ partitions }) => partitions.includes(partition))
    if (taker !== undefined) this.#silent.set(taker.engine, taker.beat)
    this.#choose()
  }

  #choose(): void {
    for (const [engine, beat] of this.#silent)
      if (!this.#takers.some(taker => taker.engine === engine && taker.beat === beat))
        this.#silent.delete(engine)
    const responsive = this.#takers.filter(({ engine }) => !this.#silent.has(engine))
    this.#partitions = (responsive.length > 0 ? responsive : this.#takers).map(({ partitions }) => partitions)
  }

  /** Is there an engine that could answer, now or after a take-over? Before the first heartbeat this is not known. */
  get mayAnswer(): boolean {
    return this.#anyAlive || !this.#isKnown
  }

  /** The last owner of a partition that no live engine owns. null: an engine is alive, or none is known yet. */
  awayOwner(partition: number): AwayOwner | null {
    if (this.mayAnswer) return null
    const engine = this.#owned.find(row => row.partition === partition)?.owner ?? null
    return { engine, beat: this.#engines.find(row => row.engine === engine)?.beat ?? null }
  }

  /** The partitions of live engines. */
  get livePartitions(): ReadonlySet<number> {
    return this.#livePartitions
  }

  /** Does a live engine take jobs? */
  get hasTaker(): boolean {
    return this.#partitions.length > 0
  }

  /** Has one done so since this process started? */
  get hadTaker(): boolean {
    return this.#hadTaker
  }

  /**
   * Resolves with the first heartbeat; and while a live engine has not taken its partitions yet, as when all processes
   * start together, once it has, or after `patienceMs`.
   */
  async whenKnown(patienceMs: number): Promise<void> {
    const until = performance.now() + patienceMs
    while (!this.#isKnown && !this.#isStopped) await this.#nextBeat()
    while (!this.hasTaker && this.#anyAlive && !this.#isStopped && performance.now() < until)
      await this.#nextBeat(until - performance.now())
  }

  /** Resolves with the first heartbeat, or after `patienceMs`. */
  async whenFirstHeartbeat(patienceMs: number): Promise<void> {
    if (!this.#isKnown) await this.whenNextHeartbeat(patienceMs)
  }

  async whenNextHeartbeat(patienceMs: number): Promise<void> {
    if (!this.#isStopped) await this.#nextBeat(patienceMs)
  }

  #nextBeat(atMostMs?: number): Promise<void> {
    return new Promise(resolve => {
      const timer = atMostMs === undefined ? undefined : setTimeout(resolve, atMostMs)
      this.#waiters.push(() => {
        clearTimeout(timer)
        resolve()
      })
    })
  }

  /** Ends all waits when this process ends. */
  stop(): void {
    this.#isStopped = true
    for (const wake of this.#waiters.splice(0)) wake()
  }

  /**
   * The partition of a new job: the engines get jobs in turns. Within an engine a run of jobs goes to one partition before
   * the next gets its turn, because an append over few partitions costs less (ownership.ts).
   */
  pick(): number | null {
    const engines = this.#partitions
    if (engines.length === 0) return null
    const own = engines[this.#picks % engines.length]!
    const turn = Math.floor(this.#picks++ / engines.length / JOBS_PER_TURN)
    return own[turn % own.length]!
  }

  /** A random start, so that several processes that submit jobs begin at different places. */
  #randomStart(): number {
    return Math.floor(this.#random() * PLACES)
  }
}

/** An engine that owned a job, and is not alive any more; `engine` null: it shut down cleanly. */
export interface AwayOwner {
  readonly engine: string | null
  /** The time of its last heartbeat, by its own clock; null: not known. */
  readonly beat: number | null
}

interface Taker {
  readonly engine: string
  readonly beat: number
  readonly partitions: readonly number[]
}

const JOBS_PER_TURN = 256
const PLACES = 2 ** 24
