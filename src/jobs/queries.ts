import type { TaskName } from "../broker/port.ts"
import type { Fault } from "../core/faults.ts"
import type { Json } from "../core/json.ts"
import { type DeadLettersView, type RouteView, routeViews } from "../core/pipeline/view.ts"
import { type JobState, largeParts, newJobState, type Output } from "../core/state.ts"
import { jobHasEnded } from "../core/states.ts"
import { wakeAt, wakesInTime } from "../core/timers.ts"
import { type AttemptView, attemptHistory } from "../core/view/attempt-history.ts"
import { expand, type JobEvent } from "../core/view/events.ts"
import { type ItemView, itemAsNode, itemViews } from "../core/view/item-view.ts"
import { isBegun, type LiveGraph, type LiveItems, type LiveTask, withLive } from "../core/view/live-view.ts"
import { type GraphView, graphView, type NodeView, nodeView } from "../core/view/view.ts"
import type { Plan } from "../definition/plan.ts"
import { QUARANTINED_AT } from "../engine/commit/batch.ts"
import { jobErrorText, outputInMemory, readEnd } from "../engine/owner/job-result.ts"
import type { LiveJob } from "../engine/owner/live-job.ts"
import { type JobSnapshot, previewsField } from "../engine/owner/snapshot.ts"
import {
  decodeRows,
  type FoldedJob,
  foldJob,
  inTurnsIfMany,
  type LoadParts,
  readJob,
  readJobs,
  readOutput,
  readWhole,
} from "../engine/recovery/fold.ts"
import type { AwayOwner } from "../engine/remote/known-engines.ts"
import { awayOverlay, type Overlay, type OverlayQuery, rowOverlay } from "../engine/remote/live-overlay.ts"
import { UmbraError } from "../errors.ts"
import { type DurationsQuery, type JobDurations, jobDurations } from "../journal/job-durations.ts"
import type { FactRow, JobFilter, JobPage, JobRow } from "../journal/port/journal.ts"
import type { ExecutionRow } from "../journal/port/pipelines.ts"
import { noSuchJob } from "./arguments.ts"
import { JobComparisons } from "./compare/compare.ts"
import { type EventPage, type EventPageQuery, eventPage } from "./event-page.ts"
import { JobFacts, nodePosition } from "./facts.ts"
import { type JobListParts, JobLists, type JobSnapshotPage, queuePosition } from "./job-lists.ts"
import { type JobLogs, jobLogs } from "./logs/logs.ts"
import { StatisticsQueries } from "./statistics.ts"
import type { Watchers } from "./watchers.ts"

/** Jobs of other processes are polled: they send no notifications to this one. */
const POLL_MS = 250
/** Each position in a queue for slots costs a query: a graph shows those of its first nodes. */
const POSITIONS = 100
/** Dead letters are counted one by one up to here. */
const DEAD_LETTERS = 10_000

export interface QueryParts extends LoadParts, JobListParts {
  /** The job, if it is in this process's memory. */
  live(jobId: string): LiveJob | undefined
  /** What the job's owner knows beyond the facts; null: it did not answer in time. Absent: no owner can be queried. */
  overlay?(query: OverlayQuery, patienceMs?: number): Promise<Overlay | null>
  /** The last owner of a job that no live engine owns; null: one does, or it is not known. */
  awayOwner?(jobId: string): AwayOwner | null | Promise<AwayOwner | null>
  /** The live worker that holds a task; null: none is known here. */
  holder?(task: TaskName): string | null
}

export interface ItemPageQuery {
  readonly after?: number
  readonly limit?: number
}

/** A node, or one of its items, with its output and the history of its attempts. */
export interface NodeDetails extends NodeView {
  readonly output: Json
  /** The newest 100 in the order in which they were queued. */
  readonly attempts: readonly AttemptView[]
  /** The total number of attempts. */
  readonly attempts_total: number
  /** The index of the item that is described; absent: the node is described. */
  readonly item?: number
  /** The node's part of the overlay. */
  readonly live?: LiveGraph | null
}

export interface ItemPage {
  readonly items: readonly ItemView[]
  /** `after` of the next page. */
  readonly next: number | null
  /** The live overlay, which is never recorded. null: not known; absent: the job has ended. */
  readonly live?: LiveItems | null
}

/** Queries that need no ownership: they read the store and fold the journal. */
export class Queries {
  /** The journal of a job, and its past. */
  readonly facts: JobFacts
  readonly statistics: StatisticsQueries
  readonly comparisons: JobComparisons
  readonly logs: JobLogs
  readonly #parts: QueryParts
  readonly #lists: JobLists

  constructor(parts: QueryParts) {
    this.#parts = parts
    this.facts = new JobFacts(parts)
    this.statistics = new StatisticsQueries(parts)
    this.#lists = new JobLists(parts)
    this.comparisons = new JobComparisons(parts.journal, this.facts)
    this.logs = jobLogs(parts, this.facts.history)
  }

  async fold(jobId: string): Promise<FoldedJob> {
    return foldJob(this.#parts, await this.#rows(jobId))
  }

  /** As `fold`, for callers that fold the facts themselves. */
  async #facts(jobId: string): Promise<Pick<FoldedJob, "plan" | "facts">> {
    return readJob(this.#parts, await this.#rows(jobId))
  }

  async #rows(jobId: string): Promise<FactRow[]> {
    const rows = (await readJobs(this.#parts, [jobId])).get(jobId)
    if (rows === undefined) throw noSuchJob(jobId)
    return rows
  }

  /** The job's projection; throws if there is none. */
  async row(jobId: string): Promise<JobRow> {
    const row = await this.#parts.journal.readJob(jobId)
    if (row === null) throw noSuchJob(jobId)
    return row
  }

  /** Rows, newest first, of all owners unless one is given. */
  list(filter: JobFilter): Promise<JobPage> {
    return this.#parts.journal.listJobs(filter)
  }

  /** The same with the status that people see. */
  shownRows(filter: JobFilter): Promise<JobPage> {
    return this.#lists.rows(filter)
  }

  /** The same as users see it. */
  jobPage(filter: JobFilter): Promise<JobSnapshotPage> {
    return this.#lists.page(filter)
  }

  /** Points of a chart: how long jobs took, over the time of their creation. */
  durations(query: DurationsQuery): Promise<JobDurations> {
    const { journal, now } = this.#parts
    const times = { now: now(), begin: (row: JobRow) => readEnd(row).startAt ?? row.createdAt }
    return jobDurations((filter, bound) => journal.listJobs(filter, bound), times, query)
  }

  /** Up to `limit` jobs, however many pages they take. */
  jobs(filter: JobFilter): Promise<JobSnapshot[]> {
    return this.#lists.jobs(filter)
  }

  async job(jobId: string): Promise<JobSnapshot> {
    return this.withDetails(await this.summary(jobId))
  }

  /** The job as shown in lists. */
  async summary(jobId: string): Promise<JobSnapshot> {
    return this.#lists.snapshot(await this.row(jobId))
  }

  /**
   * Adds to the data of a job's row what only the journal has: a large output, previews, and the usage of a job that runs
   * here. For a job of another process its facts would have to be read again and again: its graph has the usage.
   */
  withDetails(job: JobSnapshot): JobSnapshot | Promise<JobSnapshot> {
    if (job.output_left_out === true) return this.#withOutput(job)
    const isHere = this.#parts.live(job.job_id) !== undefined
    if (job.status !== "PREVIEW" && (job.usage !== null || !isHere)) return job
    return this.#ofDurable(job.job_id, ({ state }) => {
      const usage = Object.fromEntries(state.usage)
      // If the job has continued since the row was read, it has no previews to show.
      return job.status === "PREVIEW"
        ? { ...job, usage, previews: [], ...previewsField(state) }
        : { ...job, usage }
    })
  }

  /** J19: the shadow graph, computed from durable facts, and its live overlay. */
  async graph(jobId: string, patienceMs?: number): Promise<GraphView> {
    const now = this.#parts.now()
    const { plan, state, stored } = await this.#ofDurable(jobId, ({ plan, state }) => {
      return { plan, state, stored: graphView(state, { now }) }
    })
    const view = await this.#withOverlay(jobId, state, stored, { patienceMs })
    const { pipeline } = plan
    if (pipeline === null) return this.#withUnseen(jobId, plan, view)
    const execution = await this.#parts.journal.pipelines.readExecution(jobId)
    // Otherwise numbers of a process that died would be shown as current.
    const isRun = withLive(view).nodes[0]!.status === "RUNNING"
    const routes = routeViews(pipeline.routes, execution?.progress ?? null, isRun)
    const dead_letters = await this.#deadLetters(execution, routes)
    return { ...view, routes, dead_letters }
  }

  async #withUnseen(jobId: string, plan: Plan, view: GraphView): Promise<GraphView> {
    if (plan.providers.length === 0) return view
    const found = await this.#parts.journal.providers.unseenSubmissions({ jobId })
    if (found.length === 0) return view
    const unseen = found.map(({ node, item, provider, since, slotUntil: held_until }) => {
      const of = { node: plan.nodes[node]!.id, ...(item === undefined ? {} : { item }) }
      return { ...of, provider, since, held_until }
    })
    return { ...view, unseen_operations: unseen }
  }

  /** Queried only if there have been any. If there are very many, replayed ones are counted too. */
  async #deadLetters(execution: ExecutionRow | null, routes: readonly RouteView[]): Promise<DeadLettersView> {
    const all = routes.reduce((sum, { dead_lettered }) => sum + dead_lettered, 0)
    if (execution === null || all === 0) return { count: 0, first: null }
    const query = { execution: execution.execution, most: DEAD_LETTERS }
    const { count, first } = await this.#parts.journal.pipelines.deadLettersLeft(query)
    if (first === null) return { count: 0, first: null }
    const { code, message } = JSON.parse(first.error) as Fault
    return {
      count: count < DEAD_LETTERS ? count : Math.max(count, all),
      first: { message: `${routes[first.route]!.name}:${first.seq}`, error: { code, message } },
    }
  }

  /** Reads the job as the store has it: from memory, without waiting, unless facts of it are not durable yet. */
  async #ofDurable<T>(
    jobId: string,
    read: (job: { readonly plan: Plan; readonly state: JobState }) => T,
  ): Promise<T> {
    const job = this.#parts.live(jobId)
    return read(job !== undefined && !job.evicted && job.pendingBatches === 0 ? job : await this.fold(jobId))
  }

  /** The live overlay alone; undefined: the job has ended. */
  async live(jobId: string): Promise<LiveGraph | null | undefined> {
    const { status } = await this.row(jobId)
    if (jobHasEnded(status)) return undefined
    // The place of a job that waits as a row is in the store.
    if (status === "QUEUED") return (await this.graph(jobId)).live
    const live = ((await this.#parts.overlay?.({ jobId })) ?? null) as LiveGraph | null
    return live && { at: live.at, nodes: live.nodes }
  }

  /** Does no live engine own the job? */
  async isAway(jobId: string): Promise<boolean> {
    return ((await this.#parts.awayOwner?.(jobId)) ?? null) !== null
  }

  /** `view`: of the state as it was read; `only`: positions in queues for slots are needed for this node alone. */
  async #withOverlay(
    jobId: string,
    state: JobState,
    view: GraphView,
    { only, patienceMs }: { readonly only?: string; readonly patienceMs?: number | undefined },
  ): Promise<GraphView> {
    if (jobHasEnded(view.status)) return view
    const byId = new Map(view.nodes.map((node, position) => [node.id, { node, position }]))
    const overlay = (await this.#overlay({ jobId }, state, patienceMs)) as LiveGraph | null
    if (overlay === null) return { ...view, live: overlay }
    const isRow = view.status === "QUEUED" && overlay.status === undefined && overlay.nodes.length === 0
    const position =
      isRow && state.paused === null ? await queuePosition(this.#parts.journal, state, jobId) : null
    const { status, ...live } = rowOverlay(state, overlay, position ?? {})
    // The facts may have been read before later ones that the owner knows.
    const tasks = live.nodes.filter(({ id }) => isBegun(byId.get(id)?.node.status ?? "PENDING"))
    const waiting = view.nodes.filter(({ id }) => only === undefined || id === only)
    const slots = await this.#slotPositions(waiting, ({ id }) => ({ jobId, node: byId.get(id)!.position }))
    return {
      ...view,
      live: {
        ...live,
        ...(view.status === "QUEUED" && status !== undefined ? { status } : {}),
        nodes: [...tasks, ...slots.map(([{ id }, slot]) => ({ id, ...slot }))],
      },
    }
  }

  async #overlay(query: OverlayQuery, state: JobState, patienceMs?: number): Promise<Overlay | null> {
    const { overlay, awayOwner, holder = () => null, now } = this.#parts
    const owner = (await awayOwner?.(query.jobId)) ?? null
    if (owner !== null) return awayOverlay(state, query, { owner, holder, now: now() })
    return (await overlay?.(query, patienceMs)) ?? null
  }

  /** X5: the positions of nodes or items in the queues for slots. */
  async #slotPositions<T extends Pick<NodeView, "waiting_on">>(
    tasks: readonly T[],
    toSlotKey: (task: T) => { readonly jobId: string; readonly node: number; readonly item?: number },
  ): Promise<[T, LiveTask][]> {
    const found: [T, LiveTask][] = []
    for (const task of tasks) {
      const { waiting_on } = task
      if (waiting_on?.kind !== "slot" || found.length === POSITIONS) continue
      const { provider } = waiting_on
      const position = await this.#parts.journal.providers.slotPosition({ provider, ...toSlotKey(task) })
      found.push([task, { ...notBegun, waiting_on: { ...waiting_on, position } }])
    }
    return found
  }

  /** Reads the output of a completed job that is too large for its row from the journal. */
  async #withOutput({ output_left_out: _, ...job }: JobSnapshot): Promise<JobSnapshot> {
    const { state } = await this.fold(job.job_id)
    await this.#fetchLarge(job.job_id, state)
    return { ...job, output: outputInMemory(state) ?? null }
  }

  /** One node of the graph, or one of its items, with its output and its attempts, all of the same moment. */
  async node(
    jobId: string,
    id: string,
    { item }: { readonly item?: number | undefined } = {},
  ): Promise<NodeDetails> {
    const rows = await this.#rows(jobId)
    const { plan, facts, state } = await foldJob(this.#parts, rows)
    const now = this.#parts.now()
    const node = nodePosition(state, jobId, id)
    const list = state.lists.get(node)
    if (item !== undefined && !(item < (list?.items.length ?? 0)))
      throw new UmbraError("E310", `Node "${id}" of job ${jobId} has no item ${item}.`)
    const of = { node, item }
    const view = item === undefined ? nodeView(state, node, now) : itemAsNode(state, node, item, now)
    const output = item === undefined ? state.outputs[node] : list!.state.outputs[item]
    const live = jobHasEnded(state.status) ? undefined : await this.#readLive(jobId, { view, state, ...of })
    const begunAt = live?.nodes[0]?.status === "RUNNING" ? live.nodes[0].started_at : null
    const { attempts, total } = await inTurnsIfMany(facts, () =>
      attemptHistory(plan, facts, of, { now, begunAt }),
    )
    return {
      ...view,
      output: await this.#readWhole(jobId, output ?? null),
      attempts,
      attempts_total: total,
      ...(item === undefined ? {} : { item }),
      ...(live === undefined ? {} : { live }),
    }
  }

  /** The overlay of one node, or of one of its items. */
  async #readLive(
    jobId: string,
    { view, state, node, item }: { view: NodeView; state: JobState; node: number; item: number | undefined },
  ): Promise<LiveGraph | null> {
    const { id } = view
    if (item === undefined) {
      const graph = graphView(state, { now: this.#parts.now() })
      const { live } = await this.#withOverlay(jobId, state, graph, { only: id })
      return live ? { ...live, nodes: live.nodes.filter(each => each.id === id) } : null
    }
    const query = { jobId, node, after: item - 1, limit: 1 }
    const live = await this.#itemsOverlay(query, [{ ...view, index: item }], state)
    return live && { at: live.at, nodes: live.items.map(({ index: _, ...task }) => ({ id, ...task })) }
  }

  /** J21: a page of the items of a node with `for_each`, after index `after`. */
  async items(jobId: string, id: string, { after = -1, limit = 100 }: ItemPageQuery = {}): Promise<ItemPage> {
    const now = this.#parts.now()
    const { items, next, node, state, hasEnded } = await this.#ofDurable(jobId, ({ state }) => {
      const node = nodePosition(state, jobId, id)
      const items = itemViews(state, node, { after, limit, now })
      const last = after + items.length
      const next = items.length > 0 && last + 1 < state.lists.get(node)!.items.length ? last : null
      return { items, next, node, state, hasEnded: jobHasEnded(state.status) }
    })
    if (hasEnded) return { items, next }
    return { items, next, live: await this.#itemsOverlay({ jobId, node, after, limit }, items, state) }
  }

  async #itemsOverlay(
    query: Required<OverlayQuery>,
    items: readonly Pick<ItemView, "index" | "status" | "waiting_on">[],
    state: JobState,
  ): Promise<LiveItems | null> {
    if (items.length === 0) return { at: this.#parts.now(), items: [] }
    const live = (await this.#overlay(query, state)) as LiveItems | null
    if (live === null) return null
    const { jobId, node, after } = query
    const tasks = live.items.filter(({ index }) => isBegun(items[index - after - 1]?.status ?? "PENDING"))
    const slots = await this.#slotPositions(items, ({ index }) => ({ jobId, node, item: index }))
    return { ...live, items: [...tasks, ...slots.map(([{ index }, slot]) => ({ index, ...slot }))] }
  }

  async events(jobId: string): Promise<JobEvent[]> {
    const { plan, facts } = await this.#facts(jobId)
    const state = newJobState(plan)
    return facts.flatMap(recorded => expand(state, jobId, recorded))
  }

  /** A page of events. */
  eventPage(jobId: string, query: EventPageQuery): Promise<EventPage> {
    return eventPage(this.#parts, this.facts.history, jobId, query)
  }

  /** Events as they become durable, from the job's beginning until it has ended. */
  async *watch(
    jobId: string,
    watchers: Watchers,
    { signal }: { readonly signal?: AbortSignal },
  ): AsyncGenerator<JobEvent, void, undefined> {
    const { plan, facts } = await this.#facts(jobId)
    const state = newJobState(plan)
    for (const recorded of facts) yield* expand(state, jobId, recorded)
    let seen = facts.at(-1)!.seq
    // From here on only new facts are read: a job of 10,000 nodes changes thousands of times.
    while (signal?.aborted !== true) {
      const change = watchers.next(jobId, POLL_MS)
      for (const recorded of await this.#factsAfter(jobId, seen)) {
        seen = recorded.seq
        yield* expand(state, jobId, recorded)
      }
      if (jobHasEnded(state.status)) {
        change.cancel()
        return
      }
      await change.settled
    }
  }

  async #factsAfter(jobId: string, after: number): Promise<FoldedJob["facts"]> {
    const { journal, largeOutputBytes } = this.#parts
    return decodeRows(this.#parts, await journal.readFacts([jobId], { inlineBytes: largeOutputBytes, after }))
  }

  /** J18: folds the job's journal and compares it with its projection. Returns the differences. */
  async verify(row: JobRow): Promise<string[]> {
    for (let read = row; ; ) {
      const differences = await this.#differences(read)
      if (differences.length === 0) return differences
      // The job may have continued between the two reads.
      const now = await this.#parts.journal.readJob(row.id)
      if (now === null) return []
      if (now.seq === read.seq) return differences
      read = now
    }
  }

  async #differences(row: JobRow): Promise<string[]> {
    const rows = (await readJobs(this.#parts, [row.id])).get(row.id) ?? []
    const covered = rows.filter(fact => fact.seq <= row.seq)
    if (covered.length === 0) return ["the job has no journal"]
    if (row.wakeAt === QUARANTINED_AT) return [`quarantined: ${row.error}`]
    const { plan, state } = await foldJob(this.#parts, covered)
    await this.#fetchLarge(row.id, state)
    const differences: string[] = []
    const compare = (what: string, journal: unknown, projection: unknown) => {
      const [inJournal, inProjection] = [JSON.stringify(journal), JSON.stringify(projection)]
      if (inJournal !== inProjection)
        differences.push(`${what}: journal ${inJournal}, projection ${inProjection}`)
    }
    compare("status", state.status, row.status)
    compare("owner", state.owner, row.owner)
    compare("submitted_by", state.submittedBy, row.submittedBy)
    compare("workflow", [state.workflow, state.workflowVersion], [row.workflow, row.workflowVersion])
    compare("forked_from", [state.forkedFrom, state.definition], [row.forkedFrom, row.definition])
    compare("created_at", state.createdAt, row.createdAt)
    compare("finished_at", state.finishedAt, row.finishedAt)
    const end = readEnd({ status: row.status, error: jobErrorText({ plan, state }) })
    const stored = readEnd(row)
    compare("error", end.error, stored.error)
    compare("schedule", end.schedule, stored.schedule)
    // Releases before 0.2 wrote neither of them into the row.
    if (row.error !== null) compare("reason", end.reason, stored.reason)
    if (Object.keys(stored.usage ?? {}).length > 0) compare("usage", end.usage, stored.usage)
    if (row.status === "COMPLETED" && row.output !== null)
      compare("output", outputInMemory(state), JSON.parse(row.output))
    if (!wakesInTime(state, row.wakeAt, Date.now()))
      differences.push(`wake_at: journal ${wakeAt(state)}, projection ${row.wakeAt}`)
    if (covered.length < rows.length) differences.push(...(await this.#verifyRest(rows, row)))
    return differences
  }

  /** Facts after the projection are correct as long as they changed nothing that it shows. */
  async #verifyRest(rows: Parameters<typeof foldJob>[1], row: JobRow): Promise<string[]> {
    const { state } = await foldJob(this.#parts, rows)
    const differences: string[] = []
    if (state.status !== row.status)
      differences.push(`status: journal ${state.status} at its end, projection ${row.status}`)
    if (!wakesInTime(state, row.wakeAt, Date.now()))
      differences.push(`wake_at: journal ${wakeAt(state)} at its end, projection ${row.wakeAt}`)
    return differences
  }

  async #fetchLarge(jobId: string, state: JobState): Promise<void> {
    for (const [node, output] of state.outputs.entries()) {
      if (largeParts(output).length > 0) state.outputs[node] = await this.#readWhole(jobId, output!)
    }
  }

  #readWhole(jobId: string, output: Output): Promise<Json> {
    return readWhole(output, large => readOutput(this.#parts.journal, jobId, large))
  }
}

const notBegun: LiveTask = {
  status: "QUEUED",
  worker: null,
  started_at: null,
  progress: null,
  waiting_on: null,
}
