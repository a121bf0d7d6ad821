import {
  attemptName,
  type Broker,
  type ChildRequest,
  type Outcome,
  type RemoteTaskEvents,
  type StartReport,
  type TaskName,
} from "../../broker/port.ts"
import {
  ARTIFACT_MARK,
  type ArtifactAnswer,
  type ArtifactQuestion,
  artifactsInText,
  artifactsInValue,
} from "../../core/artifacts.ts"
import type { AttemptRef, AttemptTimes, Command, External, Reported } from "../../core/commands.ts"
import type { Fault } from "../../core/faults.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import { attemptRef, isCurrent, taskKey } from "../../core/state.ts"
import type { Progress } from "../../core/view/view.ts"
import type { Journal } from "../../journal/port/journal.ts"
import { jobPartition } from "../ids.ts"
import type { ProviderTerms } from "../providers/providers.ts"
import type { JobArtifacts } from "./job-artifacts.ts"
import { type JobOwner, type LiveJob, runningAttempt } from "./live-job.ts"
import type { ExternalWork } from "./owner-parts.ts"

/** The owner of the jobs that workers report on. */
export interface ReportedOwner extends JobOwner {
  readonly broker: Broker
  readonly external: Pick<ExternalWork, "providers" | "capacity" | "leftSubmissions">
  progressed(job: LiveJob, node: number): void
  childRequested(job: LiveJob, at: Reported, request: ChildRequest): Promise<void>
  /** An attempt has ended, or is not wanted any more. */
  taskEnded(): void
  /** A process died while it ran calls for jobs that are not nodes. */
  callsLost(): void
  /** Dispatches a task again. */
  dispatch(job: LiveJob, attemptRef: AttemptRef): void
  withJob<T>(id: string, use: (job: LiveJob) => T): Promise<T | null>
  isQuarantined(jobId: string): boolean
  /** Also ends, with an error, when the partition is not owned any more. */
  untilStoreAnswers<T>(partition: number, act: () => Promise<T>): Promise<T>
}

/** Turns the reports of workers into commands to the jobs concerned. */
export class TaskReports implements RemoteTaskEvents {
  readonly #owner: ReportedOwner
  readonly #artifacts: JobArtifacts
  readonly #storeOutput: Journal["storeOutput"]
  /** Pending requests for a place in the provider's rate, by task name. */
  readonly #ratePlaces = new Map<string, Promise<void>>()
  /** By task name: the check of the artifacts that previews of an attempt refer to, with the fault of the first that failed. */
  readonly #previews = new WeakMap<LiveJob, Map<string, Promise<Fault | null>>>()
  /** Whether there ever was one. */
  #hasPreviews = false
  /** Names of tasks whose operation is being claimed. */
  readonly #claiming = new Set<string>()

  constructor(owner: ReportedOwner, artifacts: JobArtifacts, storeOutput?: Journal["storeOutput"]) {
    this.#owner = owner
    this.#artifacts = artifacts
    this.#storeOutput = storeOutput
  }

  started(task: StartReport, worker: string): Promise<void> {
    const job = this.#currentJob(task)
    const at = attemptRef(task)
    if (job === null || !isCurrent(job.state, at))
      return task.announce ? this.#mayContinue(task) : Promise.resolve()
    const ranMs = this.#owner.broker.runningTask(task)?.ranMs
    this.#owner.command(job, {
      type: "started",
      ...at,
      worker,
      alone: task.alone,
      // A request for another place in the rate comes from a handler that runs.
      announced: task.announce && ranMs === undefined ? true : undefined,
      ranMs,
    })
    return task.announce ? this.#mayBegin(job, task) : Promise.resolve()
  }

  /** A task that is over, or owned by another engine now, must not begin. A submission that its job has left continues. */
  #mayContinue(task: StartReport): Promise<void> {
    const submission = this.#owner.external.leftSubmissions.awaited(task)
    const isBegun = submission?.isRepeated === true || this.#owner.broker.runningTask(task) !== null
    return submission !== null && isBegun
      ? this.#waitForPlace(task, submission, () => Promise.resolve())
      : Promise.reject(new Error("the attempt is not current"))
  }

  #mayBegin(job: LiveJob, task: StartReport): Promise<void> {
    const { provider } = job.plan.nodes[task.node]!
    return this.#waitForPlace(task, { provider, owner: job.state.owner }, () => this.#owner.durable(job))
  }

  /** A worker without an answer repeats its request; both requests share one place in the rate. */
  #waitForPlace(
    task: StartReport,
    { provider, owner }: { readonly provider: string | null; readonly owner: string },
    durable: () => Promise<void>,
  ): Promise<void> {
    const { capacity, providers } = this.#owner.external
    const terms = provider === null ? undefined : providers.terms(provider)
    if (task.place !== true || terms === undefined) return durable()
    const name = attemptName(task)
    const waiting = this.#ratePlaces.get(name)
    if (waiting !== undefined) return waiting
    // Not created earlier: a rejected promise that is not awaited would end the process.
    const answer = durable()
      .then(() => capacity.rate.waitForPlace({ provider: provider!, owner, ...terms }))
      .finally(() => this.#ratePlaces.delete(name))
    this.#ratePlaces.set(name, answer)
    return answer
  }

  progress(task: TaskName, progress: Progress): void {
    const job = this.#currentJob(task)
    if (job !== null) this.#progressed(job, task, progress)
  }

  /** A report on an operation that the job has accepted. */
  operationReported(job: LiveJob, command: External): void {
    const { result } = command
    if (result.type === "running" && result.progress !== undefined)
      this.#progressed(job, command, result.progress)
    else if (result.type === "completed" || result.type === "failed") job.progress?.delete(taskKey(command))
  }

  #progressed(job: LiveJob, of: Pick<TaskName, "node" | "item">, progress: Progress): void {
    job.progress ??= new Map()
    job.progress.set(taskKey(of), progress)
    this.#owner.progressed(job, of.node)
  }

  /** A preview with references to artifacts is published once it is known that the owner of the job has them; otherwise its attempt fails. */
  preview(task: TaskName, data: Json): void {
    const job = this.#currentJob(task)
    if (job === null) return
    const hashes = unheld(job, artifactsInValue(data))
    const pending = this.#previews.get(job)
    const before = pending?.get(attemptName(task))
    if (hashes.length === 0 && before === undefined) this.#preview(task, data)
    else {
      const checked = this.#fault(job, hashes, before).then(fault => {
        if (fault === null) this.#preview(task, data)
        return fault
      })
      checked.catch(error => this.#owner.quarantine(job, error))
      this.#previews.set(job, (pending ?? new Map()).set(attemptName(task), checked))
      this.#hasPreviews = true
    }
  }

  #preview(task: TaskName, data: Json): void {
    const job = this.#currentJob(task)
    if (job !== null) this.#owner.command(job, { type: "preview", ...attemptRef(task), data })
  }

  /** Why the attempt fails that refers to these artifacts; `before`: the same of earlier references. */
  async #fault(
    { partition, state: { owner } }: LiveJob,
    hashes: readonly string[],
    before: Promise<Fault | null> | undefined,
  ): Promise<Fault | null> {
    const known = await before
    if (known != null || hashes.length === 0) return known ?? null
    return this.#owner.untilStoreAnswers(partition, () => this.#artifacts.fault(owner, hashes))
  }

  asked(task: TaskName, question: ArtifactQuestion): Promise<ArtifactAnswer> {
    const job = this.#currentJob(task)
    return job === null || !isCurrent(job.state, attemptRef(task))
      ? Promise.reject(new Error("the attempt is not current"))
      : this.#artifacts.answer(job.state.owner, question)
  }

  finished(task: TaskName, outcome: Outcome, times: AttemptTimes): void {
    const stored = this.#storeOutput === undefined ? undefined : this.#stored(task, outcome)
    if (stored === undefined) this.#checkAndFinish(task, outcome, times)
    else {
      const finished = stored.then(() => this.#checkAndFinish(task, outcome, times))
      this.#owner.pendingDecisions.add(jobPartition(task.jobId), finished, task)
    }
  }

  /** Before the decision: an append would hold up those behind it while it stores a large output. */
  #stored(task: TaskName, outcome: Outcome): Promise<void> | undefined {
    if (outcome.type !== "completed" || this.#currentJob(task) === null) return undefined
    return this.#storeOutput!(task.jobId, outcome.text)
  }

  /** An outcome with references to artifacts counts once it is known that the owner of the job has them; so do those of its previews. */
  #checkAndFinish(task: TaskName, outcome: Outcome, times: AttemptTimes): Promise<void> | undefined {
    const found = referencesIn(outcome)
    const job = found.length === 0 && !this.#hasPreviews ? null : this.#currentJob(task)
    const hashes = job === null ? none : unheld(job, found)
    const previews = job === null ? undefined : this.#previews.get(job)?.get(attemptName(task))
    if (job === null || (hashes.length === 0 && previews === undefined)) {
      this.#finished(task, outcome, times)
      return undefined
    }
    const checked = this.#fault(job, hashes, previews).then(fault =>
      fault === null ? outcome : ({ type: "failed", fault, usage: outcome.usage } as const),
    )
    const finished = checked.then(
      result => this.#finished(task, result, times),
      error => this.#owner.quarantine(job, error),
    )
    this.#owner.pendingDecisions.add(job.partition, finished, task)
    return finished
  }

  #finished(task: TaskName, outcome: Outcome, times: AttemptTimes): void {
    this.#owner.taskEnded()
    const job = this.#currentJob(task)
    const { pendingDecisions, external } = this.#owner
    const at = attemptRef(task)
    const isLeft = job === null || !isCurrent(job.state, at)
    if (isLeft) {
      pendingDecisions.add(jobPartition(task.jobId), external.leftSubmissions.finished(job, task, outcome))
      const isUnbegun = outcome.type === "failed" && outcome.isUnbegun === true
      if (!isUnbegun) this.#recordAborted(task, { ...times, hasEnded: true }, outcome.usage)
    }
    if (job === null) return
    const key = taskKey(task)
    job.running.delete(key)
    job.progress?.delete(key)
    if (outcome.type === "child") {
      const { usage } = outcome
      const reported = { ...at, times, usage }
      pendingDecisions.add(job.partition, this.#owner.childRequested(job, reported, outcome), task)
    } else if (isLeft) return
    else if (outcome.type === "submitted")
      pendingDecisions.add(job.partition, this.#submitted(job, { ...task, times }, outcome), task)
    else {
      const { provider } = job.plan.nodes[task.node]!
      const terms = provider === null ? undefined : this.#terms(provider, outcome)
      const text = outcome.type === "completed" ? outcome.text : undefined
      this.#owner.command(job, outcomeCommand(at, outcome, terms, times), text)
    }
  }

  /** The attempt of a process that stops is handed over. All others have ended before, with a fact that may lack this. */
  aborted(task: TaskName, times: AttemptTimes, usage: JsonObject | undefined): void {
    const job = this.#currentJob(task)
    if (job === null || !isCurrent(job.state, task)) {
      this.#recordAborted(task, times, usage)
      return
    }
    const ran = runningAttempt(task, { ...times, usage })
    this.#owner.command(job, { type: "hand_over", only: [attemptRef(task)], ran: [ran] })
    job.running.delete(taskKey(task))
  }

  /** The job may have ended and been parked. A job that is quarantined is not resumed for this. */
  #recordAborted(task: TaskName, times: AttemptTimes, usage: JsonObject | undefined): void {
    const owner = this.#owner
    const partition = jobPartition(task.jobId)
    // Calls outside of nodes have negative numbers.
    if (task.attempt < 0 || !owner.owned.has(partition) || owner.isQuarantined(task.jobId)) return
    const command: Command = {
      ...{ type: "aborted", ...attemptRef(task), times },
      usage,
    }
    // If the partition has moved, its next owner receives the worker's report.
    owner.pendingDecisions.add(
      partition,
      owner.untilStoreAnswers(partition, () => owner.withJob(task.jobId, job => owner.command(job, command))),
    )
  }

  /** Is the operation that the task submitted being claimed right now? */
  isClaiming(task: TaskName): boolean {
    return this.#claiming.has(attemptName(task))
  }

  /** Claims the operation for the job's owner before it is recorded. The job may end meanwhile. */
  async #submitted(
    job: LiveJob,
    task: TaskName & { readonly times: AttemptTimes },
    outcome: Extract<Outcome, { type: "submitted" }>,
  ): Promise<void> {
    const { external } = this.#owner
    const { provider } = job.plan.nodes[task.node]!
    const at = attemptRef(task)
    const terms = provider === null ? undefined : this.#terms(provider, outcome)
    this.#claiming.add(attemptName(task))
    try {
      const operation = { provider: provider!, externalId: outcome.externalId }
      const isOwn =
        terms === undefined || (await external.capacity.claimOperation(job.state.owner, operation))
      if (!isCurrent(job.state, at)) await external.leftSubmissions.finished(job, task, outcome)
      else if (isOwn) this.#owner.command(job, outcomeCommand(at, outcome, terms, task.times))
      else
        this.#owner.command(
          job,
          outcomeCommand(
            at,
            { ...outcome, type: "failed", fault: foreignOperation(provider!) },
            terms,
            task.times,
          ),
        )
    } catch (error) {
      this.#owner.quarantine(job, error)
    } finally {
      this.#claiming.delete(attemptName(task))
    }
  }

  /** Is this an attempt that its job no longer wants? */
  #isAbandoned(job: LiveJob | null, task: TaskName): boolean {
    return job === null || !isCurrent(job.state, attemptRef(task))
  }

  lost(tasks: readonly TaskName[], callsToo: boolean): void {
    if (callsToo) this.#owner.callsLost()
    const byJob = new Map<LiveJob, AttemptRef[]>()
    for (const task of tasks) {
      const job = this.#currentJob(task)
      if (this.#isAbandoned(job, task)) this.#owner.external.leftSubmissions.lost(task)
      if (job === null) continue
      job.progress?.delete(taskKey(task))
      const lost = byJob.get(job)
      if (lost === undefined) byJob.set(job, [attemptRef(task)])
      else lost.push(attemptRef(task))
    }
    for (const [job, only] of byJob) {
      this.#owner.command(job, { type: "recover", only })
      // Until the command is decided they count as running: the fact records which of them were.
      for (const task of only) job.running.delete(taskKey(task))
    }
  }

  /** A task that is known to have begun becomes a new attempt. Others are dispatched again under the same attempt. */
  returned(task: TaskName): void {
    const job = this.#currentJob(task)
    const at = attemptRef(task)
    if (this.#isAbandoned(job, task)) this.#owner.external.leftSubmissions.lost(task)
    if (job === null) return
    job.progress?.delete(taskKey(task))
    this.#owner.command(job, { type: "hand_over", only: [at] })
    job.running.delete(taskKey(task))
    if (isCurrent(job.state, at)) this.#owner.dispatch(job, at)
  }

  #terms(provider: string, outcome: Outcome) {
    const { capacity, providers } = this.#owner.external
    if (outcome.type === "failed") capacity.reportFailure(provider, "submit", outcome.fault)
    const terms = providers.terms(provider)
    return terms === undefined ? undefined : { ...terms, provider }
  }

  /** null: the job is not in memory, or the attempt is not its current one. */
  #currentJob(task: TaskName): LiveJob | null {
    const job = this.#owner.jobs.get(task.jobId)
    if (job === undefined || job.evicted) return null
    // Without `findTask`, which allocates: this runs for every report.
    const own = task.item === undefined ? job.state : job.state.lists.get(task.node)?.state
    return own?.attempt[task.item ?? task.node] === task.attempt ? job : null
  }
}

/** An output, by far the commonest, is searched as text. */
function referencesIn(outcome: Outcome): readonly string[] {
  switch (outcome.type) {
    case "completed":
      return outcome.text.includes(ARTIFACT_MARK) ? artifactsInText(outcome.text) : none
    case "waiting":
      return artifactsInValue(outcome.waiting as unknown as Json)
    case "child":
      return artifactsInValue(outcome.input)
    default:
      return none
  }
}

const none: readonly string[] = []

/** What the job holds is not checked again: nothing removes it while the job is there, except by force. */
function unheld({ artifacts }: LiveJob, hashes: readonly string[]): readonly string[] {
  return artifacts === null ? hashes : hashes.filter(hash => !artifacts.has(hash))
}

/** The message does not repeat the id: it belongs to another owner. */
function foreignOperation(provider: string): Fault {
  return {
    code: "E425",
    message:
      `The operation submitted to provider "${provider}" has the id of an operation that belongs to another owner. ` +
      "It is neither polled nor cancelled for this job.",
    retryable: false,
  }
}

/** The command that an attempt's outcome becomes. `terms`: of the node's provider, if it has one that is known here. */
function outcomeCommand(
  at: AttemptRef,
  outcome: Exclude<Outcome, { type: "child" }>,
  terms: (ProviderTerms & { readonly provider: string }) | undefined,
  times: AttemptTimes,
): Command {
  if (outcome.type === "completed") return completed(at, outcome, times)
  const reported = { ...at, times, usage: outcome.usage }
  switch (outcome.type) {
    case "failed": {
      const { times: _, ...unbegun } = reported
      return { type: "failed", ...(outcome.isUnbegun ? unbegun : reported), fault: outcome.fault }
    }
    case "waiting":
      return { type: "waiting", ...reported, waiting: outcome.waiting }
    case "submitted": {
      if (terms === undefined) return { type: "failed", ...reported, fault: noProvider }
      const { provider, poll, ttlSeconds } = terms
      return { type: "submitted", ...reported, provider, externalId: outcome.externalId, poll, ttlSeconds }
    }
  }
}

/** By far the commonest command is built by hand: spreads show in profiles. */
function completed(
  at: AttemptRef,
  outcome: Extract<Outcome, { type: "completed" }>,
  times: AttemptTimes,
): Command {
  const { output, usage } = outcome
  const { node, attempt } = at
  if (usage === undefined && at.item === undefined) return { type: "completed", node, attempt, output, times }
  return { type: "completed", ...at, output, times, usage }
}

const noProvider: Fault = {
  code: "E421",
  message:
    "The handler reported that the work was submitted, but the node has no provider to poll. " +
    "Add `provider:` to the node.",
  retryable: false,
}

/**
 * Reports of workers that cannot be decided yet, because something must be read first: an output that left memory, the
 * workflow of a child. Until they are decided there is no fact that could become durable.
 */
export class PendingDecisions {
  readonly #byPartition = new Map<number, Set<Promise<unknown>>>()
  /** The latest decision on the outcome of each task, by task name. */
  readonly #byTask = new Map<string, Promise<unknown>>()

  /** `task`: the decision is on its outcome. The caller handles a rejection of the promise. */
  add(partition: number, decision: Promise<unknown>, task?: TaskName): void {
    const open = this.#byPartition.get(partition) ?? new Set()
    this.#byPartition.set(partition, open)
    open.add(decision)
    const name = task === undefined ? null : attemptName(task)
    if (name !== null) this.#byTask.set(name, decision)
    const remove = () => {
      open.delete(decision)
      if (name !== null && this.#byTask.get(name) === decision) this.#byTask.delete(name)
    }
    decision.then(remove, remove)
  }

  /** Has the worker reported the outcome of the task, without a decision on it so far? */
  has(jobId: string, { node, item, attempt }: AttemptRef): boolean {
    // The size is checked first: every dispatch calls this.
    return this.#byTask.size > 0 && this.#byTask.has(attemptName({ jobId, node, item, attempt }))
  }

  /** Resolves when all decisions that are pending now are made; undefined: none is pending. */
  whenDecided(partition: number): Promise<unknown> | undefined {
    const open = this.#byPartition.get(partition)
    return open === undefined || open.size === 0 ? undefined : Promise.allSettled(open)
  }

  /** The same for all partitions. */
  async whenAllDecided(): Promise<void> {
    await Promise.allSettled([...this.#byPartition.values()].flatMap(open => [...open]))
  }
}
