/**
 * All executions of this process (P1): the tasks of nodes with handler `routes`. They are run not by a worker
 * but here, by the owner of their job, for as long as they take.
 *
 * 1. One run of a job at a time: the next begins when nothing of the previous one is in flight to the store.
 * 2. An execution whose process died continues in the next process: from the progress in the store, not from
 *    the beginning.
 */

import {
  attemptName,
  type BrokerHost,
  type Outcome,
  type PipelineNeeds,
  type RunningTask,
  type Task,
  type TaskName,
} from "../../broker/port.ts"
import type { TaskLane } from "../../broker/routed.ts"
import { type Fault, toFault } from "../../core/faults.ts"
import type { Json } from "../../core/json.ts"
import { routesHandler } from "../../definition/pipeline/compile.ts"
import { sleep, untilStoreAnswers, within } from "../../engine/clock.ts"
import { jobPartition } from "../../engine/ids.ts"
import { JobArtifacts } from "../../engine/owner/job-artifacts.ts"
import type { LiveMessage } from "../../engine/remote/live-messages.ts"
import { UmbraError } from "../../errors.ts"
import type { SubmitOptions } from "../../jobs/submit.ts"
import type { MessageKey } from "../../journal/port/pipelines.ts"
import { TooManyConcurrentExecutionsError } from "../errors.ts"
import { replayedJob } from "../message-names.ts"
import type { PipelineMetrics } from "../metrics.ts"
import type { PipelinesParts } from "../pipelines.ts"
import { routeSecrets } from "../registry/prepared-adapter.ts"
import { ExecutionStorage } from "../storage.ts"
import type { ChainEvents, RouteChain } from "./chain.ts"
import { RemoteChain, routeQueueName } from "./remote-chain.ts"
import { PipelineRun, type RunParts } from "./run.ts"

export interface ExecutionsParts extends Omit<PipelinesParts, "queries" | "submit"> {
  readonly host: BrokerHost
  readonly metrics: PipelineMetrics
  /** This process begins no executions: they wait for another one. */
  readonly isIdle: boolean
  readonly submit: (
    workflow: string,
    input: Json | undefined,
    options: Pick<SubmitOptions, "submittedBy"> & { readonly owner: string; readonly idempotencyKey: string },
  ) => Promise<string>
}

interface Current {
  readonly task: Task
  run: PipelineRun | null
  isWanted: boolean
  /** By the monotonic clock. */
  readonly begunAt: number
}

/** A place that was claimed for a job that was never stored is free again after this. */
export const CLAIM_MS = 60_000
/** Messages in flight of an execution that is paused get this time; then they are aborted, and delivered again later. */
const SUSPEND_MS = 30_000

export class Executions implements TaskLane {
  readonly #parts: ExecutionsParts
  readonly #current = new Map<string, Current>()
  /** By job: resolves at the end of the last run. */
  readonly #ends = new Map<string, Promise<void>>()
  /** Runs of paused executions whose messages in flight may end. */
  readonly #suspended = new Set<PipelineRun>()
  #isDraining = false

  constructor(parts: ExecutionsParts) {
    this.#parts = parts
  }

  runs(handler: string, needs?: PipelineNeeds): boolean {
    if (handler !== routesHandler || this.#parts.isIdle) return false
    if (needs === undefined) return true
    const { adapters, redis } = this.lacks(needs)
    return adapters.length === 0 && !redis
  }

  lacks({ adapters, redis }: PipelineNeeds): PipelineNeeds {
    return {
      adapters: adapters.filter(type => this.#parts.adapters.get(type) === undefined),
      redis: redis && this.#parts.workers() === undefined,
    }
  }

  runningTask(task: TaskName): RunningTask | null {
    const current = this.#current.get(attemptName(task))
    if (current === undefined) return null
    return { worker: this.#parts.host.id, ranMs: performance.now() - current.begunAt }
  }

  /** A message that is in flight here, or whose end is not durable yet. */
  live(jobId: string, key: MessageKey): LiveMessage | null {
    for (const { task, run } of this.#current.values())
      if (task.jobId === jobId) return run?.live(key) ?? null
    return null
  }

  dispatch(task: Task): void {
    const key = attemptName(task)
    if (this.#isDraining || this.#current.has(key)) return
    const current: Current = { task, run: null, isWanted: true, begunAt: performance.now() }
    this.#current.set(key, current)
    const before = this.#ends.get(task.jobId) ?? Promise.resolve()
    void before
      .then(() => this.#start(current))
      .catch(error => this.#finish(current, this.#faultOutcome(error)))
  }

  async #start(current: Current): Promise<void> {
    const { task } = current
    const { journal, plans, clock, settings, host, log } = this.#parts
    const partition = jobPartition(task.jobId)
    const epoch = host.epoch(partition)
    if (epoch === undefined || !current.isWanted) return
    const { pipeline } = await plans.get(task.owner, task.workflow, task.workflowVersion)
    if (pipeline === null) throw new UmbraError("E707", `Workflow "${task.workflow}" has no routes.`)
    const execution = await this.#claimExecution(task.jobId)
    const row = await journal.readJob(task.jobId)
    const here = pipeline.routes.filter(({ runOn }) => runOn !== "workers")
    const secrets = await routeSecrets(here, this.#parts.secrets, task.owner)
    if (!current.isWanted || row === null || this.#isDraining) return
    const job = jobNames(task, row.createdAt)
    const names = { input: task.input, job }
    const submitted = { owner: task.owner, submittedBy: row.submittedBy ?? undefined }
    const run = new PipelineRun({
      ...{ plan: pipeline, execution, settings, names, isReplay: replayedJob(row) !== null },
      fence: { partition, epoch },
      store: journal.pipelines,
      storage: new ExecutionStorage(journal.pipelines, execution.execution),
      retry: journal.capabilities.retry,
      adapters: this.#parts.adapters,
      secrets,
      random: () => clock.random(),
      lossLimit: this.#parts.lossLimit,
      remoteChain: (route, events) => this.#remoteChain({ owner: task.owner, job }, route, events),
      context: {
        jobId: task.jobId,
        owner: task.owner,
        pipeline: task.workflow,
        input: task.input,
        log: log.child({ job_id: task.jobId, pipeline: task.workflow }),
        now: () => clock.now(),
        isSure: () => host.isSure(),
        after: (ms, fire) => clock.after(ms, fire),
        submit: (workflow, input, idempotencyKey) =>
          this.#parts.submit(workflow, input, { ...submitted, idempotencyKey }),
        artifactFault: hashes => this.#artifactFault(task.owner, hashes),
      },
      events: {
        drained: output => this.#finish(current, { type: "completed", output, text: JSON.stringify(output) }),
        failed: fault => this.#finish(current, { type: "failed", fault: { ...fault, retryable: false } }),
        broken: error => this.#finish(current, this.#faultOutcome(error)),
        fenced: () => this.#forget(current),
        progressed: message => host.events.progress(task, { percent: null, message }),
      },
    })
    current.run = run
    this.#parts.metrics.begun(run)
    // The start is recorded for people; the next owner begins the execution in any case.
    host.events.started({ ...task, announce: false }, host.id).catch(() => {})
    await run.start()
  }

  async #artifactFault(owner: string, hashes: readonly string[]): Promise<Fault | null> {
    const { journal, clock } = this.#parts
    const artifacts = new JobArtifacts(journal, () => clock.now())
    try {
      return await untilStoreAnswers(() => artifacts.fault(owner, hashes), { pause: ms => sleep(clock, ms) })
    } catch (error) {
      return toFault(error, { now: clock.now() })
    }
  }

  #remoteChain(
    of: { readonly owner: string; readonly job: Json },
    route: Parameters<RunParts["remoteChain"]>[0],
    events: ChainEvents,
  ): RouteChain {
    const { workers, lossLimit, adapters } = this.#parts
    const queue = routeQueueName(route.plan, type => adapters.isBuiltin(type))
    return new RemoteChain({ ...route, ...of, queue, lossLimit, workers }, events)
  }

  async #claimExecution(jobId: string) {
    const { journal, clock, settings } = this.#parts
    // An execution that has ended and is retried needs a place again.
    const limit = settings.maxExecutions
    const claim = { jobId, at: clock.now(), limit, claimMs: CLAIM_MS }
    if ((await journal.pipelines.claimExecution(claim)) === null)
      throw new TooManyConcurrentExecutionsError(limit)
    return (await journal.pipelines.readExecution(jobId))!
  }

  #finish(current: Current, outcome: Outcome): void {
    if (!this.#forget(current)) return
    const { host, journal, clock, log } = this.#parts
    const ranMs = performance.now() - current.begunAt
    host.events.finished(current.task, outcome, { worker: host.id, heldMs: 0, ranMs })
    if (outcome.type !== "completed") return
    // A place that is not released now is free once the job has ended.
    journal.pipelines
      .endExecution({ jobId: current.task.jobId, at: clock.now() })
      .catch(error =>
        log.debug({ job_id: current.task.jobId, error }, "could not record the end of an execution"),
      )
  }

  /** Returns true if the engine still waited for it. A run that was suspended may report, and its task may run again. */
  #forget(current: Current, stop = (run: PipelineRun) => run.stop()): boolean {
    if (!current.isWanted) return false
    current.isWanted = false
    this.#current.delete(attemptName(current.task))
    if (current.run !== null) this.#parts.metrics.ended(current.run)
    this.#end(current, current.run === null ? Promise.resolve() : stop(current.run))
    return true
  }

  #end({ task: { jobId } }: Current, end: Promise<void>): void {
    const all = Promise.all([this.#ends.get(jobId), end]).then(() => {
      if (this.#ends.get(jobId) === all) this.#ends.delete(jobId)
    })
    this.#ends.set(jobId, all)
  }

  #faultOutcome(error: unknown): Outcome {
    const fault: Fault = toFault(error, { now: this.#parts.clock.now() })
    this.#parts.log.error({ error }, "a pipeline execution cannot continue")
    return { type: "failed", fault }
  }

  suspend(task: TaskName): void {
    const current = this.#current.get(attemptName(task))
    if (current === undefined) return
    this.#forget(current, run => {
      this.#suspended.add(run)
      return run.drain(SUSPEND_MS).finally(() => this.#suspended.delete(run))
    })
  }

  cancel(task: TaskName): void {
    const current = this.#current.get(attemptName(task))
    if (current !== undefined) this.#forget(current)
  }

  /** Messages in flight may end; the rest is left to the next owner of the jobs. */
  async drain(graceMs: number): Promise<void> {
    this.#isDraining = true
    const runs = [...this.#current.values()].map(({ run }) => run?.drain(graceMs))
    await Promise.all([...runs, this.#drainSuspended(graceMs)])
  }

  async #drainSuspended(graceMs: number): Promise<void> {
    if (this.#suspended.size === 0) return
    await within(this.#parts.clock, graceMs, Promise.all(this.#ends.values()))
    await Promise.all([...this.#suspended].map(run => run.stop()))
  }
}

function jobNames(task: Task, createdAt: number): Json {
  return {
    id: task.jobId,
    workflow: task.workflow,
    workflow_version: task.workflowVersion,
    owner: task.owner,
    created_at: new Date(createdAt).toISOString(),
  }
}
