import { randomUUID } from "node:crypto"
import type { Command, Submit } from "../core/commands.ts"
import type { Plan } from "../definition/plan.ts"
import { UmbraError } from "../errors.ts"
import type { Pulse } from "../journal/port.ts"
import { Elsewhere, type Hurry } from "./elsewhere.ts"
import type { EngineParts } from "./engine-parts.ts"
import { anyExecution } from "./execution-places.ts"
import { Family } from "./family.ts"
import { Fleet } from "./fleet.ts"
import { newJobId, partitionOf } from "./ids.ts"
import { type Answer, Inbox } from "./inbox.ts"
import { Stored } from "./job-snapshot.ts"
import { Lease } from "./lease.ts"
import { type LiveJob, taskKey } from "./live-job.ts"
import { foldJob, type LoadParts, readJobs } from "./load.ts"
import { EngineMeasures } from "./measures.ts"
import type { OperationRows } from "./operation-rows.ts"
import { Owner } from "./owner.ts"
import type { OwnerObserver } from "./owner-observer.ts"
import { Ownership } from "./ownership.ts"
import { Plans } from "./plans.ts"
import { noProviders } from "./providers.ts"
import { type RunningPulse, startPulse } from "./pulse.ts"
import { Recovery } from "./recovery.ts"
import { refusalError } from "./refusals.ts"
import { failRefused } from "./refused-job.ts"
import { Retention } from "./retention.ts"
import { Upkeep } from "./upkeep.ts"
import { Wakeups } from "./wakeups.ts"

/** Commands that come from outside, as opposed to what workers and timers say. */
export type JobCommand = Extract<Command, { type: "cancel" | "retry" | "delete" | "signal" }>

/** One process's share of the work: owns partitions, recovers their jobs, and answers commands. */
export class Engine {
  readonly id: string
  readonly plans: Plans
  readonly owner: Owner
  readonly fleet: Fleet
  readonly measures = new EngineMeasures()
  readonly #parts: EngineParts
  readonly #recovery: Recovery
  readonly #wakeups: Wakeups
  readonly #family: Family
  readonly #inbox: Inbox
  readonly #elsewhere: Elsewhere
  readonly #ownership: Ownership
  readonly #retention: Retention
  readonly #upkeep: Upkeep
  #pulse: RunningPulse | null = null
  readonly #lease: Lease
  #unlisten: (() => Promise<void>) | null = null
  #isAvailable = true
  #isClosing = false

  constructor(parts: EngineParts) {
    const { journal, settings, clock, log } = parts
    this.#parts = parts
    this.id = `engine-${randomUUID().slice(0, 13)}`
    this.plans = new Plans(journal)
    this.#lease = new Lease(settings.leaseSeconds * 1000, journal.capabilities)
    this.owner = new Owner({
      id: this.id,
      journal,
      clock,
      settings,
      log,
      broker: parts.broker,
      isSure: () => this.#lease.isSure,
      observer: this.#observer(),
      measures: this.measures,
      providers: parts.providers ?? noProviders,
    })
    this.fleet = new Fleet({
      remote: () => this.owner.broker.remote,
      engine: this.id,
      worker: parts.worker,
      partitions: () => this.#ownership.count,
      takesPartitions: () => parts.takesPartitions && !this.#isClosing,
      deadMs: settings.workerDeadSeconds * 1000,
      beatMs: settings.beatSeconds * 1000,
      now: () => clock.now(),
    })
    const load = { journal, plans: this.plans, largeOutputBytes: settings.largeOutputBytes }
    this.#recovery = new Recovery({ ...load, owner: this.owner, clock, log })
    this.#family = new Family({
      journal,
      owner: this.owner,
      plans: this.plans,
      recovery: this.#recovery,
      clock,
      settings,
      log,
      claimExecution: parts.claimExecution ?? anyExecution,
      mustFit: parts.mustFit ?? (() => {}),
    })
    this.#wakeups = new Wakeups({
      clock,
      recovery: this.#recovery,
      partitions: () => this.#ownership.partitions(),
      log,
    })
    this.#inbox = new Inbox({
      journal,
      owner: this.owner,
      plans: this.plans,
      recovery: this.#recovery,
      log,
      hasRoom: () => this.owner.jobs.size < settings.maxLiveJobs,
      hideChildren: jobId => this.#family.hideChildren(jobId),
      freed: providers => this.#upkeep.freed(providers),
    })
    this.#elsewhere = new Elsewhere({ journal, clock, settings, takesPartitions: parts.takesPartitions })
    this.#retention = new Retention({
      journal,
      owner: this.owner,
      recovery: this.#recovery,
      partitions: () => this.#ownership.partitions(),
      clock,
      retentionSeconds: settings.retentionSeconds,
      lineageRetentionSeconds: settings.lineageRetentionSeconds,
      log,
    })
    this.#ownership = new Ownership({
      engine: this.id,
      journal,
      owner: this.owner,
      recovery: this.#recovery,
      wakeups: this.#wakeups,
      inbox: this.#inbox,
      retention: this.#retention,
      leaseMs: settings.leaseSeconds * 1000,
      beatMs: settings.beatSeconds * 1000,
      rebalanceMs: (settings.rebalanceSeconds ?? Number.POSITIVE_INFINITY) * 1000,
      drainMs: settings.drainSeconds * 1000,
      followed: isFollowed => parts.observer.followed(isFollowed),
      released: () => parts.observer.released(),
      log,
    })
    this.#upkeep = new Upkeep({
      ...{
        journal,
        clock,
        log,
        providers: parts.providers ?? noProviders,
        capacity: this.owner.external.capacity,
        slots: this.owner.external.slots,
      },
      partitions: () => this.#ownership.partitions(),
      told: partitions => this.tell(partitions),
      isUsed: slot => this.live(slot.jobId)?.running.has(taskKey(slot)) === true,
      nodeId: (jobId, node) => this.#nodeId(load, jobId, node),
      everyMs: settings.providerSweepSeconds * 1000,
      leaseMs: settings.slotLeaseSeconds * 1000,
      cancelTries: settings.cancelTries,
    })
  }

  /** S7: takes its partitions, recovers their jobs, then starts the loops. */
  async start(): Promise<void> {
    const { journal, location, settings, clock, log, takesPartitions } = this.#parts
    if (journal.capabilities.exclusive) await this.#ownership.takeAll()
    else {
      this.#pulse = startPulse({
        journal,
        location,
        engine: this.id,
        place: () => this.fleet.place(),
        beatMs: settings.beatSeconds * 1000,
        leaseMs: settings.leaseSeconds * 1000,
        clock,
        log,
        receive: (pulse, sentAt) => this.#receive(pulse, sentAt),
      })
      if (takesPartitions)
        this.#unlisten =
          (await journal.listen?.(
            partition => this.#ownership.owns(partition) && void this.#inbox.read(partition),
          )) ?? null
    }
    if (takesPartitions) this.#upkeep.start()
  }

  /** What a beat brought. */
  #receive(pulse: Pulse, sentAt: number): void {
    this.fleet.receive(pulse)
    this.#elsewhere.receive(pulse)
    if (!this.#parts.takesPartitions) return
    this.#ownership.receive(pulse)
    this.#lease.renew(sentAt)
    this.owner.broker.remote?.goOn()
  }

  /** There are messages in the inboxes of these partitions. */
  tell(partitions: readonly number[]): void {
    for (const partition of partitions) if (this.#ownership.owns(partition)) void this.#inbox.read(partition)
  }

  async #nodeId(load: LoadParts, jobId: string, node: number): Promise<string | null> {
    const rows = (await readJobs(load, [jobId])).get(jobId)
    return rows === undefined ? null : ((await foldJob(load, rows)).plan.nodes[node]?.id ?? null)
  }

  /** Resolves once there is a partition for new jobs: one of its own, or, where it can have none, if another's is known. */
  async whenReady(): Promise<void> {
    if (this.#parts.takesPartitions) await this.#ownership.whenReady()
    if (this.#ownership.count === 0) await this.#elsewhere.whenKnown()
  }

  get ownedPartitions(): number {
    return this.#ownership.count
  }

  /** Can it take work? The database answers, and there are partitions to put jobs in. */
  get isReady(): boolean {
    const isShort = this.#parts.takesPartitions && this.#ownership.isShort
    return this.#isAvailable && !this.#isClosing && !isShort
  }

  /** Is there a partition for new jobs, here or in another process? */
  get hasTaker(): boolean {
    return this.#ownership.count > 0 || this.#elsewhere.hasTaker
  }

  newJobId(): string {
    const { clock, settings } = this.#parts
    return newJobId(this.#ownership.pick() ?? this.#elsewhere.pick(), clock.now(), settings.cell)
  }

  /** Resolves when the job is durable. The id is a new one. */
  async submit(id: string, plan: Plan, command: Submit, hurry?: Hurry): Promise<Stored> {
    this.mustBeOpen()
    const partition = partitionOf(id)
    // It may have moved since the id was made.
    if (!this.#ownership.owns(partition)) {
      const createdAt = await this.#elsewhere.submit(id, command, hurry)
      return new Stored(id, command, createdAt ?? this.#parts.clock.now())
    }
    this.#mustHaveRoom()
    const job = this.owner.submit(id, partition, plan, command)
    await this.owner.committer.durable(job)
    return new Stored(id, command, job.state.createdAt, job)
  }

  /**
   * For an id that may have been submitted before: by another caller, or by a process that died. Then nothing changes,
   * and the answer is null. Its partition may have moved since the id was made; whoever owns it now does the work.
   */
  async submitOnce(id: string, plan: Plan, command: Submit): Promise<Stored | null> {
    this.mustBeOpen()
    if (!this.#ownership.owns(partitionOf(id))) {
      const createdAt = await this.#elsewhere.submit(id, command)
      return createdAt === null ? null : new Stored(id, command, createdAt)
    }
    const loaded = await this.#recovery.load(id)
    // Who waited for the same look, and went on first, has made it.
    const job = loaded ?? this.live(id)
    if (job === undefined) return this.submit(id, plan, command)
    await this.owner.committer.durable(job)
    this.owner.letGo(job)
    return null
  }

  /** Carries a command out where the job's partition is owned, and answers when it is durable. */
  async command(jobId: string, command: JobCommand): Promise<void> {
    this.mustBeOpen()
    const answer = this.#ownership.owns(partitionOf(jobId))
      ? await this.#here(jobId, command)
      : await this.#elsewhere.command(jobId, command)
    if ("refused" in answer) throw refusalError(answer.refused, jobId)
  }

  /** Tells the other engines, with the next beat, whether this one follows what they commit. */
  follow(isFollowing: boolean): void {
    this.#pulse?.follow(isFollowing)
  }

  /** Another engine has let go of something. */
  beatNow(): void {
    this.#pulse?.beatNow()
  }

  owns(jobId: string): boolean {
    return this.#ownership.owns(partitionOf(jobId))
  }

  live(jobId: string): LiveJob | undefined {
    return this.owner.jobs.get(jobId)
  }

  /** Stops taking work, lets running handlers end, and hands over. */
  async close(): Promise<void> {
    if (this.#isClosing) return
    this.#isClosing = true
    // It says that no more is taken here.
    this.#pulse?.beatNow()
    this.#elsewhere.stop()
    this.#retention.stop()
    this.#upkeep.stop()
    await this.#wakeups.stop()
    const leaving = this.#leave()
    await this.owner.broker.drain(this.#parts.settings.drainSeconds * 1000)
    await leaving
    this.owner.departures.handOverAll()
    await this.#settled()
    await this.#pulse?.stop()
    await this.#unlisten?.()
    this.owner.stop()
    if (this.#isAvailable) await this.#ownership.release().catch(error => this.#couldNotRelease(error))
  }

  /** What is at rest is with its next owner while running handlers still end. */
  async #leave(): Promise<void> {
    if (!this.#isAvailable || this.#parts.journal.capabilities.exclusive) return
    await this.#ownership.leave().catch(error => this.#couldNotRelease(error))
  }

  #couldNotRelease(error: unknown): void {
    this.#parts.log.warn({ error: String(error) }, "could not release partitions")
  }

  async #here(jobId: string, command: JobCommand): Promise<Answer> {
    if (command.type === "delete") await this.#family.hideChildren(jobId)
    const job = await this.#recovery.load(jobId)
    if (job === null) return { refused: "no_such_job" }
    const decided = await this.owner.act(job, command)
    await this.owner.committer.durable(job)
    this.owner.letGo(job)
    return "refused" in decided ? { refused: decided.refused } : { accepted: true }
  }

  /** Results that came in while draining become durable; unless the database is away. */
  async #settled(): Promise<void> {
    while (!this.owner.committer.isIdle && this.#isAvailable)
      await new Promise(resolve => setTimeout(resolve, 5))
  }

  mustBeOpen(): void {
    if (this.#isClosing) throw new UmbraError("E612", "This engine is closing and takes no more commands.")
  }

  #mustHaveRoom(): void {
    const { maxLiveJobs } = this.#parts.settings
    if (!this.#isAvailable)
      throw new UmbraError(
        "E611",
        "The database is away and the engine has paused; try again when it is back.",
      )
    if (this.owner.jobs.size >= maxLiveJobs)
      throw new UmbraError(
        "E611",
        `The engine has ${maxLiveJobs} jobs in progress and takes no more for now; try again shortly.`,
      )
  }

  #observer(): OwnerObserver {
    const { observer } = this.#parts
    return {
      changed: job => observer.changed(job),
      ended: job => observer.ended(job),
      progressed: (job, node) => observer.progressed(job, node),
      parked: wakeAt => this.#wakeups.parked(wakeAt),
      childWanted: (job, at, request) => this.#family.childWanted(job, at, request),
      unsettled: job => this.#family.settle(job),
      fenced: partition => this.#ownership.lost(partition),
      refused: (job, error) =>
        void failRefused(job, error, {
          owner: this.owner,
          recovery: this.#recovery,
          family: this.#family,
          log: this.#parts.log,
        }),
      available: isAvailable => {
        this.#isAvailable = isAvailable
      },
      told: partitions => this.tell(partitions),
      operations: rows => this.#operations(rows),
    }
  }

  #operations({ begun, left, freed }: OperationRows): void {
    for (const operation of begun) this.#upkeep.begun(operation)
    if (freed.size > 0) this.#upkeep.freed(freed)
    const isCancelled = left.some(({ operation }) => operation === "cancel")
    if (isCancelled || begun.some(({ cancelAt }) => cancelAt !== null)) this.#upkeep.abandoned()
  }
}
