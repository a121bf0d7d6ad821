/**
 * Names of everything in Redis. They begin with the id of the store and the id of the server's run: fleets of several
 * stores on one Redis do not meet, and what a Redis that was restarted finds in an old snapshot is never read.
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

  /** Is it a key of another run, of whichever store? Keys that merely begin alike are another fleet's, or not ours. */
  isOfAnotherRun(key: string): boolean {
    if (!key.startsWith(this.#prefix)) return false
    const run = RUN.exec(key.slice(this.#prefix.length))?.[1]
    return run !== undefined && run !== this.#run
  }

  /** Stream of tasks; a worker of the group is handed each once. */
  tasks(handler: string): string {
    return `${this.#base}:tasks:${handler}`
  }

  /** Stream of what workers report of the jobs of a partition; its owner reads it. */
  results(partition: number): string {
    return `${this.#base}:results:${partition}`
  }

  /** Sorted set of partitions by the epoch of their owner: tasks of an earlier one are refused. */
  get epochs(): string {
    return `${this.#base}:epochs`
  }

  /** Gone or changed: Redis was flushed. */
  get marker(): string {
    return `${this.#base}:marker`
  }

  /** Set of the ids of workers that live, or died not long ago. */
  get workers(): string {
    return `${this.#base}:workers`
  }

  /** What a worker says of itself; it expires when the worker falls silent. */
  worker(id: string): string {
    return `${this.#base}:worker:${id}`
  }

  /** The last beat of a worker, kept for a while after its death: it tells a worker that died from one that stopped in order. */
  lastBeat(id: string): string {
    return `${this.#base}:last:${id}`
  }

  /** Hash of the worker that reported each handler last, and when. */
  get seen(): string {
    return `${this.#base}:seen`
  }

  /** Set of the ids of workers of release 0.1, whose names have no store. */
  get oldWorkers(): string {
    return `${this.#prefix}${this.#run}:workers`
  }

  oldWorker(id: string): string {
    return `${this.#prefix}${this.#run}:worker:${id}`
  }

  /**
   * Channel on which engines address workers. Keys of another database of the server are other keys, but a channel is the
   * same for all of them: without the number, workers would obey the engines of another fleet.
   */
  get control(): string {
    return `${this.#channels}:control`
  }

  /** Channel on which workers address engines. What is said there is a hint: it may be lost. */
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

/** Hash of the stores whose engines use this Redis, by their ids. */
export function storesKey(prefix: string): string {
  return `${prefix}:stores`
}

const RUN_LENGTH = 12
/** With the store before the run, and without one, as release 0.1 wrote them. */
const RUN =
  /^(?:[0-9a-f]{12}:)?([0-9a-f]{12}):(?:tasks|results|worker|workers|last|seen|epochs|marker)(?::|$)/

/** The consumer groups: of the workers on `tasks`, of the partition's owners on `results`. */
export const WORKERS = "workers"
export const OWNERS = "owners"
