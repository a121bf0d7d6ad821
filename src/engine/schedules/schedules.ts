import type { Submit } from "../../core/commands.ts"
import { checkSubmission } from "../../definition/index.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { NewFire, ScheduleChange, ScheduleRow } from "../../journal/port/schedules.ts"
import type { Log } from "../../log.ts"
import { parseSchedule, renderInput, type ScheduleDocument, scheduleRules } from "../../schedule/document.ts"
import { type Decision, decideTicks } from "../../schedule/policy.ts"
import type { Clock } from "../clock.ts"
import { isDataError } from "../commit/sender.ts"
import type { MustFit } from "../dispatch/pipeline-needs.ts"
import { scheduledJobId } from "../ids.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import type { ReadyPartitions } from "../partitions/ready-partitions.ts"
import type { ClaimExecution } from "../pipeline-places.ts"
import type { Plans } from "../plans.ts"
import type { JobCommand } from "../remote/commands.ts"
import { type EngineSettings, recordedRetryPolicy } from "../settings.ts"
import { Versions } from "../versions.ts"
import { TickLimits } from "./tick-limits.ts"

/** Schedules that are decided at once. */
const PAGE = 500
const RETRY_MS = 1000
const MAX_REASON = 500
/** Above every job id. */
const LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
/** Sent to all engines when a schedule was stored, with its partition. */
const CHANGED = "schedule:"

/** Notifies the engine that owns the partition of a schedule that was stored. */
export function announceSchedule({ feed }: Pick<Journal, "feed">, partition: number): void {
  feed.notify(`${CHANGED}${partition}`)
}

export interface SchedulesParts {
  readonly journal: Journal
  readonly owner: PartitionOwner
  readonly partitions: Pick<ReadyPartitions, "all" | "owns">
  readonly plans: Plans
  readonly clock: Clock
  readonly settings: EngineSettings
  readonly log: Log
  readonly mustFit: MustFit
  readonly claimExecution: ClaimExecution
  /** Set in the submission of a job whose workflow is paused. */
  paused(owner: string, name: string): Pick<Submit, "paused">
  command(jobId: string, command: JobCommand): Promise<void>
  /** `alarm` is to be called then. */
  wakeAt(at: number): void
}

/**
 * Fires the schedules of the owned partitions.
 *
 * 1. A tick is one append behind the partition's epoch: the job, whose id follows from schedule and tick, the outcome, and
 *    `last_tick`. So a tick has one job, whichever engine dies when.
 * 2. One loop reads rows and decides about all of them before it reads again: it never decides about a row that its own
 *    decision has changed. Rows that were read under another epoch are not used.
 * 3. Users change rows in the store at any time. A decision does not overwrite the next time of a later revision.
 */
export class Schedules {
  readonly #parts: SchedulesParts
  readonly #versions: Versions
  /** When the next tick fires, as far as this engine knows. */
  #nextAt = 0
  /** Jobs that queued ticks wait for. */
  readonly #awaited = new Set<string>()
  readonly limits = new TickLimits()
  #queuedToRead = false
  #running: Promise<void> | null = null
  #again = false
  #isStopped = false
  #unlisten: (() => Promise<void>) | null = null

  constructor(parts: SchedulesParts) {
    this.#parts = parts
    this.#versions = new Versions(parts.journal, () => parts.clock.random())
  }

  async start(): Promise<void> {
    const { feed, capabilities } = this.#parts.journal
    if (capabilities.exclusive) return
    const heard = (text: string) => {
      if (text.startsWith(CHANGED) && this.#parts.partitions.owns(Number(text.slice(CHANGED.length))))
        this.#wake()
    }
    this.#unlisten = (await feed.listen?.(heard)) ?? null
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#unlisten?.()
    if (this.#running !== null) await Promise.race([this.#running, this.#parts.owner.store.whenUnavailable()])
  }

  /** A schedule of this partition was stored by this process. A notification that is lost is repeated by the heartbeat. */
  changed(partition: number): void {
    if (this.#parts.partitions.owns(partition)) this.#wake()
    else announceSchedule(this.#parts.journal, partition)
  }

  /** The engine has taken partitions. */
  partitionsAdded(): void {
    this.limits.clear()
    this.#queuedToRead = true
    this.#wake()
  }

  /** The heartbeat reports when the next tick fires. */
  next(at: number | null): void {
    if (at === null || at >= this.#nextAt) return
    this.#nextAt = at
    this.alarm()
  }

  /** Called by the alarm of the engine. Costs nothing if no tick is due. */
  alarm(): void {
    const { clock, wakeAt } = this.#parts
    if (this.#nextAt <= clock.now()) this.#wake()
    else if (this.#nextAt !== Number.POSITIVE_INFINITY) wakeAt(this.#nextAt)
  }

  get hasAwaited(): boolean {
    return this.#awaited.size > 0
  }

  /** The end of the job is durable. */
  jobEnded(jobId: string): void {
    if (!this.#awaited.delete(jobId)) return
    this.#queuedToRead = true
    this.#wake()
  }

  #wake(): void {
    if (this.#isStopped) return
    this.#again = true
    this.#running ??= this.#decideAll().finally(() => {
      this.#running = null
      if (this.#again) this.#wake()
    })
  }

  async #decideAll(): Promise<void> {
    const { clock, log } = this.#parts
    try {
      while (this.#again && !this.#isStopped) {
        this.#again = false
        await this.#decidePage()
      }
    } catch (error) {
      if (this.#isStopped) return
      log.warn({ error: String(error) }, "could not decide about schedules; retrying")
      this.#again = false
      this.#queuedToRead = true
      this.#nextAt = clock.now() + RETRY_MS
      this.#parts.wakeAt(this.#nextAt)
    }
  }

  async #decidePage(): Promise<void> {
    const { journal, partitions, owner, clock } = this.#parts
    const owned = partitions.all()
    const epochs = new Map(owned.map(partition => [partition, owner.owned.get(partition)?.epoch]))
    const readQueued = this.#queuedToRead
    this.#queuedToRead = false
    const queued = readQueued ? await journal.schedules.queued(owned) : []
    const { schedules, nextAt } = await journal.schedules.due({
      partitions: owned,
      at: clock.now(),
      limit: PAGE,
    })
    const rows = new Map([...queued, ...schedules].map(row => [row.id, row]))
    const running = await this.#runningJobs([...rows.values()])
    const decisions = [...rows.values()].map(row =>
      this.#decide(row, {
        epoch: epochs.get(row.partition),
        isRunning: row.lastJob !== null && running.has(row.lastJob),
      }),
    )
    const failed = (await Promise.allSettled(decisions)).find(({ status }) => status === "rejected")
    if (failed?.status === "rejected") throw failed.reason
    // There may be more, and a decision about very many ticks is made in parts.
    if (schedules.length > 0 || (nextAt !== null && nextAt <= clock.now())) this.#again = true
    this.#nextAt = nextAt ?? Number.POSITIVE_INFINITY
    if (nextAt !== null && !this.#again) this.#parts.wakeAt(nextAt)
  }

  /** Which of the latest jobs have not ended. */
  async #runningJobs(rows: readonly Pick<ScheduleRow, "owner" | "lastJob">[]): Promise<ReadonlySet<string>> {
    const { journal, owner } = this.#parts
    const running = new Set<string>()
    const stored = new Map<string, string[]>()
    for (const { owner: tenant, lastJob } of rows) {
      if (lastJob === null) continue
      const live = owner.jobs.get(lastJob)
      if (live === undefined) stored.set(tenant, [...(stored.get(tenant) ?? []), lastJob])
      else if (live.state.finishedAt === null) running.add(lastJob)
    }
    for (const [tenant, known] of stored)
      for (const id of await journal.unfinishedJobs({ owner: tenant, known, after: LAST_ID, limit: 1 }))
        running.add(id)
    return running
  }

  async #decide(
    row: ScheduleRow,
    { epoch, isRunning }: { readonly epoch: number | undefined; readonly isRunning: boolean },
  ): Promise<void> {
    const { owner, clock, log } = this.#parts
    const now = clock.now()
    const { document, decision } = this.#decision(row, { now, isRunning })
    if (document === null)
      log.error({ schedule: row.name, owner: row.owner }, "a stored schedule is invalid and was stopped")
    if (decision.cancelsRunning) await this.#cancel(row.lastJob!, row.name)
    const ticks: PreparedTick[] = []
    for (const decided of decision.outcomes) {
      const { tick, count } = decided
      const { outcome, reason } = this.limits.outcome(row.id, decided)
      const base = {
        scheduleId: row.id,
        partition: row.partition,
        tick,
        kind: "tick" as const,
        at: now,
        reason,
        count,
      }
      if (outcome === "started") ticks.push(await this.#prepare(row, document!, base))
      else ticks.push({ fire: { ...base, outcome, jobId: null }, job: null })
    }
    const { partition } = row
    await this.limits.admitted(row.owner, ticks, async count => {
      const isOwned = epoch !== undefined && owner.owned.get(partition)?.epoch === epoch
      for (const { job } of ticks.slice(isOwned ? count : 0)) await job?.releasePlace?.()
      if (isOwned)
        await this.#storeAll(row, this.limits.cut(row, decision, ticks, count, now), ticks.slice(0, count))
    })
  }

  async #storeAll(row: ScheduleRow, decision: Decision, ticks: readonly PreparedTick[]): Promise<void> {
    const { owned } = this.#parts.owner
    const epoch = owned.get(row.partition)?.epoch
    if (!(await this.#store(row, decision, ticks))) {
      if (owned.get(row.partition)?.epoch === epoch) await this.#storeRefused(row, decision, ticks)
      return
    }
    const latest = ticks.findLast(({ job }) => job !== null)?.fire.jobId ?? row.lastJob
    if (decision.queuedTick !== null && latest !== null) await this.#awaitEnd(row.owner, latest)
  }

  /** Everything of the decision is one append. False: the database rejects it, and nothing of it was stored. */
  async #store(row: ScheduleRow, decision: Decision, ticks: readonly PreparedTick[]): Promise<boolean> {
    const { owner, journal } = this.#parts
    this.#record(row, decision, ticks)
    const [stored, ...started] = await Promise.allSettled([
      owner.durable(row),
      ...ticks.map(({ fire, job }) => (job === null ? null : this.#whenStarted(fire, job))),
    ])
    if (stored.status === "rejected" && isDataError(stored.reason)) return false
    for (const result of [stored, ...started]) if (result.status === "rejected") throw result.reason
    for (const result of started)
      if (result.status === "fulfilled" && result.value !== null)
        await journal.schedules.addFire(result.value)
    return true
  }

  /** Ticks whose outcome the database rejects start nothing, and are not decided again. */
  async #storeRefused(row: ScheduleRow, decision: Decision, ticks: readonly PreparedTick[]): Promise<void> {
    const { log } = this.#parts
    log.error({ schedule: row.name, owner: row.owner }, "the database rejected the ticks of a schedule")
    const reason = "the database rejected what the tick was to store"
    const refused = ticks.map(({ fire }) => ({
      job: null,
      fire:
        fire.outcome === "skipped" || fire.outcome === "missed"
          ? fire
          : { ...fire, outcome: "refused" as const, jobId: null, reason },
    }))
    const isDecided = ticks.some(({ fire }) => fire.tick === row.queuedTick)
    const queuedTick = isDecided ? null : row.queuedTick
    if (!(await this.#store(row, { ...decision, queuedTick }, refused)))
      throw new Error(`the database rejects the schedule ${row.id}`)
  }

  /** A job that has ended before it was awaited is not reported. */
  async #awaitEnd(tenant: string, jobId: string): Promise<void> {
    this.#awaited.add(jobId)
    const running = await this.#runningJobs([{ owner: tenant, lastJob: jobId }])
    if (running.has(jobId) || !this.#awaited.delete(jobId)) return
    this.#queuedToRead = true
    this.#again = true
  }

  /** Of a document that this release does not accept: no tick any more. */
  #decision(
    row: ScheduleRow,
    given: { readonly now: number; readonly isRunning: boolean },
  ): { readonly document: ScheduleDocument | null; readonly decision: Decision } {
    try {
      const document = parseSchedule(JSON.parse(row.document))
      return { document, decision: decideTicks(scheduleRules(row.id, document), row, given) }
    } catch (error) {
      if (!(error instanceof UmbraError)) throw error
      const { lastTick } = row
      return {
        document: null,
        decision: { outcomes: [], lastTick, queuedTick: null, cancelsRunning: false, nextAt: null },
      }
    }
  }

  #record(row: ScheduleRow, decision: Decision, ticks: readonly PreparedTick[]): void {
    const { owner } = this.#parts
    const { id, partition, revision } = row
    const { lastTick, nextAt, queuedTick } = decision
    const isStarted = ticks.some(({ fire }) => fire.tick === row.queuedTick && fire.outcome !== "queued")
    const change: ScheduleChange = {
      ...{ id, partition, revision, lastTick, nextAt, queuedTick },
      lastJob: ticks.findLast(({ job }) => job !== null)?.fire.jobId ?? null,
      startedTick: isStarted ? row.queuedTick : null,
    }
    owner.inOneCommit(partition, () => {
      for (const { fire, job } of ticks)
        if (job !== null) owner.submit(fire.jobId!, partition, job.plan, job.command)
      owner.committer.lane(partition).recordTicks(
        change,
        ticks.map(({ fire }) => fire),
      )
    })
  }

  async #prepare(
    row: ScheduleRow,
    document: ScheduleDocument,
    base: Omit<NewFire, "outcome" | "jobId">,
  ): Promise<PreparedTick> {
    const { settings, claimExecution } = this.#parts
    const jobId = scheduledJobId({
      scheduleId: row.id,
      partition: row.partition,
      tick: base.tick,
      cell: settings.cell,
    })
    try {
      const { plan, command } = await this.#submission(row, document, base.tick)
      const releasePlace = plan.pipeline === null ? null : await claimExecution(jobId)
      const fire = { ...base, outcome: "started", jobId } as const
      return { fire, job: { plan, command, releasePlace } }
    } catch (error) {
      if (!(error instanceof UmbraError)) throw error
      return { fire: { ...base, outcome: "refused", reason: reasonText(error), jobId: null }, job: null }
    }
  }

  async #submission(
    row: ScheduleRow,
    document: ScheduleDocument,
    tick: number,
  ): Promise<{ readonly plan: Plan; readonly command: Submit }> {
    const { plans, settings, mustFit, paused } = this.#parts
    const { owner } = row
    const { name, version } = await this.#versions.resolve(owner, document.workflow)
    const plan = await plans.get(owner, name, version)
    mustFit(plan, owner)
    const input = await checkSubmission(plan, renderInput(document.input, row.name, tick), { owner })
    const { labels, priority = 0, ttl_seconds: ttl } = document
    const retryDefaults = recordedRetryPolicy(settings)
    const command: Submit = {
      ...{ type: "submit", owner, workflow: name, workflowVersion: version, input, priority },
      ttlSeconds: ttl === undefined ? (plan.ttlSeconds ?? settings.ttlSeconds) : ttl,
      schedule: { name: row.name, tick },
      ...(labels === undefined ? {} : { labels }),
      ...(retryDefaults === undefined ? {} : { retryDefaults }),
      ...paused(owner, name),
    }
    return { plan, command }
  }

  /** The database may reject the job, which then does not exist: returns the outcome of its tick. null: it was stored. */
  async #whenStarted(
    { partition, ...fire }: NewFire,
    { releasePlace }: PreparedJob,
  ): Promise<Omit<NewFire, "partition"> | null> {
    try {
      await this.#parts.owner.durable({ partition, id: fire.jobId! })
      return null
    } catch (error) {
      if (!isDataError(error)) throw error
      await releasePlace?.()
      return { ...fire, outcome: "refused", jobId: null, reason: reasonText(error) }
    }
  }

  async #cancel(jobId: string, schedule: string): Promise<void> {
    try {
      await this.#parts.command(jobId, {
        type: "cancel",
        reason: `The next tick of schedule ${schedule} has come.`,
      })
    } catch (error) {
      // It has ended, or was removed.
      if (!(error instanceof UmbraError && (error.code === "E301" || error.code === "E302"))) throw error
    }
  }
}

interface PreparedJob {
  readonly plan: Plan
  readonly command: Submit
  /** Releases its place among the executions of pipelines. */
  readonly releasePlace: (() => Promise<void>) | null
}

interface PreparedTick {
  readonly fire: NewFire
  /** null: the tick starts none. */
  readonly job: PreparedJob | null
}

function reasonText(error: Error): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the store accepts none of them
  return error.message.replaceAll(/[\u0000-\u001f]/g, " ").slice(0, MAX_REASON)
}
