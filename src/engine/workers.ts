import type { RemoteWorker } from "../broker/port.ts"
import { groupBy } from "../core/maps.ts"
import type { Heartbeat } from "../journal/port/journal.ts"
import { ownIdentity, type ProcessIdentity } from "../process-identity.ts"
import type { PartitionOwner } from "./owner/owner.ts"
import { Peers, StaleBeats, type TakesPartitions, takesPartitions } from "./partitions/peers.ts"

/**
 * The workers that share this store (S5), according to the last heartbeat. A process describes its worker with every
 * heartbeat; one that is silent for `deadMs` is shown as dead. This is for people: ownership.ts decides with its own lease
 * which engine takes over.
 */
export class Workers {
  readonly #parts: WorkersParts
  readonly #peers: Peers
  readonly #stale: StaleBeats
  #partitions: Heartbeat["partitions"] = []
  #otherProcesses: () => OtherProcesses = () => ({ others: [], engines: [], dead: 0 })

  constructor(parts: WorkersParts) {
    this.#parts = parts
    const { deadMs, beatMs } = parts
    this.#peers = new Peers({ leaseMs: deadMs, beatMs, now: () => performance.now() })
    this.#stale = new StaleBeats({ deadMs, now: () => parts.now() })
  }

  receive(heartbeat: Heartbeat): void {
    const { engines, partitions } = heartbeat
    const living = this.#peers.alive(engines)
    this.#stale.receive(engines)
    this.#partitions = partitions
    const live = new Set(
      engines.filter(row => living.has(row.engine) && !this.#stale.has(row)).map(({ engine }) => engine),
    )
    // Computed on request: a heartbeat arrives every second, with the description of every process.
    let read: OtherProcesses | null = null
    this.#otherProcesses = () => {
      read ??= readProcesses(heartbeat, live)
      return read
    }
  }

  /** Cheap: needs no query. */
  get counts(): WorkerCounts {
    const { remote } = this.#parts.partitionOwner.broker
    const { others, dead } = this.#otherProcesses()
    const live = this.#own() + others.length - dead
    if (remote === undefined) return { live, dead }
    return {
      live: live + remote.live.length,
      dead: dead + remote.dead.length,
      ...(remote.outdated.length === 0 ? {} : { outdated: remote.outdated.length }),
    }
  }

  list(): WorkerView[] {
    const { engine, worker, partitionOwner, now } = this.#parts
    const description = { ...ownIdentity(), worker: worker() }
    const own = workerView({
      engine,
      description,
      beat: now(),
      partitions: partitionOwner.owned.size,
      isLive: true,
    })
    return [
      ...(description.worker.handlers.length === 0 ? [] : [own]),
      ...this.#otherProcesses().others,
      ...this.#remote(),
    ]
  }

  /** The processes that own partitions or may, this one first, according to the last heartbeat. */
  engines(): EnginesView {
    const { engine, worker, partitionOwner, now, takesPartitions: takes } = this.#parts
    const description = { ...ownIdentity(), worker: worker() }
    const own = [...partitionOwner.owned.keys()]
    const process = { engine, description, beat: now(), partitions: own.length, isLive: true }
    const engines = [
      ...(own.length > 0 || takes() ? [engineView(workerView(process), own)] : []),
      ...this.#otherProcesses().engines,
    ]
    const owned = new Set(engines.flatMap(({ partitions }) => partitions))
    const all = this.#partitions.map(({ partition }) => partition)
    return {
      engines,
      partitions: Math.max(all.length, owned.size),
      unowned: all.filter(partition => !owned.has(partition)),
    }
  }

  #remote(): WorkerView[] {
    const { live, dead, outdated } = this.#parts.partitionOwner.broker.remote ?? {
      live: [],
      dead: [],
      outdated: [],
    }
    return [
      ...live.map(worker => remoteView(worker, "live")),
      ...dead.map(worker => remoteView(worker, "dead")),
      ...outdated.map(worker => remoteView(worker, "outdated")),
    ]
  }

  /** The description that this process sends with its heartbeat: where it runs, and its worker. */
  place(): string {
    const { worker, takesPartitions } = this.#parts
    const description: ProcessDescription & TakesPartitions = {
      ...ownIdentity(),
      worker: worker(),
      takes_partitions: takesPartitions(),
    }
    return JSON.stringify(description)
  }

  #own(): number {
    return this.#parts.worker().handlers.length === 0 ? 0 : 1
  }
}

interface WorkersParts {
  readonly engine: string
  readonly worker: () => WorkerFacts
  readonly partitionOwner: PartitionOwner
  readonly takesPartitions: () => boolean
  readonly deadMs: number
  readonly beatMs: number
  readonly now: () => number
}

/** The description that a process gives of its worker. */
export type WorkerFacts = Pick<RemoteWorker, "version" | "handlers" | "concurrency" | "running" | "queued">

export interface WorkerCounts {
  readonly live: number
  readonly dead: number
  /** Workers of an earlier release: they are alive, and get no tasks. Absent: there are none. */
  readonly outdated?: number
}

interface ProcessDescription extends ProcessIdentity {
  readonly worker: WorkerFacts
}

export interface WorkerView extends WorkerFacts {
  readonly id: string
  readonly host: string
  readonly pid: number
  /** Partitions that its process owns. */
  readonly partitions: number
  readonly last_beat: string
  /** outdated: of an earlier release; it is alive, and gets no tasks. */
  readonly state: "live" | "dead" | "outdated"
}

/** A process that owns partitions, or may. */
export interface EngineView extends Pick<WorkerView, "id" | "host" | "pid" | "version" | "last_beat"> {
  readonly state: "live" | "dead"
  readonly partitions: readonly number[]
}

export interface EnginesView {
  readonly engines: readonly EngineView[]
  /** How many partitions the store has. */
  readonly partitions: number
  /** Partitions that no engine owns: their jobs make no progress. */
  readonly unowned: readonly number[]
}

/** The other processes, as a heartbeat describes them. */
interface OtherProcesses {
  readonly others: readonly WorkerView[]
  readonly engines: readonly EngineView[]
  /** Of the others. */
  readonly dead: number
}

function readProcesses({ engines, partitions }: Heartbeat, live: ReadonlySet<string>): OtherProcesses {
  const owned = groupBy(partitions, ({ owner }) => owner)
  const found = engines.flatMap(({ engine, place, beat }) => {
    const description = parseDescription(place)
    if (description === null) return []
    const own = (owned.get(engine) ?? []).map(({ partition }) => partition)
    return [{ engine, description, beat, partitions: own.length, own, isLive: live.has(engine), place }]
  })
  const others = found.filter(({ description }) => description.worker.handlers.length > 0).map(workerView)
  return {
    others,
    engines: found
      .filter(({ own, place }) => own.length > 0 || takesPartitions(place))
      .map(({ own, ...process }) => engineView(workerView(process), own)),
    dead: others.filter(({ state }) => state === "dead").length,
  }
}

function engineView(
  { id, host, pid, version, last_beat, state }: WorkerView,
  own: readonly number[],
): EngineView {
  const partitions = [...own].sort((a, b) => a - b)
  return { id, host, pid, version, last_beat, state: state === "dead" ? "dead" : "live", partitions }
}

/** The latest valid date: an invalid time in another process's row must not end this process. */
const LAST_TIME = 8.64e15

function workerView(found: {
  engine: string
  description: ProcessDescription
  beat: number
  partitions: number
  isLive: boolean
}): WorkerView {
  const { engine: id, description, beat: at, partitions, isLive } = found
  const { host, pid, worker } = description
  return { ...remoteView({ ...worker, id, host, pid, at }, isLive ? "live" : "dead"), partitions }
}

/** A worker that is reached through Redis. */
function remoteView(worker: RemoteWorker, state: WorkerView["state"]): WorkerView {
  const { id, host, pid, version, handlers, concurrency, running, queued, at } = worker
  const last_beat = new Date(Math.min(at, LAST_TIME)).toISOString()
  return { id, host, pid, version, state, last_beat, handlers, concurrency, running, queued, partitions: 0 }
}

/** null: another release formats it differently. */
function parseDescription(place: string): ProcessDescription | null {
  try {
    const description = JSON.parse(place) as Partial<ProcessDescription>
    return Array.isArray(description.worker?.handlers) && typeof description.host === "string"
      ? (description as ProcessDescription)
      : null
  } catch {
    return null
  }
}
