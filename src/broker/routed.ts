import type { AttemptMetrics } from "./attempt-metrics.ts"
import { LocalBroker, type LocalBrokerOptions } from "./local.ts"
import type {
  Broker,
  BrokerHost,
  KnownRun,
  PipelineNeeds,
  RemoteWorkers,
  RunningTask,
  Task,
  TaskName,
  TaskWaits,
} from "./port.ts"
import { RedisBroker, type RedisBrokerParts } from "./redis/broker.ts"

/** Tasks that the engine's process runs itself, beside its workers. */
export interface TaskLane extends Pick<Broker, "runs" | "dispatch" | "cancel" | "drain"> {
  /** The task ends here without a result, and can be dispatched again. What is in flight of it may end first. */
  suspend(task: TaskName): void
  runningTask(task: TaskName): RunningTask | null
  /** The part of the needs that this process lacks. Absent: it runs no pipelines. */
  lacks?(needs: PipelineNeeds): PipelineNeeds
}

export interface RoutedBrokerParts extends Omit<LocalBrokerOptions, "events"> {
  readonly host: BrokerHost
  /** null: there are no remote workers. */
  readonly redis: Omit<RedisBrokerParts, "host"> | null
  /** Run pipelines and bulk operations. */
  readonly lanes: readonly TaskLane[]
}

/**
 * Runs tasks in this process if it has their handler, without a network hop; all others go to remote workers,
 * if there are any.
 */
export class RoutedBroker implements Broker {
  readonly remote?: RemoteWorkers | undefined
  readonly #lanes: readonly TaskLane[]
  readonly #local: LocalBroker
  readonly #remote: RedisBroker | null

  constructor({ host, redis, lanes, ...parts }: RoutedBrokerParts) {
    this.#lanes = lanes
    this.#local = new LocalBroker({ ...parts, events: host.events })
    this.#remote = redis === null ? null : new FleetBroker(this, { ...redis, host })
    this.remote = this.#remote ?? undefined
  }

  runs(handler: string, needs?: PipelineNeeds): boolean {
    return (
      this.#lane(handler, needs) !== undefined ||
      this.#local.runs(handler) ||
      this.#remote?.runs(handler) === true
    )
  }

  #lane(handler: string, needs?: PipelineNeeds): TaskLane | undefined {
    for (const lane of this.#lanes) if (lane.runs(handler, needs)) return lane
    return undefined
  }

  isPure(handler: string): boolean {
    return this.#local.isPure(handler)
  }

  lacks(needs: PipelineNeeds): PipelineNeeds {
    for (const lane of this.#lanes) if (lane.lacks !== undefined) return lane.lacks(needs)
    return needs
  }

  /**
   * May a remote worker hold a task for this handler? Every engine itself runs handlers that only compute.
   * While Redis is unavailable the answer is unknown for the others; a task that this process can run does
   * not wait for it.
   */
  isElsewhere(handler: string): boolean {
    if (this.#remote === null || this.#lane(handler) !== undefined || this.isPure(handler)) return false
    return this.#remote.isUp || !this.#local.runs(handler)
  }

  dispatch(task: Task): void {
    const lane = this.#lane(task.handler)
    if (lane !== undefined) lane.dispatch(task)
    else if (this.#remote === null || this.#local.runs(task.handler)) this.#local.dispatch(task)
    else this.#remote.dispatch(task)
  }

  cancel(task: TaskName, reason?: string, known?: KnownRun): void {
    this.cancelHere(task, reason, known)
    this.#remote?.cancel(task, reason, known)
  }

  has(task: TaskName): boolean {
    return this.#local.has(task) || this.#remote?.has(task) === true
  }

  withdraw(task: TaskName): boolean {
    for (const lane of this.#lanes)
      if (lane.runningTask(task) !== null) {
        lane.suspend(task)
        return true
      }
    if (this.#local.has(task)) return this.#local.withdraw(task)
    return this.#remote?.withdraw(task) ?? true
  }

  cancelHere(task: TaskName, reason?: string, known?: KnownRun): void {
    for (const lane of this.#lanes) lane.cancel(task, reason)
    this.#local.cancel(task, reason, known)
  }

  isRunningHere(task: TaskName): boolean {
    return this.#runningInLane(task) !== null || this.#local.isRunningHere(task)
  }

  runningTask(task: TaskName): RunningTask | null {
    return (
      this.#runningInLane(task) ?? this.#local.runningTask(task) ?? this.#remote?.runningTask(task) ?? null
    )
  }

  aborted(): Iterable<string> {
    return this.#local.aborted()
  }

  #runningInLane(task: TaskName): RunningTask | null {
    for (const lane of this.#lanes) {
      const running = lane.runningTask(task)
      if (running !== null) return running
    }
    return null
  }

  waits(): TaskWaits {
    const local = this.#local.waits()
    const remote = this.#remote?.waits()
    return {
      of: (task, handler, isUnserved) => {
        if (!isUnserved && (this.#lane(handler) !== undefined || this.#local.runs(handler)))
          return local.of(task, handler, isUnserved)
        if (!isUnserved && remote !== undefined) return remote.of(task, handler, isUnserved)
        return (
          this.#remote?.noWorkerWait(handler) ?? { reason: "none", last_worker: null, last_seen_at: null }
        )
      },
    }
  }

  async drain(graceMs: number): Promise<void> {
    await Promise.all([...this.#lanes, this.#local].map(each => each.drain(graceMs)))
    // Last: pipelines wait for the messages that remote workers hold.
    await this.#remote?.drain()
  }

  async close(): Promise<void> {
    await this.#remote?.close()
  }

  /** The metrics of the attempts in this process. */
  get metrics(): AttemptMetrics {
    return this.#local.metrics
  }

  /** The number of tasks that remote workers have refused. */
  get refused(): number {
    return this.#remote?.refused ?? 0
  }

  /** The number of attempts that run in this process. */
  get running(): number {
    return this.#local.running
  }

  /** The number of tasks in this process that wait for a worker, local or remote. */
  get queued(): number {
    return this.#local.queued + (this.#remote?.queued ?? 0)
  }
}

/** The workers of the fleet, for an engine that also runs tasks itself. */
class FleetBroker extends RedisBroker {
  readonly #routed: RoutedBroker

  constructor(routed: RoutedBroker, parts: RedisBrokerParts) {
    super(parts)
    this.#routed = routed
  }

  override adopt(task: TaskName, handler: string): boolean {
    return this.#routed.isElsewhere(handler) && super.adopt(task, handler)
  }

  override release(task: TaskName): void {
    this.#routed.cancelHere(task, "The job has moved to another engine.")
    super.release(task)
  }
}
