import type { Broker, ChildRequest } from "../../broker/port.ts"
import { fillReused, type ReusedValues } from "../../core/apply/fork.ts"
import { findAborted } from "../../core/attempt-times.ts"
import type { AttemptRef, Command, DecisionContext, Reported, Submit } from "../../core/commands.ts"
import { submission } from "../../core/decide/decide.ts"
import { cut } from "../../core/faults.ts"
import { attemptRef, findTask, newJobState, parseTaskKey, type TaskRef, taskKey } from "../../core/state.ts"
import { isRetried, nextTimer, takeDue } from "../../core/timers.ts"
import { abortReason } from "../../core/view/reasons.ts"
import type { Plan } from "../../definition/plan.ts"
import { failpoint } from "../../failpoints.ts"
import { defaultLimits } from "../../template/index.ts"
import { sleep, untilStoreAnswers } from "../clock.ts"
import { type OwnedPartition, partitionMoved } from "../commit/batch.ts"
import { type AppendLane, type CommittedBatch, Committer } from "../commit/committer.ts"
import { StoreHealth } from "../commit/sender.ts"
import { Dispatcher } from "../dispatch/dispatcher.ts"
import { holdsOfFork, isWholeFork } from "../forks/holds.ts"
import { jobPartition } from "../ids.ts"
import { adoptTasks, cancelTasks, Handover, hasLostTasks, releaseTasks } from "../partitions/handover.ts"
import { Capacity } from "../providers/capacity.ts"
import { LeftSubmissions } from "../providers/left-submissions.ts"
import { Polls } from "../providers/polls.ts"
import { Slots } from "../providers/slots.ts"
import { JobLoader } from "../recovery/loader.ts"
import { Alarms } from "./alarms.ts"
import { JobArtifacts } from "./job-artifacts.ts"
import { JobMemory } from "./job-memory.ts"
import { JobQueue, type Place } from "./job-queue.ts"
import {
  currentTask,
  DeathsAlone,
  evictOutput,
  hasLaterAttempt,
  type LiveJob,
  newLiveJob,
  runningAttempts,
} from "./live-job.ts"
import type { Absent, ExternalWork, OwnerParts, Submission, Use } from "./owner-parts.ts"
import { rowChanged } from "./pause.ts"
import { PendingDecisions, type ReportedOwner, TaskReports } from "./reports.ts"
import { rowWakeAt, startsLater, wake } from "./start.ts"
import { TaskLocations } from "./task-locations.ts"
import { ABOUT_JOB, type Decided, MAY_END_ATTEMPTS, type TurnOwner, Turns } from "./turn.ts"

/**
 * The owner of some partitions: the only writer of their jobs.
 *
 * 1. Facts are applied when decided; effects and every answer, refusals and no-ops included, wait until the batch
 *    they depend on is durable. Nodes that only compute have no effect, and begin before (`early-dispatch.ts`).
 * 2. After a fence or a failure the memory is discarded, never patched.
 * 3. A job stays in memory no longer than it must (`job-memory.ts`).
 */
export class PartitionOwner<B extends Broker = Broker> implements ReportedOwner, TurnOwner {
  readonly jobs: ReadonlyMap<string, LiveJob>
  readonly owned = new Map<number, OwnedPartition>()
  readonly broker: B
  readonly committer: Committer
  readonly store: StoreHealth
  readonly loader: JobLoader
  readonly external: ExternalWork
  readonly handover: Handover
  readonly pendingDecisions = new PendingDecisions()
  readonly queue: JobQueue
  /** Where tasks are that no broker has. */
  readonly taskLocations: TaskLocations
  readonly #parts: OwnerParts<B>
  readonly #alarms: Alarms
  readonly #memory: JobMemory
  readonly #reports: TaskReports
  readonly #dispatcher: Dispatcher
  readonly #turns: Turns
  readonly #taskWaiters: (() => void)[] = []
  readonly #deaths = new DeathsAlone()
  readonly #quarantined = new Set<string>()

  constructor(parts: OwnerParts<B>) {
    const { clock, settings, log, metrics, engine, providers } = parts
    const { journal, queuedFacts } = parts.load
    const leaseMs = settings.slotLeaseSeconds * 1000
    this.#parts = parts
    this.store = new StoreHealth(log, journal.capabilities.retry.tries)
    this.committer = new Committer({
      ...{ journal, clock, store: this.store, owned: this.owned, metrics },
      slotLeaseMs: leaseMs,
    })
    this.#alarms = new Alarms(clock, job => this.fireTimers(job))
    this.#memory = new JobMemory({
      ...{ clock, alarms: this.#alarms, engine, queuedFacts, parkAfterMs: settings.parkAfterMs },
      left: (job, place) => this.#leavePlace(job, place),
    })
    this.jobs = this.#memory.jobs
    this.loader = new JobLoader(this, parts.load)
    this.queue = new JobQueue({
      ...{ journal, clock, log, partitions: parts.partitions, maxLiveJobs: settings.maxLiveJobs },
      facts: queuedFacts,
      capacity: () => engine.capacity(),
      liveJobs: () => this.jobs.size,
      isBehind: () => this.committer.lanes.some(lane => lane.isBehind),
      begin: (ids, queue) => engine.begin(ids, queue),
    })
    const artifacts = new JobArtifacts(journal, () => clock.now())
    this.#reports = new TaskReports(this, artifacts, journal.storeOutput)
    this.broker = parts.broker({
      id: parts.id,
      events: this.#reports,
      epoch: partition => this.owned.get(partition)?.epoch,
      durable: partition => this.allDurable(partition),
      served: handler => this.handlerAdded(handler),
      isSure: () => parts.lease.isSure,
    })
    const shared = { journal, clock, log, providers, engine, owner: this, broker: this.broker }
    const templates = { ...defaultLimits, bytes: parts.maxOutputBytes }
    const slots = new Slots({ ...shared, leaseMs })
    const capacity = new Capacity({ ...shared, slots, guardMs: settings.rateGuardMs })
    const limits = { maxItems: settings.maxItems, templates }
    const dispatcher = new Dispatcher({ ...shared, capacity, limits })
    this.#dispatcher = dispatcher
    const polls = new Polls({
      ...{ ...shared, artifacts, capacity, concurrency: settings.pollConcurrency },
      maxWaitMs: settings.pollMaxWaitSeconds * 1000,
    })
    const leftSubmissions = new LeftSubmissions({ ...shared, capacity, loader: this.loader, dispatcher })
    this.external = { providers, slots, capacity, polls, leftSubmissions }
    const { store, owned, committer, pendingDecisions } = this
    this.taskLocations = new TaskLocations({ store, owned, capacity, dispatcher, pendingDecisions })
    this.handover = new Handover(this)
    this.#turns = new Turns({ clock, committer, dispatcher, owner: this, templateLimits: templates })
  }

  /** Resolves when all decisions for the partition are stored. */
  async allDurable(partition: number): Promise<void> {
    const owned = this.owned.get(partition)
    await this.pendingDecisions.whenDecided(partition)
    if (owned === undefined || this.owned.get(partition) !== owned) throw partitionMoved(partition)
    return this.committer.durable({ partition, id: "" })
  }

  durable(job: { readonly partition: number; readonly id: string }): Promise<void> {
    return this.committer.durable(job)
  }

  progressed(job: LiveJob, node: number): void {
    this.#parts.observer.progressed(job, node)
  }

  childRequested(job: LiveJob, at: Reported, request: ChildRequest): Promise<void> {
    return this.#parts.engine.childRequested(job, at, request)
  }

  nextTaskEnd(): Promise<void> {
    return new Promise(resolve => this.#taskWaiters.push(resolve))
  }

  taskEnded(): void {
    if (this.#taskWaiters.length === 0) return
    for (const wake of this.#taskWaiters.splice(0)) setImmediate(wake)
  }

  callsLost(): void {
    this.#deaths.note("calls", this.#parts.clock.now())
  }

  dispatch(job: LiveJob, at: AttemptRef): void {
    this.#dispatcher.dispatch(job, at)
  }

  /** Sends a new job to the journal. It is added to memory if its queue has a place; `job` null: it waits as a row, for a place or for its start time. */
  submit(id: string, partition: number, plan: Plan, command: Submit, reused?: ReusedValues): Submission {
    const known = this.jobs.get(id)
    if (known !== undefined) return { createdAt: known.state.createdAt, job: known }
    if (startsLater(command, this.#parts.clock)) return this.#submitRow(id, partition, command)
    const mayBegin = command.paused === undefined && (plan.pipeline !== null || this.queue.mayBegin(command))
    if (!mayBegin && !isWholeFork(plan, command)) return this.#submitRow(id, partition, command)
    const job = this.submitNow(id, partition, plan, command, reused)
    this.queue.entered(job)
    return { createdAt: job.state.createdAt, job }
  }

  #submitRow(id: string, partition: number, command: Submit): Submission {
    const createdAt = this.#parts.clock.now()
    const lane = this.committer.lane(partition)
    lane.closeIfFull()
    const fact = submission(command, createdAt, true)
    lane.recordQueued({ id, partition, fact, wakeAt: rowWakeAt(fact, command, this.queue) })
    if (command.fork !== undefined) lane.hold(holdsOfFork(id, partition, command, createdAt))
    this.queue.facts.expect(id)
    this.#parts.metrics.jobsSubmitted++
    return { createdAt, job: null }
  }

  /** A child job begins with its parent: it never waits for a place. */
  submitNow(id: string, partition: number, plan: Plan, command: Submit, reused?: ReusedValues): LiveJob {
    const known = this.jobs.get(id)
    if (known !== undefined) return known
    const state = newJobState(plan)
    const job = newLiveJob({ id, partition, plan, state })
    void this.execute(job, command)
    if (command.fork !== undefined) {
      if (reused !== undefined) fillReused(state, command.fork, reused)
      this.committer.lane(partition).hold(holdsOfFork(id, partition, command, state.createdAt))
    }
    this.#parts.metrics.jobsSubmitted++
    this.#memory.keep(job)
    return job
  }

  /**
   * Loads the job unless it is in memory, calls `use` before anything else can happen to it, and resolves with its result
   * when everything decided so far is durable; then the job is parked if it is idle. For a job in memory `use` is called
   * at once. If there is no such job, `absent` is called instead, before another caller can submit the job.
   */
  withJob<T>(id: string, use: Use<T>): Promise<T | null>
  withJob<T>(id: string, use: Use<T>, absent: () => T | Promise<T>): Promise<T>
  withJob<T>(id: string, use: Use<T>, absent: Absent<T> = () => null): Promise<T | null> {
    const job = this.jobs.get(id)
    return job === undefined || this.loader.blocked(id) !== undefined
      ? this.#loadAndUse(id, use, absent)
      : this.#use(job, use)
  }

  async #loadAndUse<T>(id: string, use: Use<T>, absent: Absent<T>): Promise<T | null> {
    while (this.queue.facts.isUnstored(id)) await this.committer.durable({ partition: jobPartition(id), id })
    for (;;) {
      // A caller that waited for the same load, and continued first, may have submitted the job.
      const job = (await this.loader.load(id)) ?? this.jobs.get(id)
      if (job === undefined) break
      if (!job.evicted) return this.#use(job, use)
    }
    const result = await absent()
    await this.committer.durable({ partition: jobPartition(id), id })
    return result
  }

  async #use<T>(job: LiveJob, use: Use<T>): Promise<T> {
    job.users++
    try {
      const result = await use(job)
      await this.durable(job)
      return result
    } finally {
      job.users--
      this.parkIfIdle(job)
    }
  }

  /**
   * Decides on a command. The answer may be given to a caller only once `committer.durable(job)` has resolved. It is a
   * promise only when the job's output must be rendered from outputs that are not in memory.
   */
  execute(job: LiveJob, command: Command, outputText?: string): Decided | Promise<Decided> {
    return this.#turns.execute(job, command, outputText)
  }

  /** Discards fenced partitions and rejected jobs, then performs the effects of a batch that is durable. */
  perform(lane: AppendLane, { batch, fenced, refused }: CommittedBatch): void {
    for (const partition of fenced) this.fenced(partition)
    for (const { job, error } of refused) this.#refused(job, error)
    failpoint("ack.before")
    lane.release(batch)
    this.#turns.perform(batch)
    for (const job of batch.queued) {
      const waits = this.queue.settled(job, batch.refused.has(job.id))
      if (!waits) this.#parts.engine.parked(job.partition, job.wakeAt)
      this.#parts.observer.changed(job)
    }
    for (const job of batch.jobs) {
      this.#parts.observer.changed(job)
      if (job.state.unsettled && job.pendingBatches === 0 && !job.evicted) this.#parts.engine.unsettled(job)
      this.parkIfIdle(job)
    }
    if (this.queue.waiting.size > 0) this.queue.wake()
    failpoint("ack.after")
  }

  #leavePlace(job: LiveJob, place: Place): void {
    job.place = null
    place.count--
    if (place.queue.levels.length > 0) this.queue.freed(place.queue)
  }

  /** Adds a job that a caller needs. If it was quarantined here, or lost its tasks with an earlier owner, it continues. */
  adopt(job: LiveJob): void {
    const wasQuarantined = this.#quarantined.has(job.id)
    this.keep(job)
    if (wasQuarantined) this.releaseFromQuarantine(job)
    if (wasQuarantined || hasLostTasks(job)) this.recover(job)
  }

  /** Adds a job that was loaded from the journal. */
  keep(job: LiveJob): void {
    this.#memory.keep(job)
    this.#deaths.learn(job)
    this.#alarms.set(job, nextTimer(job.state))
    if (job.state.unsettled) this.#parts.engine.unsettled(job)
  }

  command(job: LiveJob, command: Command, outputText?: string): void {
    if (job.evicted) return
    try {
      const decided = this.execute(job, command, outputText)
      if (!(decided instanceof Promise)) return
      const made = decided.catch(error => this.quarantine(job, error))
      const task = command.type === "completed" ? { jobId: job.id, ...command } : undefined
      this.pendingDecisions.add(job.partition, made, task)
    } catch (error) {
      this.quarantine(job, error)
    }
  }

  /** Fires the timers of the job that are due. */
  fireTimers(job: LiveJob): void {
    if (job.evicted) return
    // A retry may be dispatched only when the failure that caused it is durable.
    if (job.pendingBatches > 0) {
      this.durable(job).then(
        () => this.fireTimers(job),
        () => {},
      )
      return
    }
    if (!wake(job, this, this.#parts)) return
    const { tasks, polls } = takeDue(job.state, this.#parts.clock.now())
    this.#alarms.set(job, nextTimer(job.state))
    for (const task of tasks) this.#dispatchCurrent(job, task)
    for (const poll of polls) this.external.polls.start(job, poll)
    this.parkIfIdle(job)
  }

  /** Dispatches a task that waits for its retry time before that time. */
  dispatchNow(job: LiveJob, task: TaskRef, now: number): void {
    const place = findTask(job.state, task)
    if (place === null || !place.state.retryAt.has(place.position)) return
    place.state.retryAt.set(place.position, now)
    this.fireTimers(job)
  }

  /** A worker can run this handler now, or this process knows this provider now. */
  handlerAdded(name: string): void {
    for (const job of this.jobs.values())
      for (const key of [...(job.awaitingHandler ?? [])]) {
        const task = parseTaskKey(key)
        const { handler, provider } = job.plan.nodes[task.node]!
        if (handler !== name && provider !== name) continue
        job.awaitingHandler?.delete(key)
        this.#dispatchCurrent(job, task)
      }
  }

  #dispatchCurrent(job: LiveJob, task: TaskRef): void {
    const current = currentTask(job, task)
    if (current !== null) this.dispatch(job, attemptRef(current))
  }

  /** Called after a take-over. */
  recover(job: LiveJob): void {
    job.isQueued = false
    adoptTasks(job, this.#parts.clock.now(), this)
  }

  stop(): void {
    this.#alarms.stop()
    this.#dispatcher.stop()
    this.external.capacity.stop()
    this.external.leftSubmissions.stop()
    this.committer.stop()
  }

  /** A submission to a provider is not aborted when its job no longer wants it; one that is handed over is. */
  abort(job: LiveJob, attemptRef: AttemptRef): void {
    const key = taskKey(attemptRef)
    job.running.delete(key)
    job.awaitingHandler?.delete(key)
    this.taskEnded()
    const isLeft = job.plan.nodes[attemptRef.node]!.provider !== null && !hasLaterAttempt(job, attemptRef)
    if (isLeft) this.external.leftSubmissions.abandoned(job, attemptRef)
    else {
      const { isBegun = false, usage } = findAborted(job.state, attemptRef) ?? {}
      this.broker.cancel({ jobId: job.id, ...attemptRef }, abortReason(job.state), { isBegun, usage })
    }
  }

  isQuarantined(jobId: string): boolean {
    return this.#quarantined.has(jobId)
  }

  untilStoreAnswers<T>(partition: number, act: () => Promise<T>): Promise<T> {
    const isOver = () => !this.owned.has(partition)
    return untilStoreAnswers(act, { pause: ms => sleep(this.#parts.clock, ms), isOver })
  }

  decided(job: LiveJob, command: Command, outputText: string | undefined): void {
    const timer = nextTimer(job.state)
    if (timer !== job.alarmAt || job.alarmIndex < 0) this.#alarms.set(job, timer)
    // A job that is recovered begins again.
    if (job.place !== null && command.type !== "recover") this.#leavePlace(job, job.place)
    if (command.type === "recover") this.#deaths.learn(job)
    if (ABOUT_JOB.has(command.type)) rowChanged(job, command, this)
    if (isRetried(job.state, command)) this.#parts.metrics.retries++
    if (job.activePolls !== null && job.activePolls.size > 0) this.external.polls.drop(job)
    if (command.type === "external") this.#reports.operationReported(job, command)
    if (command.type !== "completed" || outputText === undefined) return
    if (outputText.length > this.#parts.settings.largeOutputBytes)
      evictOutput(job, command, outputText.length, this.durable(job))
  }

  /** The context of a decision. The plain completion, by far the commonest command, gets the smallest one. */
  contextFor(job: LiveJob, command: Command): DecisionContext {
    const { lossLimit } = this.#parts.settings
    const now = this.#parts.clock.now()
    const random = this.#parts.clock.random()
    if (MAY_END_ATTEMPTS.has(command.type))
      return {
        ...{ now, random, lossLimit, turnSeq: job.turnSeq },
        running: () => runningAttempts(job, this.broker),
      }
    if (command.type === "retry" || command.type === "delete")
      return { now, random, lossLimit, turnSeq: job.turnSeq }
    if (command.type === "started" && command.alone === true) {
      const otherDiedAt = this.#deaths.latestOther(job, command)
      if (otherDiedAt !== undefined) return { now, random, lossLimit, otherDiedAt }
    }
    return { now, random, lossLimit }
  }

  isDispatched({ id: jobId }: LiveJob, attemptRef: AttemptRef): boolean {
    return this.broker.has({ jobId, ...attemptRef }) || this.#reports.isClaiming({ jobId, ...attemptRef })
  }

  ended(job: LiveJob): void {
    this.#parts.metrics.jobEnded(job.state)
    this.#parts.observer.ended(job)
  }

  /** Another engine owns this partition. */
  fenced(partition: number): void {
    this.forget(partition)
    this.#parts.log.warn({ partition }, "another engine has taken this partition; its jobs continue there")
  }

  /** Discards all memory of a partition. */
  forget(partition: number): void {
    this.owned.delete(partition)
    this.committer.lane(partition).forget(partition)
    this.broker.remote?.left([partition])
    this.queue.facts.forget(partition)
    for (const id of this.#quarantined) if (jobPartition(id) === partition) this.#quarantined.delete(id)
    for (const job of this.jobs.values()) if (job.partition === partition) this.#discard(job, releaseTasks)
    this.#parts.observer.lost(partition)
  }

  #refused(job: LiveJob, error: unknown): void {
    this.#parts.log.error({ job_id: job.id, error }, "the database rejected the facts of this job")
    this.#discard(job)
  }

  /**
   * A bug that makes one job's work throw stops that job, never the partition. The job's row stores the error. The job
   * continues from its journal when its partition gets another owner, or when a command for it arrives.
   */
  quarantine(job: LiveJob, error: unknown): void {
    if (job.evicted) return
    this.#parts.log.error({ job_id: job.id, error }, "job quarantined: it cannot continue in this process")
    if (job.projected === null) this.committer.lane(job.partition).withdraw(job, error)
    else {
      const message = `Internal error: ${cut(String(error).replaceAll("\0", ""), 500)}. The job stopped here; it continues when its engine is restarted, or with the next command for it.`
      this.committer.lane(job.partition).writeRow(job, JSON.stringify({ code: "E639", message }))
      this.#quarantined.add(job.id)
    }
    this.#discard(job)
  }

  /** Resumes a job that was quarantined here or by an earlier owner: its row is written again. */
  releaseFromQuarantine(job: LiveJob): void {
    this.#quarantined.delete(job.id)
    if (job.projected !== null) job.projected = { ...job.projected, wakeAt: undefined }
    this.committer.lane(job.partition).writeRow(job, null)
  }

  #discard(job: LiveJob, endTasks = cancelTasks): void {
    job.evicted = true
    endTasks(job, this.broker)
    this.taskEnded()
    this.external.polls.drop(job)
    this.#memory.remove(job)
    this.#parts.observer.changed(job)
  }

  /** Called whenever a job may have become idle. */
  parkIfIdle(job: LiveJob): void {
    this.#memory.parkIfIdle(job)
  }
}
