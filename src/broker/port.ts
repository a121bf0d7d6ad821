import type { ArtifactAnswer, ArtifactQuestion } from "../core/artifacts.ts"
import type { AttemptTimes } from "../core/commands.ts"
import type { Waiting } from "../core/facts.ts"
import type { Fault } from "../core/faults.ts"
import type { Json, JsonObject } from "../core/json.ts"
import type { Isolation } from "../core/suspects.ts"
import type { Progress, TaskWait } from "../core/view/view.ts"

export type { AttemptTimes }

/** One attempt at one node, sent to a worker. */
export interface Task {
  readonly jobId: string
  /** The position of the node in the document. */
  readonly node: number
  readonly nodeId: string
  /** For a node with `for_each`: the index of the item, from 0. */
  readonly item?: number | undefined
  /** The fence: a result counts only under this number. */
  readonly attempt: number
  /** The attempt number that people and handlers see. */
  readonly shownAttempt: number
  readonly handler: string
  readonly owner: string
  readonly workflow: string
  readonly workflowVersion: number
  /** Of the job's submission: the span of the attempt is a child of it. */
  readonly traceparent: string | null
  readonly priority: number
  readonly config: Json
  /**
   * Templates of `config` that read secrets, with the values of everything else that they read. They are
   * rendered where the handler runs.
   */
  readonly late: readonly LateTemplate[]
  readonly input: Json
  /** The outputs of the node's dependencies by id, read on first use. */
  readonly parents: () => JsonObject
  readonly timeoutSeconds: number | null
  /** The attempt fails if its handler sends no heartbeat for this long; absent: no heartbeat is expected. */
  readonly heartbeatSeconds?: number
  /**
   * The node's provider, and how many of the node's operations there ended without a result; absent: the node
   * has no provider.
   */
  readonly provider?: string
  readonly operation?: number
  /** An earlier attempt was lost with its process: `started` must be durable before the handler runs. */
  readonly announce: boolean
  /** The task's place in the rate of its provider had passed before a worker received the task. */
  readonly isLate?: boolean
  /** The node was running when its process died: a process runs only one such task at a time. */
  readonly isolation?: Isolation
}

/** Identifies a task. The attempt number fences its result. */
export type TaskName = Pick<Task, "jobId" | "node" | "item" | "attempt">

export interface LateTemplate {
  readonly path: readonly (string | number)[]
  readonly source: string
  readonly names: JsonObject
  readonly nodes: JsonObject
}

/** The outcome of an attempt. */
export type Outcome =
  | {
      readonly type: "completed"
      readonly output: Json
      /** `output` as JSON text, serialized once: it is stored in the journal unchanged. */
      readonly text: string
      readonly usage?: JsonObject | undefined
    }
  /** `isUnbegun`: it failed before its handler could begin. */
  | ({ readonly type: "failed"; readonly fault: Fault; readonly isUnbegun?: true } & Used)
  | ({ readonly type: "waiting"; readonly waiting: Waiting } & Used)
  /** X1: the node's provider has accepted the work. */
  | ({ readonly type: "submitted"; readonly externalId: string } & Used)
  /** A child job does the work of the node. */
  | ({ readonly type: "child" } & ChildRequest & Used)

/** The usage that the handler reported; absent: none. */
interface Used {
  readonly usage?: JsonObject | undefined
}

export interface ChildRequest {
  /** `name`, `name@3` or `name@stable`. */
  readonly workflow: string
  readonly input: Json
  /** The definition must have routes; absent: it must have nodes. */
  readonly isPipeline?: true
}

/** An attempt whose handler is running now, as far as the engine's process knows. */
export interface RunningTask {
  readonly worker: string
  /** How long the handler has been running. */
  readonly ranMs: number
  /**
   * The usage that the handler has reported so far; for a remote worker, as of its last message. Absent:
   * none.
   */
  readonly usage?: JsonObject | undefined
}

/** Why tasks have not begun. Valid for one answer only: it describes the moment at which it was created. */
export interface TaskWaits {
  /**
   * For a task that is ready and that no handler has begun. `isUnserved`: no worker takes it, although a
   * worker may have the handler.
   */
  of(task: TaskName, handler: string, isUnserved: boolean): TaskWait
}

/** A report of a worker on the start of an attempt. */
export interface StartReport extends TaskName, Pick<Task, "announce"> {
  /**
   * For a task with `isolation`. true: it begins alone. false: it has run long enough, and another task may
   * run at the same time.
   */
  readonly alone?: boolean | undefined
  /**
   * With `announce`: the handler needs another place in the rate of its provider before it sends its next
   * request.
   */
  readonly place?: boolean | undefined
}

/** The events that workers report to the engine. These methods never throw and never block. */
export interface TaskEvents {
  /**
   * The attempt still runs after one second, so its start is recorded as a fact. With `announce`: called
   * before the handler runs; the handler runs once this resolves. With `place`: resolves when the provider's
   * rate has another place. With `alone: false`: called once more, before the next isolated task runs.
   */
  started(task: StartReport, worker: string): Promise<void>
  progress(task: TaskName, progress: Progress): void
  preview(task: TaskName, data: Json): void
  /**
   * The attempt queries artifacts of its owner. Rejects if the attempt is not current, or the store is unavailable.
   * Absent: this process cannot query them.
   */
  asked?(task: TaskName, question: ArtifactQuestion): Promise<ArtifactAnswer>
  finished(task: TaskName, outcome: Outcome, times: AttemptTimes): void
  /**
   * The attempt was aborted after its handler had begun; `times.ranMs`: until now. Called at the abort, and once more if
   * the handler reports more usage before it ends.
   */
  aborted(task: TaskName, times: AttemptTimes, usage: JsonObject | undefined): void
}

/** What the facts of an attempt that is cancelled record. */
export interface KnownRun {
  /** Its handler has begun. */
  readonly isBegun: boolean
  readonly usage?: JsonObject | undefined
}

/** Workers in other processes also report tasks that were not done. */
export interface RemoteTaskEvents extends TaskEvents {
  /**
   * The processes that held these tasks are dead. `callsToo`: these processes also ran calls that belong to
   * no node.
   */
  lost(tasks: readonly TaskName[], callsToo: boolean): void
  /** The process that held the task is stopping and will not do it. */
  returned(task: TaskName): void
}

/** The engine that a broker works for. */
export interface BrokerHost {
  readonly id: string
  readonly events: RemoteTaskEvents
  /** The epoch under which the engine owns the partition; undefined: it does not own it. */
  epoch(partition: number): number | undefined
  /**
   * Resolves when everything that happened to jobs of the partition is durable; rejects if the partition is
   * lost meanwhile.
   */
  durable(partition: number): Promise<void>
  /** A worker can run this handler now. */
  served(handler: string): void
  /**
   * True if no other engine can have taken over yet. False: a task sent now may belong to another engine, and
   * may be done already.
   */
  isSure(): boolean
}

/** What a pipeline needs from the process that runs it, or the part of that which the process lacks. */
export interface PipelineNeeds {
  /** The adapters of the routes that the process runs itself. */
  readonly adapters: readonly string[]
  /** A connection to workers, which run the other routes. */
  readonly redis: boolean
}

/** Dispatches tasks. `dispatch` may be called only for durable facts, or for handlers that only compute. */
export interface Broker {
  /**
   * Can a worker of this process run the handler? A pipeline runs only where everything that it needs is
   * available.
   */
  runs(handler: string, needs?: PipelineNeeds): boolean
  /** The handler runs in this process and only computes: a run that is lost does no harm. */
  isPure(handler: string): boolean
  dispatch(task: Task): void
  /**
   * A queued task never starts. For a running task the abort signal fires with `reason`. No outcome is
   * reported after this, only `aborted`, if there is more to report than `known`.
   */
  cancel(task: TaskName, reason?: string, known?: KnownRun): void
  /** Is the task queued or running, here or in another process, as far as this process knows? */
  has(task: TaskName): boolean
  /**
   * Takes back a task that has not begun, or an execution of a pipeline, which can continue later. False: a worker may
   * have begun it, and its outcome will be reported.
   */
  withdraw(task: TaskName): boolean
  /** Does the task hold a slot in this process, as opposed to waiting for one? */
  isRunningHere(task: TaskName): boolean
  /** null: no handler has begun the task, or it has ended. */
  runningTask(task: TaskName): RunningTask | null
  /** Jobs of attempts in this process that were cancelled and have not ended: they may still report usage. */
  aborted(): Iterable<string>
  waits(): TaskWaits
  /**
   * Stops taking tasks. Resolves when the attempts that run here have ended; after `graceMs` aborts the rest,
   * and waits a moment for what they report.
   */
  drain(graceMs: number): Promise<void>
  /** Absent: all tasks run in this process, and end with it. */
  readonly remote?: RemoteWorkers | undefined
}

/** Workers in other processes. The tasks that they hold outlive the engine that sent them. */
export interface RemoteWorkers {
  /** Resolves once it is known which workers are alive, or after `patienceMs`. */
  whenKnown(patienceMs: number): Promise<void>
  /** Reads again which workers are alive. */
  refresh(): Promise<void>
  readonly live: readonly RemoteWorker[]
  /** Workers that died recently. */
  readonly dead: readonly RemoteWorker[]
  /** Live workers of an earlier release. They get no tasks. */
  readonly outdated: readonly RemoteWorker[]
  /** Adopts a task that an earlier owner of its job had sent. False: it ran in that process, and is lost. */
  adopt(task: TaskName, handler: string): boolean
  /**
   * Was the task adopted, and has no worker reported yet whether its handler runs? Always false after the
   * death timeout of workers.
   */
  isUncertain(task: TaskName): boolean
  /** Is the task with remote workers, as opposed to in this process? */
  has(task: TaskName): boolean
  /**
   * The live worker that holds the task, according to its last heartbeat; null: none. The worker may hold the
   * task of another engine.
   */
  holder(task: TaskName): string | null
  /**
   * This engine has taken over the jobs of these partitions: reports on their tasks are now relevant to it.
   */
  partitionsTaken(partitions: readonly number[]): void
  left(partitions: readonly number[]): void
  /** The task's job has another owner now. */
  release(task: TaskName): void
  /** Is a worker connected that answers such calls? */
  answers(handler: string): boolean
  /** Runs a handler for a job, outside of its nodes. Nothing of the call is durable. */
  call(call: Call, options: CallOptions): Promise<CallAnswer>
  /** The engine is certain again of what it owns: tasks that waited for this are sent. */
  resume(): void
}

/** The public information about a worker in another process. */
export interface RemoteWorker {
  readonly id: string
  readonly host: string
  readonly pid: number
  readonly version: string
  readonly handlers: readonly string[]
  readonly concurrency: number
  readonly running: number
  readonly queued: number
  /** Milliseconds since 1970, by the worker's clock: for display only. */
  readonly at: number
}

export interface CallOptions {
  readonly signal: AbortSignal
  /** Receives the previews of the handler. */
  readonly onPreview?: (data: Json) => void
}

/** null: no worker did it, or the result is unknown. `lost`: the worker that held it died. */
export type CallAnswer = Outcome | "lost" | null

export type Call = Pick<Task, "jobId" | "nodeId" | "handler" | "owner" | "workflow" | "config">

/** `job/node/attempt`, or `job/node.item/attempt`. */
export function attemptName({ jobId, node, item, attempt }: TaskName): string {
  return item === undefined ? `${jobId}/${node}/${attempt}` : `${jobId}/${node}.${item}/${attempt}`
}

export function parseAttemptName(text: string): TaskName {
  const [jobId = "", place = "", attempt] = text.split("/")
  const [node, item] = place.split(".")
  const name = { jobId, node: Number(node), attempt: Number(attempt) }
  return item === undefined ? name : { ...name, item: Number(item) }
}
