import { randomUUID } from "node:crypto"
import type { Log } from "../../log.ts"
import { parseAttemptName } from "../port.ts"
import { RedisAwayError, type Reply } from "./client/connection.ts"
import { isNoGroup, type Link, makeGroups } from "./client/link.ts"
import { type Keys, OWNERS, WORKERS } from "./keys.ts"
import type { OutstandingTask, OutstandingTasks } from "./outstanding.ts"
import type { Results } from "./results.ts"
import type { Roster } from "./roster.ts"
import type { RedisSettings } from "./settings.ts"
import { type Control, decodeLabel, type Fields } from "./wire.ts"

interface ReconciliationParts {
  readonly link: Link
  readonly engine: string
  readonly settings: RedisSettings
  readonly roster: Roster
  readonly results: Results
  readonly tasks: Pick<OutstandingTasks, "get" | "has" | "values">
  /** The epoch of a partition that this engine owns and whose tasks are all in `tasks`. */
  readonly ownedEpoch: (partition: number) => number | undefined
  readonly jobPartition: (jobId: string) => number
  readonly lost: (tasks: readonly OutstandingTask[]) => void
  readonly resend: (task: OutstandingTask) => void
  /** Removes entries from the handler's stream. */
  readonly remove: (handler: string, entries: readonly string[]) => void
  readonly publish: (control: Control) => void
  readonly served: (handler: string) => void
  /** It is known again which workers are alive. */
  readonly rosterKnown: () => void
  readonly log: Log
}

/**
 * Compares the tasks that this engine believes to be with workers with the state of Redis: after a connection
 * was lost, when Redis has lost its data, when a worker died, when partitions were taken over, and periodically.
 *
 *     in its stream, not delivered or held by a live worker   → nothing to do
 *     in its stream, held by a dead worker                    → lost
 *     in no stream, held by a live worker                     → nothing to do
 *     in no stream, held by no worker                         → resent; lost, if an earlier owner had sent it
 *
 * The entry of a task leaves its stream only after the task's end is in the journal. So a task without an entry
 * and without a result in Redis never arrived there, or Redis lost it.
 */
export class Reconciliation {
  readonly #parts: ReconciliationParts
  readonly #timer: NodeJS.Timeout
  #marker: string | null = null
  /** Is it known where the tasks of this engine are? */
  #isDone = false
  #isWanted = false
  #running: Promise<void> | null = null
  #isStopped = false
  readonly #claims = new Set<number>()
  #claimedAt = 0

  constructor(parts: ReconciliationParts) {
    this.#parts = parts
    this.#timer = setInterval(() => this.#run(), parts.settings.rosterSeconds * 1000)
    this.#timer.unref()
  }

  /** A connection was established. */
  start(keys: Keys): void {
    this.#isDone = false
    this.partitionsTaken(this.#parts.results.partitions)
    sweepKeys(this.#parts.link, keys).catch(() => {})
  }

  /**
   * This engine took over these partitions: the reports that their last owner had read and not stored are
   * read at once.
   */
  partitionsTaken(partitions: readonly number[]): void {
    for (const partition of partitions) this.#claims.add(partition)
    this.request()
  }

  request(): void {
    this.#isWanted = true
    void this.#run()
  }

  /** Runs a reconciliation at the next roster poll. */
  requestLater(): void {
    this.#isWanted = true
  }

  /** Resolves when the roster has been read after this call, unless Redis is unavailable. */
  async refresh(): Promise<void> {
    await this.#running
    await this.#run()
  }

  stop(): void {
    this.#isStopped = true
    clearInterval(this.#timer)
  }

  #run(): Promise<void> {
    if (this.#isStopped) return Promise.resolve()
    this.#running ??= this.#runUntilSettled().finally(() => {
      this.#running = null
    })
    return this.#running
  }

  async #runUntilSettled(): Promise<void> {
    try {
      do {
        const { keys } = this.#parts.link
        if (keys === null) return
        if (!(await this.#runOnce(keys))) return
      } while (this.#isWanted && this.#isDone)
    } catch (error) {
      this.#isWanted = true
      if (!(error instanceof RedisAwayError))
        this.#parts.log.warn({ error: String(error) }, "could not reconcile tasks with Redis; retrying")
    }
  }

  /** Returns false if the rest must wait. */
  async #runOnce(keys: Keys): Promise<boolean> {
    const { roster, results, served } = this.#parts
    if (await this.#hasLostData(keys)) {
      roster.dataLost()
      this.#isDone = false
      for (const partition of results.partitions) this.#claims.add(partition)
    }
    const news = await roster.poll(keys, () => this.#hasLostDataSince(keys))
    if (news === null) return false
    // Now: it is reported only once, and the next steps may fail.
    for (const handler of news.served) served(handler)
    await this.#claim(keys)
    const isWanted = !this.#isDone || this.#isWanted || news.gone.length > 0 || !roster.isComplete
    const isSettled = !isWanted || (await this.#settleTasks(keys))
    this.#stopStale()
    this.#parts.rosterKnown()
    return isSettled
  }

  /**
   * Returns false if the results cannot be read because the journal accepts nothing. The roster is read in
   * any case.
   */
  async #settleTasks(keys: Keys): Promise<boolean> {
    this.#isWanted = false
    if (await this.#parts.results.delivered()) {
      await this.#reconcile(keys)
      return true
    }
    this.#isWanted = true
    return false
  }

  /** The marker of another process is as good as ours: both prove that Redis has lost nothing since. */
  async #hasLostData(keys: Keys): Promise<boolean> {
    const marker = await this.#readMarker(keys)
    const before = this.#marker
    this.#marker = marker
    if (before === null && marker !== null) await this.#expectUnknownWorkers(marker)
    const isChanged = before !== null && marker !== before
    if (isChanged) this.#parts.log.warn({}, "Redis lost its data; resending tasks that no worker holds")
    return isChanged
  }

  /**
   * From now on workers run nothing that an earlier owner sends: it may have been suspended, and not know
   * that it was replaced.
   */
  async #announce(keys: Keys, partitions: readonly number[]): Promise<void> {
    const { link, ownedEpoch, publish } = this.#parts
    const epochs = partitions.flatMap(partition => {
      const epoch = ownedEpoch(partition)
      return epoch === undefined ? [] : [[partition, epoch] as const]
    })
    if (epochs.length === 0) return
    const scores = epochs.flatMap(([partition, epoch]) => [String(epoch), String(partition)])
    await link.send(["ZADD", keys.epochs, "GT", ...scores])
    publish({ type: "epochs", epochs })
  }

  /** The marker begins with the time of its creation, by Redis's clock. */
  async #readMarker(keys: Keys): Promise<string | null> {
    const { link } = this.#parts
    const found = (await link.send(["GET", keys.marker])) as string | null
    if (found !== null) return found
    await link.send(["SET", keys.marker, `${await this.#redisSeconds()}-${randomUUID()}`, "NX"])
    return (await link.send(["GET", keys.marker])) as string | null
  }

  /**
   * A process that has just started cannot know which workers were alive before Redis lost its data: they
   * have one death timeout to register again.
   */
  async #expectUnknownWorkers(marker: string): Promise<void> {
    const age = (await this.#redisSeconds()) - Number.parseFloat(marker)
    this.#parts.roster.expectUnknownWorkers((this.#parts.settings.workerDeadSeconds - age) * 1000)
  }

  async #redisSeconds(): Promise<number> {
    const [seconds, microseconds] = (await this.#parts.link.send(["TIME"])) as [string, string]
    return Number(seconds) + Number(microseconds) / 1e6
  }

  async #claim(keys: Keys): Promise<void> {
    const { link, results, settings } = this.#parts
    const partitionsTaken = [...this.#claims].filter(partition => results.has(partition))
    await this.#announce(keys, partitionsTaken)
    await makeGroups(
      link,
      partitionsTaken.map(partition => keys.results(partition)),
      OWNERS,
    )
    await results.claim(partitionsTaken, 0)
    for (const partition of partitionsTaken) this.#claims.delete(partition)
    const now = performance.now()
    if (now - this.#claimedAt < settings.claimEverySeconds * 1000) return
    this.#claimedAt = now
    await results.claim(results.partitions, settings.claimAfterSeconds * 1000)
    await this.#sweep(keys)
    // A fallback: a task can be delivered to a worker that this engine already considered dead.
    this.#isWanted = true
  }

  #sweep(keys: Keys): Promise<void> {
    const { link, roster, results, engine } = this.#parts
    const isLive = (name: string) => name === engine || roster.isLive(name)
    return sweepConsumers(link, keys, { handlers: roster.handlers, partitions: results.partitions, isLive })
  }

  async #reconcile(keys: Keys): Promise<void> {
    const { link, roster, tasks } = this.#parts
    // Before anything is read: tasks that are sent from here on are not considered missing.
    const before = tasks.values().filter(task => task.state !== "queued" && this.#isDrained(task))
    const handlers = new Set([...before.map(({ handler }) => handler), ...roster.handlers])
    const places = await survey(link, handlers)
    const { dead, isSure } = await roster.findDeadHolders(keys, collectHolders(places))
    if (await this.#hasLostDataSince(keys)) {
      this.#isWanted = true
      return
    }
    const { found, spare } = choose(places, dead)
    this.#isDone = this.#settle(before, found, dead) && isSure
    this.#removeStrays(found)
    for (const [name, { handler, entry, epoch }] of spare)
      if (this.#isOurs(name, epoch)) this.#parts.remove(handler, [entry])
  }

  /**
   * While a partition is being taken over, no task of it can be declared lost: its results may lie in the
   * stream unread.
   */
  #isDrained({ task }: OutstandingTask): boolean {
    const { ownedEpoch, jobPartition } = this.#parts
    const partition = jobPartition(task.jobId)
    return ownedEpoch(partition) !== undefined && !this.#claims.has(partition)
  }

  /** Or since an earlier connection: an old snapshot may contain the marker of its time. */
  async #hasLostDataSince(keys: Keys): Promise<boolean> {
    const { link } = this.#parts
    return (await link.send(["GET", keys.marker])) !== this.#marker || link.keys !== keys
  }

  /** Returns false if a worker that may hold tasks has not registered yet. */
  #settle(
    before: readonly OutstandingTask[],
    found: ReadonlyMap<string, Found>,
    dead: ReadonlySet<string>,
  ): boolean {
    const { roster, tasks, lost, resend } = this.#parts
    const held = roster.held()
    const gone: OutstandingTask[] = []
    let isSure = true
    for (const task of before) {
      if (tasks.get(task.name) !== task) continue
      const place = found.get(task.name)
      if (place !== undefined) {
        task.entry = place.entry
        if (place.holder !== null && dead.has(place.holder)) gone.push(task)
        else task.state = "sent"
      } else if (task.state === "sent" && task.entry === null) {
        // In transit at this moment.
      } else if (held.has(task.name)) task.state = "sent"
      else if (!roster.isComplete) isSure = false
      else if (task.content === null) gone.push(task)
      else resend(task)
    }
    for (const { handler, entry } of gone) if (entry !== null) this.#parts.remove(handler, [entry])
    lost(gone)
    return isSure
  }

  /** Entries that no job waits for: the jobs have continued, or ended, while another engine owned them. */
  #removeStrays(found: ReadonlyMap<string, Found>): void {
    for (const [name, { handler, entry, epoch }] of found)
      if (this.#isStray(name, epoch)) this.#parts.remove(handler, [entry])
  }

  /** A cancellation that a worker missed. */
  #stopStale(): void {
    const { roster, publish } = this.#parts
    const stale = [...roster.held()].filter(([name, epoch]) => this.#isStray(name, epoch))
    if (stale.length > 0) publish({ type: "cancel", names: stale.map(([name]) => name) })
  }

  /** The task is of our partition, and no job waits for it. */
  #isStray(name: string, epoch: number): boolean {
    return this.#isOurs(name, epoch) && !this.#parts.tasks.has(name)
  }

  /** A task of a later owner is left alone: this engine may be the one that was replaced. */
  #isOurs(name: string, epoch: number): boolean {
    const { ownedEpoch, jobPartition } = this.#parts
    const own = ownedEpoch(jobPartition(parseAttemptName(name).jobId))
    return own !== undefined && epoch <= own
  }
}

/** A task as it lies in the stream of its handler. */
interface Found {
  readonly handler: string
  readonly entry: string
  /** The epoch of the sender. */
  readonly epoch: number
  /** The worker to which it was delivered; null: not delivered yet. */
  readonly holder: string | null
}

/** By the names of the tasks. A task was sent twice if an entry in transit was considered lost. */
type Places = ReadonlyMap<string, readonly Found[]>

/** Reads the streams of these handlers. They are short: see `Window`. */
async function survey(link: Link, handlers: Iterable<string>): Promise<Places> {
  const places = new Map<string, Found[]>()
  for (const handler of handlers) {
    const { keys } = link
    if (keys === null) break
    for (const [name, place] of await surveyOne(link, keys.tasks(handler), handler)) {
      const known = places.get(name)
      if (known === undefined) places.set(name, [place])
      else known.push(place)
    }
  }
  return places
}

function collectHolders(places: Places): string[] {
  return [...places.values()].flat().flatMap(({ holder }) => holder ?? [])
}

interface Survey {
  readonly found: ReadonlyMap<string, Found>
  /** Duplicates of these tasks that no live worker holds: each would be run again. */
  readonly spare: readonly (readonly [name: string, Found])[]
}

/** Chooses one entry for each task. An entry that a live worker holds takes precedence. */
function choose(places: Places, dead: ReadonlySet<string>): Survey {
  const found = new Map<string, Found>()
  const spare: (readonly [string, Found])[] = []
  const rank = ({ holder }: Found) => (holder === null ? 1 : dead.has(holder) ? 0 : IN_HAND)
  for (const [name, entries] of places) {
    const [best, ...others] = entries.toSorted((a, b) => rank(b) - rank(a) || b.epoch - a.epoch)
    found.set(name, best!)
    for (const other of others) if (rank(other) < IN_HAND) spare.push([name, other])
  }
  return { found, spare }
}

const IN_HAND = 2

async function surveyOne(link: Link, stream: string, handler: string): Promise<[string, Found][]> {
  // The entries first: an entry delivered afterwards is seen as pending too, and one that has ended is not
  // missed.
  const entries = await readAllPages(link, from => ["XRANGE", stream, from, "+", "COUNT", PAGE])
  const pending = await readAllPages(link, from => ["XPENDING", stream, WORKERS, from, "+", PAGE]).catch(
    noneIfNoGroup,
  )
  const holders = new Map(pending.map(row => [row[0] as string, row[1] as string]))
  return (entries as [string, Fields][]).flatMap(([entry, fields]) => {
    const label = decodeLabel(fields)
    // Not a task: the worker that receives it drops it.
    if (label === null) return []
    return [[label.name, { handler, entry, epoch: label.epoch, holder: holders.get(entry) ?? null }]]
  })
}

const PAGE = "1000"

/** All rows of a command that answers in pages. Each row begins with the id of its entry. */
async function readAllPages(link: Link, page: (from: string) => string[]): Promise<readonly Reply[][]> {
  const rows: Reply[][] = []
  for (let from = "-"; ; ) {
    const found = (await link.send(page(from))) as Reply[][]
    rows.push(...found)
    if (found.length < Number(PAGE)) return rows
    from = `(${found.at(-1)![0]}`
  }
}

function noneIfNoGroup(error: unknown): readonly Reply[][] {
  if (isNoGroup(error)) return []
  throw error
}

/** Removes keys of an earlier run of the server, restored from an old snapshot. */
async function sweepKeys(link: Link, keys: Keys): Promise<void> {
  for (let cursor = "0"; ; ) {
    const scan = ["SCAN", cursor, "MATCH", keys.ofAllRuns, "COUNT", "1000"]
    const [next, found] = (await link.send(scan)) as [string, string[]]
    const old = found.filter(key => keys.isOfAnotherRun(key))
    if (old.length > 0) await link.send(["UNLINK", ...old])
    if (next === "0") return
    cursor = next
  }
}

interface Sweep {
  readonly handlers: Iterable<string>
  readonly partitions: Iterable<number>
  /** Consumers that may still read: workers, and this engine. */
  readonly isLive: (consumer: string) => boolean
}

/** Only consumers without pending entries: deleting a consumer also deletes its pending entries. */
async function sweepConsumers(
  link: Link,
  keys: Keys,
  { handlers, partitions, isLive }: Sweep,
): Promise<void> {
  for (const handler of handlers) await sweepGroup(link, keys.tasks(handler), WORKERS, isLive)
  for (const partition of partitions) await sweepGroup(link, keys.results(partition), OWNERS, isLive)
}

async function sweepGroup(
  link: Link,
  stream: string,
  group: string,
  isLive: (consumer: string) => boolean,
): Promise<void> {
  const rows = await link
    .send(["XINFO", "CONSUMERS", stream, group])
    .catch(error => (isNoGroup(error) || /no such key/.test(String(error)) ? [] : Promise.reject(error)))
  for (const row of rows as Reply[][]) {
    const consumer = Object.fromEntries(pairs(row)) as { name: string; pending: number; idle: number }
    if (consumer.pending === 0 && consumer.idle > LEFT_MS && !isLive(consumer.name))
      await link.send(["XGROUP", "DELCONSUMER", stream, group, consumer.name])
  }
}

function pairs(row: readonly Reply[]): [string, Reply][] {
  return row.flatMap((value, at) =>
    at % 2 === 0 ? [[value as string, row[at + 1]!] as [string, Reply]] : [],
  )
}

/**
 * Longer than a process can be suspended and still be considered alive. Only names without entries are
 * deleted, so the exact value does not matter.
 */
const LEFT_MS = 60_000
