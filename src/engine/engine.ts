import { randomUUID } from "node:crypto"
import { setTimeout as delay } from "node:timers/promises"
import type { Broker, BrokerHost, ChildRequest, PipelineNeeds } from "../broker/port.ts"
import type { Reported } from "../core/commands.ts"
import { UmbraError } from "../errors.ts"
import type { Heartbeat, Journal } from "../journal/port/journal.ts"
import type { Log } from "../log.ts"
import { Family } from "./children/family.ts"
import type { Clock } from "./clock.ts"
import type { AppendLane } from "./commit/committer.ts"
import type { OperationRows } from "./commit/operation-rows.ts"
import type { MustFit } from "./dispatch/pipeline-needs.ts"
import { ForkPreparation } from "./forks/forks.ts"
import { jobPartition, newJobId } from "./ids.ts"
import { EngineMetrics } from "./metrics.ts"
import type { Queue } from "./owner/job-queue.ts"
import type { LiveJob } from "./owner/live-job.ts"
import { PartitionOwner } from "./owner/owner.ts"
import type { JobObserver, OwnerEngine } from "./owner/owner-parts.ts"
import { QueuedFacts } from "./owner/queued-facts.ts"
import { Lease, type RunningHeartbeat, startHeartbeat } from "./partitions/heartbeat.ts"
import { Ownership } from "./partitions/ownership.ts"
import { ReadyPartitions } from "./partitions/ready-partitions.ts"
import { anyExecution, type ClaimExecution, ExecutionQueue } from "./pipeline-places.ts"
import { Plans } from "./plans.ts"
import { noProviders, type Providers } from "./providers/providers.ts"
import { ProviderSweep } from "./providers/sweep.ts"
import { ReasonCheck } from "./reason-check.ts"
import { Recovery } from "./recovery/recovery.ts"
import { type ArtifactSweeps, Retention } from "./recovery/retention.ts"
import { Wakeups } from "./recovery/wakeups.ts"
import { Commands, type JobCommand } from "./remote/commands.ts"
import { Inbox } from "./remote/inbox.ts"
import type { AwayOwner } from "./remote/known-engines.ts"
import { lostTasks } from "./remote/live-overlay.ts"
import { RemoteEngines } from "./remote/remote-engines.ts"
import { type FiredTick, FiringSchedules } from "./schedules/schedules.ts"
import type { EngineSettings } from "./settings.ts"
import { SingleFlight } from "./single-flight.ts"
import { RollUps } from "./statistics/roll-ups.ts"
import { type WorkerFacts, Workers } from "./workers.ts"
import { WorkflowPauses } from "./workflow-pauses.ts"

const REFRESH_MS = 1000

/** The engine of one process: owns partitions, recovers their jobs, and executes commands for them. */
export class Engine<B extends Broker = Broker> implements OwnerEngine {
  readonly id: string
  readonly plans: Plans
  readonly partitionOwner: PartitionOwner<B>
  readonly workers: Workers
  readonly commands: Commands
  /** Checks that no task is lost. */
  readonly reasons: ReasonCheck
  /** Workflows whose new jobs do not begin. */
  readonly pauses: WorkflowPauses
  readonly schedules: FiringSchedules
  readonly metrics = new EngineMetrics()
  readonly #refreshes = new SingleFlight<void>()
  readonly #parts: EngineParts<B>
  readonly #recovery: Recovery
  readonly #wakeups: Wakeups
  readonly #family: Family
  readonly #executions: ExecutionQueue
  readonly #inbox: Inbox
  readonly #remoteEngines: RemoteEngines
  readonly #partitions: ReadyPartitions
  readonly #ownership: Ownership
  readonly #retention: Retention
  readonly #rollUps: RollUps
  readonly #sweep: ProviderSweep
  #heartbeat: RunningHeartbeat | null = null
  readonly #lease: Lease
  #unlisten: (() => Promise<void>) | null = null
  #isClosing = false

  constructor(parts: EngineParts<B>) {
    const { journal, settings, clock, log } = parts
    this.#parts = parts
    this.id = `engine-${randomUUID().slice(0, 13)}`
    this.plans = new Plans(journal)
    const { largeOutputBytes } = settings
    const load = { journal, plans: this.plans, largeOutputBytes, queuedFacts: new QueuedFacts() }
    this.#lease = new Lease(settings.leaseSeconds * 1000, journal.capabilities)
    const maxOutputBytes = parts.maxOutputBytes ?? Number.POSITIVE_INFINITY
    const providers = parts.providers ?? noProviders
    const { startsJobs = true } = parts
    const partitions = new ReadyPartitions(journal.capabilities.appendLanes)
    this.#partitions = partitions
    this.partitionOwner = new PartitionOwner({
      ...{ id: this.id, load, clock, settings, log, lease: this.#lease, metrics: this.metrics },
      ...{
        broker: parts.broker,
        observer: parts.observer,
        engine: this,
        providers,
        maxOutputBytes,
        partitions,
        startsJobs,
      },
    })
    const { partitionOwner, plans } = this
    this.workers = new Workers({
      ...{ partitionOwner, engine: this.id, worker: parts.worker },
      takesPartitions: () => parts.takesPartitions && !this.#isClosing,
      deadMs: settings.workerDeadSeconds * 1000,
      beatMs: settings.beatSeconds * 1000,
      now: () => clock.now(),
    })
    this.#recovery = new Recovery({ ...load, partitionOwner, clock, log, startsJobs })
    const claimExecution = parts.claimExecution ?? anyExecution
    const forks = new ForkPreparation({ partitionOwner, load, clock, maxOutputBytes })
    this.#executions = new ExecutionQueue({ partitionOwner, clock, log, claim: claimExecution })
    this.#family = new Family({
      ...{ journal, partitionOwner, plans, clock, settings, log, maxOutputBytes, claimExecution, forks },
      executions: this.#executions,
      mustFit: parts.mustFit ?? (() => {}),
      paused: (owner, name) => this.pauses.fields(owner, name),
    })
    this.#inbox = new Inbox({
      ...{
        journal,
        partitionOwner,
        plans,
        log,
        claimExecution,
        family: this.#family,
        forks,
        now: () => clock.now(),
      },
    })
    this.#remoteEngines = new RemoteEngines({
      ...{ journal, clock, settings },
      takesPartitions: parts.takesPartitions,
    })
    this.commands = new Commands({
      ...{
        partitionOwner,
        partitions,
        remoteEngines: this.#remoteEngines,
        family: this.#family,
        forks,
        clock,
      },
      claimExecution,
      mustBeOpen: () => this.mustBeOpen(),
    })
    const { commands } = this
    const command = (jobId: string, given: JobCommand) => commands.command(jobId, given)
    this.pauses = new WorkflowPauses({
      ...{ journal, clock, log, owns: partition => partitions.owns(partition) },
      command,
    })
    const { pauses } = this
    this.schedules = new FiringSchedules({
      ...{ journal, partitionOwner, partitions, plans, clock, settings, log, claimExecution, startsJobs },
      mustFit: parts.mustFit ?? (() => {}),
      paused: (owner, name) => pauses.fields(owner, name),
      command,
      wakeAt: at => this.#wakeups.fireAt(at),
      ...{ metrics: this.metrics, fired: fire => parts.observer.fired(fire) },
    })
    const { schedules } = this
    this.#wakeups = new Wakeups({ clock, recovery: this.#recovery, partitions, schedules, log })
    this.reasons = new ReasonCheck({
      ...{ clock, log, metrics: this.metrics, jobs: partitionOwner.jobs },
      lost: job => {
        const { taskLocations, broker } = partitionOwner
        const lacks = parts.lacks ?? (needs => needs)
        const lost = lostTasks(job, { owner: taskLocations, broker, lacks, now: () => clock.now() })
        return lost.map(({ id }) => id)
      },
    })
    this.#retention = new Retention({
      ...{ journal, partitionOwner, partitions, clock, log, artifacts: parts.artifacts ?? null },
      retentionSeconds: settings.retentionSeconds,
      lineageRetentionSeconds: settings.lineageRetentionSeconds,
      retentionSweepSeconds: settings.retentionSweepSeconds,
      statisticsRetentionDays: settings.statisticsRetentionDays,
    })
    this.#rollUps = new RollUps({
      load,
      partitionOwner,
      clock,
      log,
      retentionSeconds: settings.retentionSeconds,
    })
    this.#sweep = new ProviderSweep({
      ...{ journal, clock, log, partitions, partitionOwner, engine: this },
      everyMs: settings.providerSweepSeconds * 1000,
      leaseMs: settings.slotLeaseSeconds * 1000,
      cancelTries: settings.cancelTries,
    })
    this.#ownership = new Ownership({
      ...{
        engine: this.id,
        journal,
        partitionOwner,
        partitions,
        recovery: this.#recovery,
        wakeups: this.#wakeups,
      },
      ...{ inbox: this.#inbox, retention: this.#retention, sweep: this.#sweep, reasons: this.reasons, log },
      rollUps: this.#rollUps,
      leaseMs: settings.leaseSeconds * 1000,
      beatMs: settings.beatSeconds * 1000,
      rebalanceMs: (settings.rebalanceSeconds ?? Number.POSITIVE_INFINITY) * 1000,
      drainMs: settings.drainSeconds * 1000,
      observer: parts.observer,
    })
    for (const lane of this.partitionOwner.committer.lanes) void this.#performAll(lane)
  }

  /** S7: takes its partitions, recovers their jobs, then starts the loops. */
  async start(): Promise<void> {
    const { journal, location, settings, clock, log, takesPartitions } = this.#parts
    if (journal.capabilities.exclusive) await this.#ownership.takeAll()
    else {
      this.#heartbeat = startHeartbeat({
        journal,
        location,
        engine: this.id,
        place: () => this.workers.place(),
        beatMs: settings.beatSeconds * 1000,
        leaseMs: settings.leaseSeconds * 1000,
        clock,
        log,
        receive: (heartbeat, sentAt) => this.#receive(heartbeat, sentAt),
      })
      if (takesPartitions)
        this.#unlisten =
          (await journal.listen?.(
            partition => this.#partitions.owns(partition) && void this.#inbox.read(partition),
          )) ?? null
    }
    if (takesPartitions) this.#sweep.start()
    if (takesPartitions) this.reasons.start()
    await this.pauses.start()
    if (takesPartitions) await this.schedules.start()
  }

  /** Handles the rows of a heartbeat. */
  #receive(heartbeat: Heartbeat, sentAt: number): void {
    // After a long outage the next try may be 30 s away.
    if (!this.partitionOwner.store.isAvailable) this.partitionOwner.committer.retryNow()
    this.workers.receive(heartbeat)
    this.#remoteEngines.known.receive(heartbeat)
    if (!this.#parts.takesPartitions) return
    this.#ownership.receive(heartbeat)
    this.#lease.renew(sentAt)
    this.schedules.next(heartbeat.nextFireAt ?? null)
    this.partitionOwner.broker.remote?.resume()
    this.partitionOwner.queue.wake()
  }

  inboxChanged(partitions: readonly number[]): void {
    for (const partition of partitions) if (this.#partitions.owns(partition)) void this.#inbox.read(partition)
  }

  capacity(): number {
    let places = this.#parts.worker().concurrency
    for (const { concurrency } of this.partitionOwner.broker.remote?.live ?? []) places += concurrency
    return places
  }

  begin(ids: readonly string[], queue: Queue): Promise<readonly string[]> {
    return this.#recovery.begin(ids, queue)
  }

  parked(partition: number, wakeAt: number | null): void {
    this.#wakeups.parked(partition, wakeAt)
  }

  childRequested(job: LiveJob, at: Reported, request: ChildRequest): Promise<void> {
    return this.#family.childRequested(job, at, request)
  }

  unsettled(job: LiveJob): void {
    this.#family.settle(job)
  }

  submissionSettled(provider: string, isToCancel: boolean): void {
    if (isToCancel) this.#sweep.abandoned()
    else this.#sweep.freed([provider])
  }

  /** It owns a partition that is ready: new jobs need not wait for one. */
  get takesJobs(): boolean {
    return this.#ownership.isReady
  }

  /** Resolves once there is a partition for new jobs: one of its own, or, where it can have none, a known one of another engine. */
  async whenReady(): Promise<void> {
    if (this.#parts.takesPartitions) await this.#ownership.whenReady()
    if (this.#ownership.count === 0) await this.#remoteEngines.whenKnown()
  }

  /** Resolves once the live workers are known, of engines and of other processes, or after `patienceMs`. */
  async whenWorkersKnown(patienceMs: number): Promise<void> {
    const engines =
      this.#heartbeat === null ? undefined : this.#remoteEngines.known.whenFirstHeartbeat(patienceMs)
    await Promise.all([engines, this.partitionOwner.broker.remote?.whenKnown(patienceMs)])
  }

  /** Reads the live workers again. Gives up after a second: the store or Redis may be unavailable. */
  refreshWorkers(): Promise<void> {
    return this.#refreshes.run("workers", async () => {
      const engines =
        this.#heartbeat === null ? undefined : this.#remoteEngines.known.whenNextHeartbeat(REFRESH_MS)
      this.beatNow()
      const workers = this.partitionOwner.broker.remote?.refresh()
      await Promise.race([Promise.all([engines, workers]), delay(REFRESH_MS, undefined, { ref: false })])
    })
  }

  /** The number of jobs in memory. */
  get liveJobs(): number {
    return this.partitionOwner.jobs.size
  }

  get ownedPartitions(): number {
    return this.#ownership.count
  }

  /** Can it take work? The database answers, and there are partitions for new jobs. */
  get isReady(): boolean {
    const isShort = this.#parts.takesPartitions && this.#ownership.isShort
    return this.partitionOwner.store.isAvailable && !this.#isClosing && !isShort
  }

  /** Is there a partition for new jobs, here or in another process? */
  get hasTaker(): boolean {
    return this.#ownership.count > 0 || this.#remoteEngines.known.hasTaker
  }

  /** Was there one since this process started? An engine takes its own. */
  get hadTaker(): boolean {
    return this.#parts.takesPartitions || this.#remoteEngines.known.hadTaker
  }

  /** The last owner of a job that no live engine owns; null: one does, or this process is about to take the job over. */
  awayOwner(jobId: string): AwayOwner | null {
    return this.#parts.takesPartitions ? null : this.#remoteEngines.known.awayOwner(jobPartition(jobId))
  }

  /** The partitions of live engines in other processes. */
  remotePartitions(): ReadonlySet<number> {
    const { livePartitions } = this.#remoteEngines.known
    return new Set([...livePartitions].filter(partition => !this.#partitions.owns(partition)))
  }

  newJobId(): string {
    return this.newJobIdIn(this.#partitions.pick() ?? this.#remoteEngines.pick())
  }

  newJobIdIn(partition: number): string {
    const { clock, settings } = this.#parts
    return newJobId(partition, clock.now(), settings.cell)
  }

  /** Announces with the next heartbeat whether this engine follows the commits of the others. */
  follow(isFollowing: boolean): void {
    this.#heartbeat?.follow(isFollowing)
  }

  /** Another engine has released partitions. */
  beatNow(): void {
    this.#heartbeat?.beatNow()
  }

  owns(jobId: string): boolean {
    return this.#partitions.owns(jobPartition(jobId))
  }

  /** It owns the job's partition, and is still loading its jobs. */
  isStarting(jobId: string): boolean {
    return this.partitionOwner.owned.has(jobPartition(jobId)) && !this.owns(jobId)
  }

  live(jobId: string): LiveJob | undefined {
    return this.partitionOwner.jobs.get(jobId)
  }

  /** Stops taking work, waits for running handlers, and hands over. */
  async close(): Promise<void> {
    if (this.#isClosing) return
    this.#isClosing = true
    this.partitionOwner.taskLocations.stopping()
    // This heartbeat announces that this engine takes no more partitions.
    this.#heartbeat?.beatNow()
    this.#remoteEngines.known.stop()
    this.#retention.stop()
    this.reasons.stop()
    await this.pauses.stop()
    await this.schedules.stop()
    await this.#sweep.stop()
    this.#executions.stop()
    await this.partitionOwner.queue.stop()
    await this.#wakeups.stop()
    if (this.partitionOwner.store.isAvailable) await this.#rollUps.flush()
    const leaving = this.#handOverIdle()
    await this.partitionOwner.broker.drain(this.#parts.settings.drainSeconds * 1000)
    await leaving
    this.partitionOwner.handover.handOverAll()
    // Reports of aborted runs, which may have to load their job.
    const { store, pendingDecisions } = this.partitionOwner
    await Promise.race([pendingDecisions.whenAllDecided(), store.whenUnavailable()])
    // Results that arrive while draining become durable, unless the database is unavailable.
    await Promise.race([
      this.partitionOwner.committer.whenIdle(),
      this.partitionOwner.store.whenUnavailable(),
    ])
    await this.#rollUps.close(this.partitionOwner.store.isAvailable)
    await this.#heartbeat?.stop()
    await this.#unlisten?.()
    this.partitionOwner.stop()
    if (this.partitionOwner.store.isAvailable)
      await this.#ownership.release().catch(error => this.#logReleaseError(error))
  }

  /** Hands idle partitions to their next owner while running handlers still end. */
  async #handOverIdle(): Promise<void> {
    if (!this.partitionOwner.store.isAvailable || this.#parts.journal.capabilities.exclusive) return
    await this.#ownership.leave().catch(error => this.#logReleaseError(error))
  }

  #logReleaseError(error: unknown): void {
    this.#parts.log.warn({ error: String(error) }, "could not release partitions")
  }

  mustBeOpen(): void {
    if (this.#isClosing) throw new UmbraError("E612", "This engine is closing and accepts no more commands.")
  }

  /** Performs what follows from the batches of this lane, each as soon as it is durable. */
  async #performAll(lane: AppendLane): Promise<void> {
    for (let next = await lane.next(); next !== null; next = await lane.next()) {
      this.partitionOwner.perform(lane, next)
      this.#rollUps.add(next)
      const { batch, fenced, refused } = next
      for (const partition of fenced) this.#partitions.remove(partition)
      for (const { job, error } of refused) void this.#family.failRefused(job, error)
      if (batch.operations !== null) this.#operations(batch.operations)
      if (this.schedules.hasAwaited)
        for (const { id, state } of batch.jobs) if (state.finishedAt !== null) this.schedules.jobEnded(id)
      for (const { plan, state } of batch.jobs)
        if (plan.pipeline !== null && state.finishedAt !== null) this.#executions.freed()
    }
  }

  #operations({ begun, left, freed }: OperationRows): void {
    for (const operation of begun)
      if (operation.unseen === undefined) this.#sweep.begun(operation)
      else this.partitionOwner.external.leftSubmissions.recorded(operation)
    if (freed.size > 0) this.#sweep.freed(freed)
    const isCancelled = left.some(({ operation }) => operation === "cancel")
    if (isCancelled || begun.some(({ cancelAt }) => cancelAt !== null)) this.#sweep.abandoned()
  }
}

/** The dependencies of an engine. */
export interface EngineParts<B extends Broker = Broker> {
  readonly journal: Journal
  /** Where the heartbeat thread can open the journal again; null: heartbeats are sent from this thread. */
  readonly location: string | null
  readonly settings: EngineSettings
  readonly clock: Clock
  readonly log: Log
  readonly broker: (host: BrokerHost) => B
  readonly observer: EngineObserver
  /** The description of this process's worker that other processes see. */
  readonly worker: () => WorkerFacts
  readonly providers?: Providers
  /** Limit of a child job's output, as of a handler's; absent: no limit. */
  readonly maxOutputBytes?: number
  readonly claimExecution?: ClaimExecution
  readonly mustFit?: MustFit
  /** Which of a pipeline's needs this process does not have. */
  readonly lacks?: (needs: PipelineNeeds) => PipelineNeeds
  /** false: it never owns a partition, and sends jobs and commands to the engines that do. */
  readonly takesPartitions: boolean
  /** false: delayed jobs and ticks of schedules wait for another engine. */
  readonly startsJobs?: boolean | undefined
  /** null or absent: this process has no content of artifacts to sweep. */
  readonly artifacts?: ArtifactSweeps | null | undefined
}

/** The events that concern jobs and their observers; all others are internal to the engine. */
export interface EngineObserver extends JobObserver {
  /** Reports whether another live engine follows the commits of this one. */
  followed(isFollowed: boolean): void
  /** The outcome of a tick is durable. */
  fired(fire: FiredTick): void
  /** Partitions were released: others need not wait for their next heartbeat to take them. */
  released(): void
}
