/**
 * The names of all keys in Redis. They begin with the id of the store and the id of the server's run: fleets
 * of several stores on one Redis do not collide, and the keys that a restarted Redis restores from an old
 * snapshot are never read.
 */
export class Keys {
  /** A pattern. */
  readonly ofAllRuns: string
  readonly #prefix: string
  readonly #run: string
  readonly #base: string
  readonly #channels: string

  constructor({ prefix, store, runId, database = 0 }: KeyParts) {
    this.ofAllRuns = `${prefix.replace(/[[\]*?\\]/g, "\\$&")}:*`
    this.#prefix = `${prefix}:`
    this.#run = runId.slice(0, RUN_LENGTH)
    this.#base = `${prefix}:${store}:${this.#run}`
    this.#channels = database === 0 ? this.#base : `${this.#base}:${database}`
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

  /** The sorted set of partitions by the epoch of their owner: workers refuse tasks of an earlier epoch. */
  get epochs(): string {
    return `${this.#base}:epochs`
  }

  /** Missing or changed: Redis was flushed. */
  get marker(): string {
    return `${this.#base}:marker`
  }

  /** The set of the ids of workers that are alive, or died recently. */
  get workers(): string {
    return `${this.#base}:workers`
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

  /** The hash of the worker that reported each handler last, and when. */
  get seen(): string {
    return `${this.#base}:seen`
  }

  /** The set of the ids of workers of release 0.1, whose key names have no store. */
  get oldWorkers(): string {
    return `${this.#prefix}${this.#run}:workers`
  }

  oldWorker(id: string): string {
    return `${this.#prefix}${this.#run}:worker:${id}`
  }

  /**
   * The channel on which engines send to workers. Keys of different databases of a server are separate, but
   * channels are shared by all of them: without the database number, workers would obey the engines of
   * another fleet.
   */
  get control(): string {
    return `${this.#channels}:control`
  }

  /** The channel on which workers send to engines. Its messages are hints: they may be lost. */
  get news(): string {
    return `${this.#channels}:news`
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

const RUN_LENGTH = 12
/** With the store before the run id, or without a store, as release 0.1 wrote them. */
const RUN =
  /^(?:[0-9a-f]{12}:)?([0-9a-f]{12}):(?:tasks|results|worker|workers|last|seen|epochs|marker)(?::|$)/

/** The consumer groups: workers on `tasks`, owners of partitions on `results`. */
export const WORKERS = "workers"
export const OWNERS = "owners"
