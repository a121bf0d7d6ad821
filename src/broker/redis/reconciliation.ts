import { randomUUID } from "node:crypto"
import type { Log } from "../../log.ts"
import { nameFrom } from "../task-name.ts"
import { RedisAwayError } from "./client/connection.ts"
import { type Link, makeGroups } from "./client/link.ts"
import { type Keys, OWNERS } from "./keys.ts"
import type { Outstanding, OutstandingTasks } from "./outstanding.ts"
import type { Results } from "./results.ts"
import type { Roster } from "./roster.ts"
import type { RedisSettings } from "./settings.ts"
import { type Found, survey } from "./survey.ts"
import { sweepConsumers, sweepKeys } from "./sweep.ts"
import type { Control } from "./wire.ts"

export interface ReconciliationParts {
  readonly link: Link
  readonly engine: string
  readonly settings: RedisSettings
  readonly roster: Roster
  readonly results: Results
  readonly tasks: Pick<OutstandingTasks, "get" | "has" | "values">
  /** Of a partition that is ours, with all its tasks in `tasks`. */
  readonly epochOf: (partition: number) => number | undefined
  readonly partitionOf: (jobId: string) => number
  readonly lost: (tasks: readonly Outstanding[]) => void
  readonly again: (task: Outstanding) => void
  /** Takes entries out of the handler's stream. */
  readonly remove: (handler: string, entries: readonly string[]) => void
  readonly say: (control: Control) => void
  readonly served: (handler: string) => void
  /** It is known again who lives. */
  readonly looked: () => void
  readonly log: Log
}

/**
 * Compares what this engine believes to be with workers with what is: after a connection was lost, when Redis has
 * forgotten everything, when a worker died, when partitions came, and from time to time.
 *
 *     in its stream, handed to nobody or to somebody who lives   → as it should be
 *     in its stream, handed to somebody who is dead              → lost
 *     in no stream, in the hand of somebody who lives            → as it should be
 *     in no stream, in nobody's hand                             → sent again; lost, if an earlier owner had sent it
 *
 * A task's entry leaves its stream only after its end is in the journal, so one without an entry, of which no result
 * lies there either, never arrived or was forgotten by Redis.
 */
export class Reconciliation {
  readonly #parts: ReconciliationParts
  readonly #timer: NodeJS.Timeout
  #marker: string | null = null
  /** Is it known where the tasks of this engine are? */
  #isDone = false
  #isWanted = false
  #isRunning = false
  #isStopped = false
  readonly #claims = new Set<number>()
  #claimedAt = 0

  constructor(parts: ReconciliationParts) {
    this.#parts = parts
    this.#timer = setInterval(() => this.#look(), parts.settings.rosterSeconds * 1000)
    this.#timer.unref()
  }

  /** There is a connection. */
  start(keys: Keys): void {
    this.#isDone = false
    this.came(this.#parts.results.partitions)
    sweepKeys(this.#parts.link, keys).catch(() => {})
  }

  /** These partitions came: what their last owner had read and not stored is read at once. */
  came(partitions: readonly number[]): void {
    for (const partition of partitions) this.#claims.add(partition)
    this.ask()
  }

  ask(): void {
    this.#isWanted = true
    void this.#look()
  }

  /** With the next look at the roster. */
  askLater(): void {
    this.#isWanted = true
  }

  stop(): void {
    this.#isStopped = true
    clearInterval(this.#timer)
  }

  async #look(): Promise<void> {
    if (this.#isRunning || this.#isStopped) return
    this.#isRunning = true
    try {
      do {
        const { keys } = this.#parts.link
        if (keys === null) return
        if (!(await this.#lookOnce(keys))) return
      } while (this.#isWanted && this.#isDone)
    } catch (error) {
      this.#isWanted = true
      if (!(error instanceof RedisAwayError))
        this.#parts.log.warn({ error: String(error) }, "could not look where tasks are; trying again")
    } finally {
      this.#isRunning = false
    }
  }

  /** False: with the rest it has to be waited. */
  async #lookOnce(keys: Keys): Promise<boolean> {
    const { roster, results, served } = this.#parts
    if (await this.#hasForgotten(keys)) {
      roster.forget()
      this.#isDone = false
      for (const partition of results.partitions) this.#claims.add(partition)
    }
    const news = await roster.look(keys, () => this.#isForgottenSince(keys))
    if (news === null) return false
    // Now: it is said once, and what follows may fail.
    for (const handler of news.served) served(handler)
    await this.#claim(keys)
    const isWanted = !this.#isDone || this.#isWanted || news.gone.length > 0 || !roster.isComplete
    const isSettled = !isWanted || (await this.#settleTasks(keys))
    this.#stopStale()
    this.#parts.looked()
    return isSettled
  }

  /** False: what lies there cannot be read, as the journal takes nothing. Who lives is looked at all the same. */
  async #settleTasks(keys: Keys): Promise<boolean> {
    this.#isWanted = false
    if (await this.#parts.results.delivered()) {
      await this.#reconcile(keys)
      return true
    }
    this.#isWanted = true
    return false
  }

  /** A marker of somebody else's is as good as ours: both say that nothing was forgotten since. */
  async #hasForgotten(keys: Keys): Promise<boolean> {
    const marker = await this.#readMarker(keys)
    const before = this.#marker
    this.#marker = marker
    if (before === null && marker !== null) await this.#expectStrangers(marker)
    const isChanged = before !== null && marker !== before
    if (isChanged)
      this.#parts.log.warn({}, "Redis has forgotten everything; what is not in anybody's hand is sent again")
    return isChanged
  }

  /** From now on nothing is run that an earlier owner sends: it may have stood still, and not know. */
  async #announce(keys: Keys, partitions: readonly number[]): Promise<void> {
    const { link, epochOf, say } = this.#parts
    const epochs = partitions.flatMap(partition => {
      const epoch = epochOf(partition)
      return epoch === undefined ? [] : [[partition, epoch] as const]
    })
    if (epochs.length === 0) return
    const scores = epochs.flatMap(([partition, epoch]) => [String(epoch), String(partition)])
    await link.send(["ZADD", keys.epochs, "GT", ...scores])
    say({ type: "epochs", epochs })
  }

  /** It begins with the time of its making, by Redis's clock. */
  async #readMarker(keys: Keys): Promise<string | null> {
    const { link } = this.#parts
    const found = (await link.send(["GET", keys.marker])) as string | null
    if (found !== null) return found
    await link.send(["SET", keys.marker, `${await this.#redisSeconds()}-${randomUUID()}`, "NX"])
    return (await link.send(["GET", keys.marker])) as string | null
  }

  /** Whoever has just started cannot know who lived before Redis forgot them: they have a death time to say so. */
  async #expectStrangers(marker: string): Promise<void> {
    const age = (await this.#redisSeconds()) - Number.parseInt(marker, 10)
    this.#parts.roster.expectStrangers((this.#parts.settings.workerDeadSeconds - age) * 1000)
  }

  async #redisSeconds(): Promise<number> {
    const [seconds] = (await this.#parts.link.send(["TIME"])) as [string]
    return Number(seconds)
  }

  async #claim(keys: Keys): Promise<void> {
    const { link, results, settings } = this.#parts
    const came = [...this.#claims].filter(partition => results.has(partition))
    await this.#announce(keys, came)
    await makeGroups(
      link,
      came.map(partition => keys.results(partition)),
      OWNERS,
    )
    await results.claim(came, 0)
    for (const partition of came) this.#claims.delete(partition)
    const now = performance.now()
    if (now - this.#claimedAt < settings.claimEverySeconds * 1000) return
    this.#claimedAt = now
    await results.claim(results.partitions, settings.claimAfterSeconds * 1000)
    await this.#sweep(keys)
    // Whatever slipped through: a task can be handed to somebody who was dead to us already.
    this.#isWanted = true
  }

  #sweep(keys: Keys): Promise<void> {
    const { link, roster, results, engine } = this.#parts
    const isLive = (name: string) => name === engine || roster.isLive(name)
    return sweepConsumers(link, keys, { handlers: roster.handlers, partitions: results.partitions, isLive })
  }

  async #reconcile(keys: Keys): Promise<void> {
    const { link, roster, tasks } = this.#parts
    // Before anything is looked at: what is sent from here on is not missed.
    const before = tasks.values().filter(task => task.state !== "queued" && this.#isDrained(task))
    const handlers = new Set([...before.map(({ handler }) => handler), ...roster.handlers])
    const { found, spare } = await survey(link, handlers, worker => roster.isLive(worker))
    if (await this.#isForgottenSince(keys)) {
      this.#isWanted = true
      return
    }
    this.#isDone = this.#settle(before, found)
    this.#removeStrays(found)
    for (const [name, { handler, entry, epoch }] of spare)
      if (this.#isOurs(name, epoch)) this.#parts.remove(handler, [entry])
  }

  /** Of a partition that is being taken over nobody can say what is lost: results of its tasks may lie there unread. */
  #isDrained({ task }: Outstanding): boolean {
    const { epochOf, partitionOf } = this.#parts
    const partition = partitionOf(task.jobId)
    return epochOf(partition) !== undefined && !this.#claims.has(partition)
  }

  /** Or since there was another connection: an old snapshot may have the marker of its day. */
  async #isForgottenSince(keys: Keys): Promise<boolean> {
    const { link } = this.#parts
    return (await link.send(["GET", keys.marker])) !== this.#marker || link.keys !== keys
  }

  /** False if somebody who may have tasks in hand has not been heard of yet. */
  #settle(before: readonly Outstanding[], found: ReadonlyMap<string, Found>): boolean {
    const { roster, tasks, lost, again } = this.#parts
    const held = roster.held()
    const gone: Outstanding[] = []
    let isSure = true
    for (const task of before) {
      if (tasks.get(task.name) !== task) continue
      const place = found.get(task.name)
      if (place !== undefined) {
        task.entry = place.entry
        if (place.holder === null || roster.isLive(place.holder)) task.state = "sent"
        else gone.push(task)
      } else if (task.state === "sent" && task.entry === null) {
        // On its way at this moment.
      } else if (held.has(task.name)) task.state = "sent"
      else if (!roster.isComplete) isSure = false
      else if (task.content === null) gone.push(task)
      else again(task)
    }
    for (const { handler, entry } of gone) if (entry !== null) this.#parts.remove(handler, [entry])
    lost(gone)
    return isSure
  }

  /** Entries that nobody waits for: their jobs have gone on, or ended, while another engine owned them. */
  #removeStrays(found: ReadonlyMap<string, Found>): void {
    for (const [name, { handler, entry, epoch }] of found)
      if (this.#isStray(name, epoch)) this.#parts.remove(handler, [entry])
  }

  /** A cancellation that a worker missed. */
  #stopStale(): void {
    const { roster, say } = this.#parts
    const stale = [...roster.held()].filter(([name, epoch]) => this.#isStray(name, epoch))
    if (stale.length > 0) say({ type: "cancel", names: stale.map(([name]) => name) })
  }

  /** Of our partition, and nobody waits for it. */
  #isStray(name: string, epoch: number): boolean {
    return this.#isOurs(name, epoch) && !this.#parts.tasks.has(name)
  }

  /** What a later owner has sent is its own affair: we may be the one who does not know. */
  #isOurs(name: string, epoch: number): boolean {
    const { epochOf, partitionOf } = this.#parts
    const own = epochOf(partitionOf(nameFrom(name).jobId))
    return own !== undefined && epoch <= own
  }
}
