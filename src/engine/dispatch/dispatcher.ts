import type { Broker, Task } from "../../broker/port.ts"
import type { AttemptRef } from "../../core/commands.ts"
import type { Json } from "../../core/json.ts"
import { isCurrent, isDone, type LargeOutput, type TaskRef, taskKey } from "../../core/state.ts"
import type { PipelinePlan } from "../../definition/pipeline/plan.ts"
import type { PlanNode } from "../../definition/plan.ts"
import { failpoint } from "../../failpoints.ts"
import type { Journal } from "../../journal/port/journal.ts"
import { type Clock, sleep, untilStoreAnswers } from "../clock.ts"
import type { JobOwner, LiveJob } from "../owner/live-job.ts"
import type { Capacity } from "../providers/capacity.ts"
import { isAllowedFor, notForOwner, type Providers } from "../providers/providers.ts"
import { readOutput, readWhole } from "../recovery/fold.ts"
import { pipelineNeeds } from "./pipeline-needs.ts"
import {
  evictingInputs,
  type Fetched,
  largeInputs,
  type ReadOutputs,
  type RenderLimits,
  renderNode,
} from "./render.ts"

export interface DispatcherParts {
  readonly broker: Broker
  readonly journal: Journal
  readonly clock: Clock
  readonly owner: JobOwner
  readonly providers: Providers
  readonly capacity: Capacity
  readonly limits: RenderLimits
}

/** Dispatches a ready node: fetches large outputs, renders the templates, and hands the task to the broker. */
export class Dispatcher {
  readonly #parts: DispatcherParts
  readonly #timeSlices: TimeSlices
  readonly #earlyDispatch = new EarlyDispatch()
  /** By job: tasks whose inputs are being read. */
  readonly #fetching = new WeakMap<LiveJob, Set<number>>()

  constructor(parts: DispatcherParts) {
    this.#parts = parts
    this.#timeSlices = new TimeSlices(parts.clock, (job, at) => this.#dispatch(job, at))
  }

  dispatch(job: LiveJob, at: AttemptRef): void {
    this.#timeSlices.dispatch(job, at)
  }

  /** Does a task of the job wait for its turn, or for outputs that are being read? */
  isDispatching(job: LiveJob, task: TaskRef): boolean {
    return this.#timeSlices.has(job) || this.#fetching.get(job)?.has(taskKey(task)) === true
  }

  /** Dispatches a node that only computes before the facts that made it ready are durable. False: it must wait for them. */
  dispatchEarly(job: LiveJob, at: AttemptRef): boolean {
    const { handler, provider } = job.plan.nodes[at.node]!
    // The abort of an earlier attempt waits in a batch and must be performed first.
    if (at.attempt > 1 || provider !== null || !this.#parts.broker.isPure(handler)) return false
    if (!this.#earlyDispatch.take()) return false
    // A microtask: these facts are still being applied.
    queueMicrotask(() => this.dispatch(job, at))
    return true
  }

  stop(): void {
    this.#timeSlices.stop()
  }

  #dispatch(job: LiveJob, at: AttemptRef): void {
    if (!this.#isWanted(job, at) || this.#parts.owner.owned.get(job.partition)?.isDeparting === true) return
    const planNode = job.plan.nodes[at.node]!
    if (!this.#canRun(planNode, job.plan.pipeline)) {
      job.awaitingHandler ??= new Set()
      job.awaitingHandler.add(taskKey(at))
      return
    }
    failpoint("dispatch.before")
    const { reads } = planNode
    const large = reads.length === 0 && job.plan.inDegrees[at.node] === 0 ? [] : largeInputs(job, at.node)
    if (large.length === 0) this.#tryRender(job, at, evictingInputs(job))
    else this.#fetchThen(job, at, large)
    failpoint("dispatch.after")
  }

  /** This process or a worker can run the node, with everything its routes need, and its provider is known. */
  #canRun({ handler, provider }: PlanNode, pipeline: PipelinePlan | null): boolean {
    return (
      this.#parts.broker.runs(handler, pipeline === null ? undefined : pipelineNeeds(pipeline)) &&
      (provider === null || this.#parts.providers.terms(provider) !== undefined)
    )
  }

  /** Reads outputs that only the store has, by the seqs of their facts. */
  async readOutputs(job: LiveJob, outputs: readonly LargeOutput[]): Promise<ReadOutputs> {
    const read = new Map<number, Json>()
    for (const large of outputs) read.set(large.seq, await this.#readOutput(job, large))
    return read
  }

  /** For a job that need not be in memory; null: the node has no task. */
  async buildTask(job: LiveJob, at: AttemptRef): Promise<Task | null> {
    const rendered = renderNode(
      job,
      at,
      await this.#fetch(job, largeInputs(job, at.node)),
      this.#parts.limits,
    )
    return "task" in rendered ? rendered.task : null
  }

  #tryRender(job: LiveJob, at: AttemptRef, fetched: Fetched): void {
    try {
      this.#render(job, at, fetched)
    } catch (error) {
      this.#parts.owner.quarantine(job, error)
    }
  }

  #render(job: LiveJob, at: AttemptRef, fetched: Fetched): void {
    const rendered = renderNode(job, at, fetched, this.#parts.limits)
    if ("task" in rendered) {
      job.running.add(taskKey(at))
      const { task } = rendered
      const terms = task.provider === undefined ? undefined : this.#parts.providers.terms(task.provider)
      if (terms === undefined) this.#parts.broker.dispatch(task)
      else if (isAllowedFor(terms, task.owner)) this.#parts.capacity.admit(job, task, terms)
      else {
        job.running.delete(taskKey(at))
        this.#parts.owner.command(job, {
          type: "failed",
          ...at,
          fault: notForOwner(task.nodeId, task.provider!),
        })
      }
    } else if ("fault" in rendered)
      this.#parts.owner.command(job, { type: "failed", ...at, fault: rendered.fault })
    else if ("items" in rendered) this.#parts.owner.command(job, { type: "expand", ...at, ...rendered })
    else this.#parts.owner.command(job, { type: "skip", node: at.node, attempt: at.attempt })
  }

  #fetchThen(job: LiveJob, at: AttemptRef, large: readonly number[]): void {
    const fetching = at.item === undefined ? this.#fetch(job, large) : this.#fetchOnce(job, at.node, large)
    const keys = this.#fetching.get(job) ?? new Set()
    this.#fetching.set(job, keys.add(taskKey(at)))
    fetching
      .finally(() => keys.delete(taskKey(at)))
      .then(fetched => this.#isWanted(job, at) && this.#tryRender(job, at, fetched))
      .catch(error => this.#parts.owner.quarantine(job, error))
  }

  /** All items of a node read the same outputs, which would be fetched ten thousand times. Kept until the node is done. */
  #fetchOnce(job: LiveJob, node: number, large: readonly number[]): Promise<Fetched> {
    job.fetched ??= new Map()
    for (const other of job.fetched.keys()) if (isDone(job.state, other)) job.fetched.delete(other)
    const known = job.fetched.get(node)
    if (known !== undefined) return known
    const fetching = this.#fetch(job, large)
    job.fetched.set(node, fetching)
    fetching.catch(() => job.fetched?.delete(node))
    return fetching
  }

  async #fetch(job: LiveJob, large: readonly number[]): Promise<Fetched> {
    const fetched = new Map<number, Json>(evictingInputs(job))
    for (const node of large)
      fetched.set(node, await readWhole(job.state.outputs[node]!, large => this.#readOutput(job, large)))
    return fetched
  }

  /**
   * The attempt may have become obsolete while the fact that caused the dispatch was being stored. After a pause and a
   * resume it may be dispatched twice: the first of both has begun it, and perhaps ended it.
   */
  #isWanted(job: LiveJob, at: AttemptRef): boolean {
    if (job.evicted || !isCurrent(job.state, at) || job.running.has(taskKey(at))) return false
    return !this.#parts.owner.pendingDecisions.has(job.id, at)
  }

  #readOutput(job: LiveJob, large: LargeOutput): Promise<Json> {
    const { journal, clock } = this.#parts
    return untilStoreAnswers(() => readOutput(journal, job.id, large), {
      pause: ms => sleep(clock, ms),
      isOver: () => job.evicted,
    })
  }
}

/**
 * Dispatching a node renders its templates, which may take milliseconds, and one commit can make a hundred thousand nodes
 * ready. Done without a break, no caller would get an answer meanwhile and the heartbeat would stop: peers would take the
 * partitions over, and block on the same job in their turn.
 *
 * 1. Dispatches that do not fit into a turn of the event loop wait for the next ones; jobs take turns, one node each.
 * 2. A waiting dispatch may have become obsolete: the dispatch function checks again.
 */
const TURN_MS = 10

export class TimeSlices {
  readonly #clock: Clock
  readonly #run: (job: LiveJob, at: AttemptRef) => void
  /** Jobs in the order of their turns. */
  readonly #waiting = new Map<LiveJob, { readonly list: AttemptRef[]; next: number }>()
  /** When this turn of the event loop began to dispatch; null: it has not. */
  #since: number | null = null
  #stopped = false

  constructor(clock: Clock, run: (job: LiveJob, at: AttemptRef) => void) {
    this.#clock = clock
    this.#run = run
  }

  dispatch(job: LiveJob, at: AttemptRef): void {
    if (this.#waiting.size === 0 && this.#hasTime()) this.#run(job, at)
    else this.#wait(job, at)
  }

  has(job: LiveJob): boolean {
    return this.#waiting.has(job)
  }

  stop(): void {
    this.#stopped = true
    this.#waiting.clear()
  }

  #wait(job: LiveJob, at: AttemptRef): void {
    if (this.#stopped) return
    const waiting = this.#waiting.get(job)
    if (waiting === undefined) this.#waiting.set(job, { list: [at], next: 0 })
    else waiting.list.push(at)
  }

  #hasTime(): boolean {
    const now = this.#clock.now()
    if (this.#since !== null) return now - this.#since < TURN_MS
    this.#since = now
    setImmediate(() => this.#nextTurn())
    return true
  }

  #nextTurn(): void {
    this.#since = null
    while (this.#waiting.size > 0 && this.#hasTime()) this.#runNext()
  }

  #runNext(): void {
    const [job, waiting] = this.#waiting.entries().next().value!
    this.#waiting.delete(job)
    const at = waiting.list[waiting.next++]!
    if (waiting.next < waiting.list.length && !job.evicted) this.#waiting.set(job, waiting)
    this.#run(job, at)
  }
}

/**
 * A node that only computes does not wait until the fact that made it ready is durable: if the process dies in between,
 * the node has had no visible effect. Its output joins the same commit, so glue between nodes costs no commit of its own.
 *
 * Early nodes must not outrun the store: at most this many begin early in a turn of the event loop, the others wait for
 * their commit like every other node. Their share of the turn is bounded as for all nodes (`TimeSlices`).
 */
const MAX_PER_TURN = 500

class EarlyDispatch {
  #taken = 0

  /** Takes one of the early dispatches of this turn of the event loop; false: none is left. */
  take(): boolean {
    if (this.#taken >= MAX_PER_TURN) return false
    if (this.#taken++ === 0)
      setImmediate(() => {
        this.#taken = 0
      })
    return true
  }
}
