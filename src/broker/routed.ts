import { LocalBroker, type LocalBrokerOptions } from "./local.ts"
import type { AttemptMeasures } from "./measures.ts"
import type { Broker, BrokerHost, RemoteWorkers, Task, TaskName } from "./port.ts"
import { RedisBroker, type RedisBrokerParts } from "./redis/broker.ts"

export interface RoutedBrokerParts extends Omit<LocalBrokerOptions, "events"> {
  readonly host: BrokerHost
  /** null: there is nobody elsewhere. */
  readonly redis: Omit<RedisBrokerParts, "host"> | null
}

/** Tasks for handlers that this process has run here, with no hop; all others go to workers elsewhere, if there are any. */
export class RoutedBroker implements Broker {
  readonly remote?: RemoteWorkers
  readonly #local: LocalBroker
  readonly #remote: RedisBroker | null

  constructor({ host, redis, ...parts }: RoutedBrokerParts) {
    this.#local = new LocalBroker({ ...parts, events: host.events })
    this.#remote = redis === null ? null : new RedisBroker({ ...redis, host })
    if (this.#remote !== null) this.remote = remoteOf(this.#local, this.#remote)
  }

  runs(handler: string): boolean {
    return this.#local.runs(handler) || this.#remote?.runs(handler) === true
  }

  dispatch(task: Task): void {
    if (this.#remote === null || this.#local.runs(task.handler)) this.#local.dispatch(task)
    else this.#remote.dispatch(task)
  }

  cancel(task: TaskName): void {
    this.#local.cancel(task)
    this.#remote?.cancel(task)
  }

  isRunningHere(task: TaskName): boolean {
    return this.#local.isRunningHere(task)
  }

  async drain(graceMs: number): Promise<void> {
    await Promise.all([this.#local.drain(graceMs), this.#remote?.drain()])
  }

  async close(): Promise<void> {
    await this.#remote?.close()
  }

  /** Of the attempts in this process. */
  get measures(): AttemptMeasures {
    return this.#local.measures
  }

  /** Attempts that run in this process. */
  get running(): number {
    return this.#local.running
  }

  /** Tasks in this process that wait for a worker, here or elsewhere. */
  get queued(): number {
    return this.#local.queued + (this.#remote?.queued ?? 0)
  }

  /** Has a worker got it, as opposed to its waiting here? */
  isRunning(task: TaskName): boolean {
    return this.#local.isRunningHere(task) || this.#remote?.isSent(task) === true
  }
}

function remoteOf(local: LocalBroker, remote: RedisBroker): RemoteWorkers {
  return {
    get live() {
      return remote.live
    },
    get dead() {
      return remote.dead
    },
    // With Redis away nobody can say where a task is. What can be done here does not wait for that.
    adopt: (task, handler) => (remote.isUp || !local.runs(handler)) && remote.adopt(task, handler),
    has: task => remote.has(task),
    came: partitions => remote.came(partitions),
    left: partitions => remote.left(partitions),
    answers: handler => remote.answers(handler),
    call: (call, signal) => remote.call(call, signal),
    goOn: () => remote.goOn(),
    release: task => {
      local.cancel(task)
      remote.release(task)
    },
  }
}
