/**
 * Names of everything in Redis. They begin with the id of the server's run: what a Redis that was restarted finds in an
 * old snapshot is in nobody's way, and nobody takes it for news.
 */
export class Keys {
  /** A pattern. */
  readonly ofAllRuns: string
  readonly #prefix: string
  readonly #base: string
  readonly #channels: string

  constructor(prefix: string, runId: string, database = 0) {
    this.ofAllRuns = `${prefix.replace(/[[\]*?\\]/g, "\\$&")}:*`
    this.#prefix = `${prefix}:`
    this.#base = `${prefix}:${runId.slice(0, RUN_LENGTH)}`
    this.#channels = database === 0 ? this.#base : `${this.#base}:${database}`
  }

  /** Is it one of another run? What merely begins alike is another fleet's, or nobody of ours wrote it. */
  isOfAnotherRun(key: string): boolean {
    if (!key.startsWith(this.#prefix) || key.startsWith(`${this.#base}:`)) return false
    return RUN.test(key.slice(this.#prefix.length))
  }

  /** Stream of tasks; a worker of the group is handed each once. */
  tasks(handler: string): string {
    return `${this.#base}:tasks:${handler}`
  }

  /** Stream of what workers report of the jobs of a partition; its owner reads it. */
  results(partition: number): string {
    return `${this.#base}:results:${partition}`
  }

  /** Sorted set of partitions by the epoch of their owner: what an earlier one sends is not run. */
  get epochs(): string {
    return `${this.#base}:epochs`
  }

  /** Gone or changed: Redis was flushed. */
  get marker(): string {
    return `${this.#base}:marker`
  }

  /** Set of the ids of workers. */
  get workers(): string {
    return `${this.#base}:workers`
  }

  /** What a worker says of itself; it expires when the worker falls silent. */
  worker(id: string): string {
    return `${this.#base}:worker:${id}`
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

const RUN_LENGTH = 12
const RUN = /^[0-9a-f]{12}:(tasks|results|worker|workers|epochs|marker)(:|$)/

/** The consumer groups: of the workers on `tasks`, of the partition's owners on `results`. */
export const WORKERS = "workers"
export const OWNERS = "owners"
