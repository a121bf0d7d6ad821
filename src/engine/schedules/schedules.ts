import type { Submit } from "../../core/commands.ts"
import { checkSubmission } from "../../definition/index.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import { JournalUnavailableError } from "../../journal/errors.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { FireRow, NewFire, ScheduleChange, ScheduleRow } from "../../journal/port/schedules.ts"
import type { Log } from "../../log.ts"
import { parseSchedule, renderInput, type ScheduleDocument, scheduleRules } from "../../schedule/document.ts"
import { type Decision, decideTicks, fireTime, type Rules } from "../../schedule/policy.ts"
import { traceTick } from "../../trace.ts"
import { nextTurnIfLate } from "../../turns.ts"
import type { Clock } from "../clock.ts"
import { isDataError } from "../commit/sender.ts"
import type { MustFit } from "../dispatch/pipeline-needs.ts"
import { scheduledJobId } from "../ids.ts"
import type { EngineMetrics } from "../metrics.ts"
import type { PartitionOwner } from "../owner/owner.ts"
import type { ReadyPartitions } from "../partitions/ready-partitions.ts"
import type { ClaimExecution } from "../pipeline-places.ts"
import type { Plans } from "../plans.ts"
import type { JobCommand } from "../remote/commands.ts"
import { type EngineSettings, recordedRetryPolicy } from "../settings.ts"
import { Versions } from "../versions.ts"
import { QueuedTicks } from "./queued-ticks.ts"
import { cutAtLimit, isOverLimit, outcomesOverLimit, TickLimits } from "./tick-limits.ts"

/** Schedules that are decided at once, and the bytes of their documents. */
const PAGE = 1000
const PAGE_BYTES = 4 * 1024 * 1024
/** Partitions have different numbers of due schedules; none of them is read very far if there are many. */
const PARTITION_PAGE = 4
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

/** What a tick did, or a run or a backfill started, for live streams. Times are milliseconds since 1970. */
export interface FiredTick extends FireRow {
  readonly owner: string
  readonly schedule: string
}

export interface SchedulesParts {
  readonly journal: Journal
  readonly partitionOwner: PartitionOwner
  readonly partitions: Pick<ReadyPartitions, "all" | "owns">
  readonly plans: Plans
  readonly clock: Clock
  readonly settings: EngineSettings
  readonly log: Log
  readonly mustFit: MustFit
  readonly claimExecution: ClaimExecution
  /** If not, ticks wait for another engine. */
  readonly startsJobs: boolean
  /** Set in the submission of a job whose workflow is paused. */
  paused(owner: string, name: string): Pick<Submit, "paused">
  command(jobId: string, command: JobCommand): Promise<void>
  readonly metrics: EngineMetrics
  /** The outcome of a tick is durable. */
  fired(fire: FiredTick): void
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
export class FiringSchedules {
  readonly #parts: SchedulesParts
  readonly #versions: Versions
  /** When the next tick fires, as far as this engine knows. */
  #nextAt = 0
  readonly #queued: QueuedTicks
  readonly limits = new TickLimits()
  #running: Promise<void> | null = null
  #again = false
  #isStopped = false
  #unlisten: (() => Promise<void>) | null = null

  constructor(parts: SchedulesParts) {
    this.#parts = parts
    this.#queued = new QueuedTicks(parts.journal)
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
    if (this.#running !== null)
      await Promise.race([this.#running, this.#parts.partitionOwner.store.whenUnavailable()])
  }

  /** A schedule of this partition was stored by this process. A notification that is lost is repeated by the heartbeat. */
  changed(partition: number): void {
    if (this.#parts.partitions.owns(partition)) this.#wake()
    else announceSchedule(this.#parts.journal, partition)
  }

  /** The engine has taken partitions. */
  partitionsAdded(): void {
    this.#queued.allMayStart()
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
    return this.#queued.hasAwaited
  }

  /** The end of the job is durable. */
  jobEnded(jobId: string): void {
    if (this.#queued.ended(jobId)) this.#wake()
  }

  #wake(): void {
    if (this.#isStopped || !this.#parts.startsJobs) return
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
      this.#queued.allMayStart()
      this.#nextAt = clock.now() + RETRY_MS
      this.#parts.wakeAt(this.#nextAt)
    }
  }

  async #decidePage(): Promise<void> {
    const { journal, partitions, partitionOwner, clock } = this.#parts
    const owned = partitions.all()
    const epochs = new Map(owned.map(partition => [partition, partitionOwner.owned.get(partition)?.epoch]))
    const queued = await this.#queued.read(owned)
    const { schedules, nextAt } = await journal.schedules.due({
      partitions: owned,
      at: clock.now(),
      limit: PAGE,
      limitOfPartition: Math.ceil((PARTITION_PAGE * PAGE) / Math.max(1, owned.length)),
      maxBytes: PAGE_BYTES,
    })
    const rows = new Map([...queued, ...schedules].map(row => [row.id, row]))
    const running = await this.#runningLatest([...rows.values()])
    const decisions = [...rows.values()].map(async row => {
      await nextTurnIfLate()
      const isRunning = row.lastJob !== null && running.has(row.lastJob)
      await this.#decide(row, { epoch: epochs.get(row.partition), isRunning })
    })
    const failed = (await Promise.allSettled(decisions)).find(({ status }) => status === "rejected")
    if (failed?.status === "rejected") throw failed.reason
    // There may be more, and a decision about very many ticks is made in parts.
    if (schedules.length > 0 || (nextAt !== null && nextAt <= clock.now()) || this.#queued.hasMore)
      this.#again = true
    this.#nextAt = nextAt ?? Number.POSITIVE_INFINITY
    if (nextAt !== null && !this.#again) this.#parts.wakeAt(nextAt)
  }

  /** Which of the latest jobs have not ended. The end of those that a queued tick waits for is reported from now on. */
  async #runningLatest(rows: readonly ScheduleRow[]): Promise<ReadonlySet<string>> {
    for (const { id, queuedTick, lastJob } of rows)
      if (queuedTick !== null && lastJob !== null) this.#queued.waits(id, lastJob)
    const running = await this.#runningJobs(rows)
    for (const { lastJob } of rows)
      if (lastJob !== null && !running.has(lastJob)) this.#queued.waitsNoMore(lastJob)
    return running
  }

  async #runningJobs(rows: readonly Pick<ScheduleRow, "owner" | "lastJob">[]): Promise<ReadonlySet<string>> {
    const { journal, partitionOwner } = this.#parts
    const running = new Set<string>()
    const stored = new Map<string, string[]>()
    for (const { owner, lastJob } of rows) {
      if (lastJob === null) continue
      const live = partitionOwner.jobs.get(lastJob)
      if (live === undefined) stored.set(owner, [...(stored.get(owner) ?? []), lastJob])
      else if (live.state.finishedAt === null) running.add(lastJob)
    }
    for (const [owner, known] of stored)
      for (const id of await journal.unfinishedJobs({ owner, known, after: LAST_ID, limit: 1 }))
        running.add(id)
    return running
  }

  async #decide(
    row: ScheduleRow,
    { epoch, isRunning }: { readonly epoch: number | undefined; readonly isRunning: boolean },
  ): Promise<void> {
    const { partitionOwner, clock, log } = this.#parts
    const now = clock.now()
    const { document, rules, decision } = this.#decision(row, { now, isRunning })
    // Its queued tick keeps waiting.
    if (isUnchanged(row, decision)) return
    const isOver = rules !== null && isOverLimit(row, rules)
    if (document === null)
      log.error({ schedule: row.name, owner: row.owner }, "a stored schedule is invalid and was stopped")
    const ticks: PreparedTick[] = []
    const outcomes = isOver ? outcomesOverLimit(row, rules, decision) : decision.outcomes
    for (const { tick, outcome, reason, count } of outcomes) {
      const dueAt = fireTime(rules!, tick)
      const base = {
        scheduleId: row.id,
        partition: row.partition,
        tick,
        kind: "tick" as const,
        at: now,
        reason,
        count,
      }
      const { cancelsRunning } = decision
      if (outcome === "started")
        ticks.push({ ...(await this.#prepare(row, document!, base, { cancelsRunning })), dueAt })
      else ticks.push({ fire: { ...base, outcome, jobId: null }, job: null, dueAt })
    }
    const { partition } = row
    await this.limits.admitted(row.owner, ticks, async count => {
      const isOwned = epoch !== undefined && partitionOwner.owned.get(partition)?.epoch === epoch
      for (const { job } of ticks.slice(isOwned ? count : 0)) await job?.releasePlace?.()
      if (!isOwned) return
      const kept = cutAtLimit(row, decision, ticks, { count, now, isOver })
      await this.#storeAll(row, kept.decision, kept.ticks)
    })
  }

  async #storeAll(row: ScheduleRow, decision: Decision, ticks: readonly PreparedTick[]): Promise<void> {
    const { owned } = this.#parts.partitionOwner
    const epoch = owned.get(row.partition)?.epoch
    if (!(await this.#store(row, decision, ticks))) {
      if (owned.get(row.partition)?.epoch === epoch) await this.#storeRefused(row, decision, ticks)
      return
    }
    const latest = ticks.findLast(({ job }) => job !== null)?.fire.jobId ?? row.lastJob
    if (decision.queuedTick !== null && latest !== null) await this.#awaitEnd(row, latest)
  }

  /** Everything of the decision is one append. False: the database rejects it, and nothing of it was stored. */
  async #store(row: ScheduleRow, decision: Decision, ticks: readonly PreparedTick[]): Promise<boolean> {
    const { partitionOwner, journal } = this.#parts
    this.#record(row, decision, ticks)
    const [stored, ...started] = await Promise.allSettled([
      partitionOwner.durable(row),
      ...ticks.map(({ fire, job }) => (job === null ? null : this.#whenStarted(fire, job))),
    ])
    if (stored.status === "rejected" && isDataError(stored.reason)) return false
    for (const result of [stored, ...started]) if (result.status === "rejected") throw result.reason
    for (const [index, result] of started.entries()) {
      const refused = (result as PromiseFulfilledResult<Omit<NewFire, "partition"> | null>).value
      if (refused !== null) await journal.schedules.addFire(refused)
      this.#report(row, refused ?? ticks[index]!.fire, ticks[index]!.dueAt)
    }
    return true
  }

  #report(row: ScheduleRow, fire: Omit<NewFire, "partition">, dueAt: number): void {
    const { metrics, clock, fired } = this.#parts
    const { tick, kind, at, outcome, jobId, reason, count } = fire
    metrics.fired(fire)
    if (outcome === "started" && tick !== row.queuedTick)
      metrics.fireSeconds.add(Math.max(0, clock.now() - dueAt) / 1000)
    fired({ owner: row.owner, schedule: row.name, tick, kind, at, outcome, jobId, reason, count })
  }

  /** Ticks whose outcome the database rejects start nothing, and are not decided again. */
  async #storeRefused(row: ScheduleRow, decision: Decision, ticks: readonly PreparedTick[]): Promise<void> {
    const { log } = this.#parts
    log.error({ schedule: row.name, owner: row.owner }, "the database rejected the ticks of a schedule")
    const reason = "the database rejected what the tick was to store"
    const refused = ticks.map(({ fire, dueAt }) => ({
      ...{ job: null, dueAt },
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
  async #awaitEnd({ id, owner }: ScheduleRow, jobId: string): Promise<void> {
    this.#queued.waits(id, jobId)
    const running = await this.#runningJobs([{ owner, lastJob: jobId }])
    if (!running.has(jobId) && this.#queued.ended(jobId)) this.#again = true
  }

  /** Of a document that this release does not accept: no tick any more. */
  #decision(
    row: ScheduleRow,
    given: { readonly now: number; readonly isRunning: boolean },
  ): {
    readonly document: ScheduleDocument | null
    readonly rules: Rules | null
    readonly decision: Decision
  } {
    try {
      const document = parseSchedule(JSON.parse(row.document))
      const rules = scheduleRules(row.id, document)
      return { document, rules, decision: decideTicks(rules, row, given) }
    } catch (error) {
      if (!(error instanceof UmbraError)) throw error
      const { lastTick } = row
      return {
        ...{ document: null, rules: null },
        decision: { outcomes: [], lastTick, queuedTick: null, cancelsRunning: false, nextAt: null },
      }
    }
  }

  #record(row: ScheduleRow, decision: Decision, ticks: readonly PreparedTick[]): void {
    const { partitionOwner } = this.#parts
    const { id, partition, revision } = row
    const { lastTick, nextAt, queuedTick } = decision
    const isStarted = ticks.some(({ fire }) => fire.tick === row.queuedTick && fire.outcome !== "queued")
    const change: ScheduleChange = {
      ...{ id, partition, revision, lastTick, nextAt, queuedTick },
      lastJob: ticks.findLast(({ job }) => job !== null)?.fire.jobId ?? null,
      startedTick: isStarted ? row.queuedTick : null,
    }
    const lane = partitionOwner.committer.lane(partition)
    lane.inOneCommit(() => {
      for (const { fire, job } of ticks)
        if (job !== null) partitionOwner.submit(fire.jobId!, partition, job.plan, job.command)
      lane.recordTicks(
        change,
        ticks.map(({ fire }) => fire),
      )
    })
  }

  async #prepare(
    row: ScheduleRow,
    document: ScheduleDocument,
    base: Omit<NewFire, "outcome" | "jobId">,
    { cancelsRunning }: Pick<Decision, "cancelsRunning">,
  ): Promise<Omit<PreparedTick, "dueAt">> {
    const { settings, claimExecution } = this.#parts
    const jobId = scheduledJobId({
      scheduleId: row.id,
      partition: row.partition,
      tick: base.tick,
      cell: settings.cell,
    })
    const refused = (error: UmbraError) => ({
      fire: { ...base, outcome: "refused" as const, reason: reasonText(error), jobId: null },
      job: null,
    })
    const prepared = await this.#submission(row, document, { tick: base.tick, jobId }).catch(asRefusal)
    if (prepared instanceof UmbraError) return refused(prepared)
    const { plan, command } = prepared
    // Not for a tick that is refused; and before the place is claimed, which the job may hold.
    if (cancelsRunning) await this.#cancel(row.lastJob!, row.name)
    const releasePlace = plan.pipeline === null ? null : await claimExecution(jobId).catch(asRefusal)
    if (releasePlace instanceof UmbraError) return refused(releasePlace)
    return { fire: { ...base, outcome: "started", jobId }, job: { plan, command, releasePlace } }
  }

  async #submission(
    row: ScheduleRow,
    document: ScheduleDocument,
    { tick, jobId }: { readonly tick: number; readonly jobId: string },
  ): Promise<{ readonly plan: Plan; readonly command: Submit }> {
    const { plans, settings, mustFit, paused } = this.#parts
    const { owner } = row
    const { name, version } = await this.#versions.resolve(owner, document.workflow)
    const plan = await plans.get(owner, name, version)
    mustFit(plan, owner)
    const input = await checkSubmission(plan, renderInput(document.input, row.name, tick), { owner })
    const { labels, priority = 0, ttl_seconds: ttl } = document
    const retryDefaults = recordedRetryPolicy(settings)
    const traceparent = traceTick({ jobId, workflow: name, schedule: row.name, tick })
    const command: Submit = {
      ...{ type: "submit", owner, workflow: name, workflowVersion: version, input, priority },
      ttlSeconds: ttl === undefined ? (plan.ttlSeconds ?? settings.ttlSeconds) : ttl,
      schedule: { name: row.name, tick },
      labels,
      traceparent,
      retryDefaults,
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
      await this.#parts.partitionOwner.durable({ partition, id: fire.jobId! })
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
  /** When it was to fire. */
  readonly dueAt: number
  /** null: the tick starts none. */
  readonly job: PreparedJob | null
}

function isUnchanged(row: ScheduleRow, { outcomes, lastTick, queuedTick, nextAt }: Decision): boolean {
  return (
    outcomes.length === 0 &&
    lastTick === row.lastTick &&
    queuedTick === row.queuedTick &&
    nextAt === row.nextAt
  )
}

/** While the store does not answer, nothing is known about the tick: it is decided again. */
function asRefusal(error: unknown): UmbraError {
  if (!(error instanceof UmbraError) || error instanceof JournalUnavailableError) throw error
  return error
}

function reasonText(error: Error): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the store accepts none of them
  return error.message.replaceAll(/[\u0000-\u001f]/g, " ").slice(0, MAX_REASON)
}
