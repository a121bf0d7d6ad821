import type { AttemptTimes } from "../core/commands.ts"
import type { Waiting } from "../core/facts.ts"
import type { Fault } from "../core/faults.ts"
import type { Json, JsonObject } from "../core/json.ts"
import type { Isolation } from "../core/suspects.ts"
import type { Progress, TaskWait } from "../core/view/view.ts"

export type { AttemptTimes }

/** One attempt at one node, on its way to a worker. */
export interface Task {
  readonly jobId: string
  /** Position in the document. */
  readonly node: number
  readonly nodeId: string
  /** Of a node with `for_each`: which item, from 0. */
  readonly item?: number
  /** The fence: results count only under this number. */
  readonly attempt: number
  /** The number that people and handlers see. */
  readonly shownAttempt: number
  readonly handler: string
  readonly owner: string
  readonly workflow: string
  readonly workflowVersion: number
  /** Of the job's submission: the attempt's span is its child. */
  readonly traceparent: string | null
  readonly priority: number
  readonly config: Json
  /** Templates of `config` that read secrets, with the values of everything else they read: filled in where the handler runs. */
  readonly late: readonly LateTemplate[]
  readonly input: Json
  /** Outputs of the node's dependencies by id, read on first use. */
  readonly parents: () => JsonObject
  readonly timeoutSeconds: number | null
  /** The attempt fails when its handler sends no heartbeat for so long; absent: none is expected. */
  readonly heartbeatSeconds?: number
  /** The node's provider, and how many of its operations there ended without a result; absent: it has none. */
  readonly provider?: string
  readonly operation?: number
  /** An earlier attempt was lost with its process: `started` must be durable before the handler runs. */
  readonly announce: boolean
  /** Its place in the rate of its provider has passed before a worker was given the task. */
  readonly isLate?: boolean
  /** The node was known to run when its process died: of such tasks a process runs one at a time. */
  readonly isolation?: Isolation
}

/** What names a task; the attempt fences its result. */
export type TaskName = Pick<Task, "jobId" | "node" | "item" | "attempt">

export interface LateTemplate {
  readonly path: readonly (string | number)[]
  readonly source: string
  readonly names: JsonObject
  readonly nodes: JsonObject
}

/** What came of an attempt. */
export type Outcome =
  | {
      readonly type: "completed"
      readonly output: Json
      /** `output` as JSON text, made once: it goes into the journal as it is. */
      readonly text: string
      readonly usage?: JsonObject
    }
  | ({ readonly type: "failed"; readonly fault: Fault } & Used)
  | ({ readonly type: "waiting"; readonly waiting: Waiting } & Used)
  /** X1: the node's provider has taken the work. */
  | ({ readonly type: "submitted"; readonly externalId: string } & Used)
  /** Another workflow does the node's work. */
  | ({ readonly type: "child" } & ChildRequest & Used)

/** What the handler reported to have used; absent: nothing. */
interface Used {
  readonly usage?: JsonObject
}

export interface ChildRequest {
  /** `name`, `name@3` or `name@stable`. */
  readonly workflow: string
  readonly input: Json
  /** It must have routes; absent: it must have nodes. */
  readonly isPipeline?: true
}

/** An attempt whose handler is running now, as far as the engine's process knows. */
export interface RunningTask {
  readonly worker: string
  /** How long the handler has run so far. */
  readonly ranMs: number
  /** What it has reported to have used so far; of a worker elsewhere, by its last message. Absent: nothing. */
  readonly usage?: JsonObject
}

/** Why tasks have not begun. For one answer: what it says is of the moment it was made. */
export interface TaskWaits {
  /** Of a task that is ready and that no handler has begun. `isUnserved`: no worker takes it, although one may have the handler. */
  of(task: TaskName, handler: string, isUnserved: boolean): TaskWait
}

/** What the engine is told of a task by whoever runs it. */
export interface TaskNews extends TaskName, Pick<Task, "announce"> {
  /** Of a task with `isolation`. true: it begins alone. false: it has run long enough, and is to be joined by another. */
  readonly alone?: boolean
  /** With `announce`: it needs another place in the rate of its provider before it sends its next request. */
  readonly place?: boolean
}

/** How the engine hears from whoever runs its tasks. Calls never throw and never block. */
export interface TaskEvents {
  /**
   * Still running after a second: worth a fact. With `announce`: before it runs, and it runs once this resolves; with
   * `place`, when there is another place in the rate of its provider. With `alone: false` once more, before the next
   * isolated task runs.
   */
  started(task: TaskNews, worker: string): Promise<void>
  progress(task: TaskName, progress: Progress): void
  preview(task: TaskName, data: Json): void
  finished(task: TaskName, outcome: Outcome, times: AttemptTimes): void
}

/** From workers in other processes it also hears of tasks that were not done. */
export interface RemoteTaskEvents extends TaskEvents {
  /** The processes that had them are gone. `callsToo`: these processes also ran calls that belong to no node. */
  lost(tasks: readonly TaskName[], callsToo: boolean): void
  /** The process that had it stops, and does not do it. */
  returned(task: TaskName): void
}

/** The engine that a broker works for. */
export interface BrokerHost {
  readonly id: string
  readonly events: RemoteTaskEvents
  /** Under which it owns the partition; undefined: it does not. */
  epoch(partition: number): number | undefined
  /** Resolves when everything that happened to jobs of the partition is durable; rejects if it is lost meanwhile. */
  durable(partition: number): Promise<void>
  /** Somebody can run this handler now. */
  served(handler: string): void
  /** Can nobody have taken over yet? False: what is sent now may be somebody else's, and done already. */
  isSure(): boolean
}

/** What a pipeline needs of the process that runs it; or what of that is missing there. */
export interface PipelineNeeds {
  /** Of the routes that it runs itself. */
  readonly adapters: readonly string[]
  /** A way to workers, which run the other routes. */
  readonly redis: boolean
}

/** Where tasks go. `dispatch` may be called only for facts that are durable, or for handlers that only compute. */
export interface Broker {
  /** Handlers somebody here can run; a pipeline only where all that it needs is. */
  runs(handler: string, needs?: PipelineNeeds): boolean
  /** Handlers that run in this process and only compute: nobody is the worse for a run that is forgotten. */
  isPure(handler: string): boolean
  dispatch(task: Task): void
  /** Queued: never starts. Running: its abort signal fires with `reason`. No outcome is reported any more. */
  cancel(task: TaskName, reason?: string): void
  /** Is it queued or running, here or elsewhere, as far as this process knows? */
  has(task: TaskName): boolean
  /** Takes back a task that has not begun. False: somebody may have begun it, and its outcome will be reported. */
  withdraw(task: TaskName): boolean
  /** Does it hold a slot in this process, as opposed to waiting for one? */
  isRunningHere(task: TaskName): boolean
  /** null: no handler has begun the task, or it has ended. */
  runningTask(task: TaskName): RunningTask | null
  waits(): TaskWaits
  /** Stops taking tasks; resolves when those running here have ended, or after `graceMs`, aborting what is left. */
  drain(graceMs: number): Promise<void>
  /** Absent: all tasks run in this process, and end with it. */
  readonly remote?: RemoteWorkers
}

/** Workers in other processes: what they have in hand outlives the engine that sent it. */
export interface RemoteWorkers {
  /** Resolves once it is known which workers live, or after `patienceMs`. */
  whenKnown(patienceMs: number): Promise<void>
  readonly live: readonly RemoteWorker[]
  /** Who died not long ago. */
  readonly dead: readonly RemoteWorker[]
  /** Live ones of an earlier release, which get no tasks. */
  readonly outdated: readonly RemoteWorker[]
  /** A task that an earlier owner of its job had sent. False: it ran in that process, and is lost. */
  adopt(task: TaskName, handler: string): boolean
  /** Was the task adopted, and has no worker told yet whether its handler runs? After the death time of workers: no. */
  isUncertain(task: TaskName): boolean
  /** Is the task there, as opposed to in this process? */
  has(task: TaskName): boolean
  /** The live worker that has the task in hand, as its last beat said; null: none. It may have a task of another engine's. */
  holder(task: TaskName): string | null
  /** The jobs of these partitions are here now: news of their tasks are wanted. */
  came(partitions: readonly number[]): void
  left(partitions: readonly number[]): void
  /** The task's job has another owner. */
  release(task: TaskName): void
  /** Is somebody there who answers such calls, and can be reached? */
  answers(handler: string): boolean
  /** Has a handler run for a job, outside of its nodes; nothing of it is durable. */
  call(call: Call, signal: AbortSignal): Promise<CallAnswer>
  /** The engine is sure of what it owns: what waited for that is sent. */
  goOn(): void
}

/** What others may know of a worker in another process. */
export interface RemoteWorker {
  readonly id: string
  readonly host: string
  readonly pid: number
  readonly version: string
  readonly handlers: readonly string[]
  readonly concurrency: number
  readonly running: number
  readonly queued: number
  /** Milliseconds since 1970, by the worker's clock: for people. */
  readonly at: number
}

/** null: nobody did it, or could tell. `lost`: whoever had it is gone. */
export type CallAnswer = Outcome | "lost" | null

export type Call = Pick<Task, "jobId" | "nodeId" | "handler" | "owner" | "workflow" | "config">
