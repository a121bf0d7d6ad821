/**
 * The names of all keys in Redis. They begin with the id of the store and the id of the server's run: fleets
 * of several stores on one Redis do not collide, and the keys that a restarted Redis restores from an old
 * snapshot are never read.
 */
export class Keys {
  /** A pattern. */
  readonly ofAllRuns: string
  /** The sorted set of partitions by the epoch of their owner: workers refuse tasks of an earlier epoch. */
  readonly epochs: string
  /** Missing or changed: Redis was flushed. */
  readonly marker: string
  /** The set of the ids of workers that are alive, or died recently. */
  readonly workers: string
  /** The hash of the worker that reported each handler last, and when. */
  readonly seen: string
  /** The set of the ids of workers of release 0.1, whose key names have no store. */
  readonly oldWorkers: string
  /**
   * The channel on which engines send to workers. Keys of different databases of a server are separate, but
   * channels are shared by all of them: without the database number, workers would obey the engines of
   * another fleet.
   */
  readonly control: string
  /** The channel on which workers send to engines. Its messages are hints: they may be lost. */
  readonly news: string
  readonly #prefix: string
  readonly #run: string
  readonly #base: string

  constructor({ prefix, store, runId, database = 0 }: KeyParts) {
    this.ofAllRuns = `${prefix.replace(/[[\]*?\\]/g, "\\$&")}:*`
    this.#prefix = `${prefix}:`
    this.#run = runId.slice(0, RUN_LENGTH)
    this.#base = `${prefix}:${store}:${this.#run}`
    const channels = database === 0 ? this.#base : `${this.#base}:${database}`
    this.epochs = `${this.#base}:epochs`
    this.marker = `${this.#base}:marker`
    this.workers = `${this.#base}:workers`
    this.seen = `${this.#base}:seen`
    this.oldWorkers = `${this.#prefix}${this.#run}:workers`
    this.control = `${channels}:control`
    this.news = `${channels}:news`
  }

  /**
   * Is it a key of another run, of any store? Keys that only begin alike belong to another fleet, or to
   * another program.
   */
  isOfAnotherRun(key: string): boolean {
    if (!key.startsWith(this.#prefix)) return false
    const run = RUN.exec(key.slice(this.#prefix.length))?.[1]
    return run !== undefined && run !== this.#run
  }

  /** The stream of tasks; each task is delivered to one worker of the group. */
  tasks(handler: string): string {
    return `${this.#base}:tasks:${handler}`
  }

  /** The stream of reports of workers on the jobs of a partition; the partition's owner reads it. */
  results(partition: number): string {
    return `${this.#base}:results:${partition}`
  }

  /** The stream of log lines of the jobs of a partition, with a limited length; the partition's owner stores them. */
  logs(partition: number): string {
    return `${this.#base}:logs:${partition}`
  }

  /** The heartbeat of a worker; it expires when the worker stops sending it. */
  worker(id: string): string {
    return `${this.#base}:worker:${id}`
  }

  /**
   * The last heartbeat of a worker, kept for some time after its death: it distinguishes a worker that died
   * from one that stopped gracefully.
   */
  lastBeat(id: string): string {
    return `${this.#base}:last:${id}`
  }

  oldWorker(id: string): string {
    return `${this.#prefix}${this.#run}:worker:${id}`
  }
}

export interface KeyParts {
  readonly prefix: string
  /** As in `stores.ts`. */
  readonly store: string
  readonly runId: string
  readonly database?: number
}

/** The hash of the stores whose engines use this Redis, by id. */
export function storesKey(prefix: string): string {
  return `${prefix}:stores`
}

/** The epochs of engines of release 0.1, which announce no store. */
export function oldEpochsKey(prefix: string, runId: string): string {
  return `${prefix}:${runId.slice(0, RUN_LENGTH)}:epochs`
}

const RUN_LENGTH = 12
/** With the store before the run id, or without a store, as release 0.1 wrote them. */
const RUN =
  /^(?:[0-9a-f]{12}:)?([0-9a-f]{12}):(?:tasks|results|logs|worker|workers|last|seen|epochs|marker)(?::|$)/

/** The consumer groups: workers on `tasks`, owners of partitions on `results`. */
export const WORKERS = "workers"
export const OWNERS = "owners"
