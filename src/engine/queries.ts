import type { PipelineNeeds } from "../broker/port.ts"
import { expand, type JobEvent } from "../core/events.ts"
import { type ItemView, itemViews } from "../core/item-view.ts"
import type { Json } from "../core/json.ts"
import { routeViews } from "../core/pipeline/view.ts"
import { type JobState, largeParts, newJobState, type Output } from "../core/state.ts"
import { jobHasEnded } from "../core/states.ts"
import { wakeAt, wakesInTime } from "../core/timers.ts"
import { type GraphView, graphView, type NodeView, type WaitingOn } from "../core/view.ts"
import { routesHandler } from "../definition/pipeline/compile.ts"
import type { Plan } from "../definition/plan.ts"
import { UmbraError } from "../errors.ts"
import type { FactRow, JobFilter, JobRow } from "../journal/port.ts"
import { type EventPage, type EventPageQuery, pageOfEvents } from "./event-page.ts"
import { jobErrorOf, outputInMemory } from "./job-result.ts"
import { type JobSnapshot, lacksOutput, snapshotOfRow } from "./job-snapshot.ts"
import { type LiveJob, taskKey } from "./live-job.ts"
import {
  decodeRows,
  type FoldedJob,
  foldJob,
  type LoadParts,
  ofFacts,
  readJob,
  readJobs,
  readOutput,
  readWhole,
} from "./load.ts"
import { needsOf, withLacking } from "./pipeline-needs.ts"
import type { Watchers } from "./watchers.ts"

/** A job that another process runs brings no news here. */
const LOOK_AGAIN_MS = 250
const anEngine: WaitingOn = { kind: "worker", handler: routesHandler }
const nothing = (): PipelineNeeds => ({ adapters: [], redis: false })
/** Each place is a question of its own: a graph shows those of its first nodes. */
const PLACES = 100

export interface QueryParts extends LoadParts {
  /** The job, if it is in this process's memory. */
  live(jobId: string): LiveJob | undefined
  /** Is a worker of this process at it right now? */
  isRunning?(job: LiveJob, task: { readonly node: number; readonly item?: number }): boolean
  /** What of a pipeline's needs is not in this process. */
  lacks?(needs: PipelineNeeds): PipelineNeeds
  /** Nobody else can have the store open: what seems to run was left by a process that died. */
  readonly isAlone?: boolean
}

export interface ItemPageQuery {
  readonly after?: number
  readonly limit?: number
}

export interface ItemPage {
  readonly items: readonly ItemView[]
  /** `after` of the next page. */
  readonly next: number | null
}

/** What can be asked of the store without owning anything: the journal, folded. */
export class Queries {
  readonly #parts: QueryParts

  constructor(parts: QueryParts) {
    this.#parts = parts
  }

  async fold(jobId: string): Promise<FoldedJob> {
    return foldJob(this.#parts, await this.#rows(jobId))
  }

  /** As `fold`, for whoever folds them otherwise. */
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

  /** Newest first, of every owner unless one is named. */
  list(filter: JobFilter): Promise<JobRow[]> {
    return this.#parts.journal.listJobs(filter)
  }

  async job(jobId: string): Promise<JobSnapshot> {
    const row = await this.row(jobId)
    return lacksOutput(row) ? this.snapshot(row) : snapshotOfRow(row)
  }

  /** J19: the shadow graph, with what only this process knows of it where it runs here. */
  async graph(jobId: string): Promise<GraphView> {
    return (await this.#shown(jobId)).view
  }

  /** `only`: of the others it need not say where they stand in queues. */
  async #shown(jobId: string, only?: string): Promise<{ state: JobState; view: GraphView }> {
    const { plan, state, view, isHere } = await this.#graph(jobId, only)
    const { pipeline } = plan
    if (pipeline === null) return { state, view: await this.#withUnseen(jobId, plan, view) }
    const { journal, lacks = nothing, isAlone = false } = this.#parts
    const execution = await journal.pipelines.readExecution(jobId)
    const seemsRun = view.nodes[0]!.status === "RUNNING"
    // Figures of a process that died would be shown as if they were true now.
    const routes = routeViews(pipeline.routes, execution?.progress ?? null, seemsRun && !isAlone)
    const lacking = isHere ? lacks(needsOf(pipeline)) : nothing()
    const nodes = view.nodes.map(node => ({
      ...node,
      waiting_on: withLacking(seemsRun && isAlone ? anEngine : node.waiting_on, lacking),
    }))
    return { state, view: { ...view, nodes, routes } }
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

  async #graph(
    jobId: string,
    only?: string,
  ): Promise<{ plan: Plan; state: JobState; view: GraphView; isHere: boolean }> {
    const live = this.#parts.live(jobId)
    const waits = live !== undefined && live.state.awaitingSlot.size > 0
    const places = waits ? await this.#places(jobId, live.state, only) : undefined
    if (live !== undefined && !live.gone && live.undurable === 0) {
      const overlay = {
        isRunning: (node: number) => this.#parts.isRunning?.(live, { node }) ?? false,
        progress: (node: number) => live.progress?.get(node),
      }
      const { plan, state } = live
      return { plan, state, view: graphView(state, overlay, places), isHere: true }
    }
    const { plan, state } = await this.fold(jobId)
    const view = graphView(state, undefined, await this.#places(jobId, state, only))
    return { plan, state, view, isHere: false }
  }

  /** X5: where the job's nodes stand in the queues for slots. */
  async #places(
    jobId: string,
    { graph, awaitingSlot }: JobState,
    only?: string,
  ): Promise<ReadonlyMap<number, number | null>> {
    const wanted = [...awaitingSlot].filter(([node]) => only === undefined || graph.nodes[node]!.id === only)
    const places = new Map<number, number | null>()
    for (const [node, provider] of wanted.slice(0, PLACES)) {
      places.set(node, await this.#parts.journal.providers.slotPosition({ provider, jobId, node }))
    }
    return places
  }

  /** A completed job with an output too large for its row: put together from the journal. */
  async snapshot(row: JobRow): Promise<JobSnapshot> {
    const { state } = await this.fold(row.id)
    await this.#fetchLarge(row.id, state)
    const { output_left_out: _, ...snapshot } = snapshotOfRow(row)
    return { ...snapshot, output: outputInMemory(state) ?? null }
  }

  /** One node of the graph, with its output. */
  async node(jobId: string, id: string): Promise<NodeView & { readonly output: Json }> {
    const { state, view } = await this.#shown(jobId, id)
    const node = this.#position(jobId, state, id)
    return { ...view.nodes[node]!, output: await this.#whole(jobId, state.outputs[node] ?? null) }
  }

  /** J21: a page of the items of a node with `for_each`, from behind index `after`. */
  async items(jobId: string, id: string, { after = -1, limit = 100 }: ItemPageQuery = {}): Promise<ItemPage> {
    const live = this.#parts.live(jobId)
    const isHere = live !== undefined && live.undurable === 0
    const state = isHere ? live.state : (await this.fold(jobId)).state
    const node = this.#position(jobId, state, id)
    const list = state.lists.get(node)
    if (list === undefined) return { items: [], next: null }
    const isRunning = (item: number) => isHere && (this.#parts.isRunning?.(live, { node, item }) ?? false)
    const progress = (item: number) => (isHere ? live.progress?.get(taskKey({ node, item })) : undefined)
    const places = await this.#itemPlaces({ jobId, node, state: list.state }, after, limit)
    const items = itemViews(list, { after, limit, isRunning, progress, places })
    const last = after + items.length
    return { items, next: items.length > 0 && last + 1 < list.items.length ? last : null }
  }

  async #itemPlaces(
    { jobId, node, state }: { jobId: string; node: number; state: JobState },
    after: number,
    limit: number,
  ): Promise<ReadonlyMap<number, number | null>> {
    const shown = [...state.awaitingSlot].filter(([item]) => item > after && item <= after + limit)
    const places = new Map<number, number | null>()
    for (const [item, provider] of shown.slice(0, PLACES))
      places.set(item, await this.#parts.journal.providers.slotPosition({ provider, jobId, node, item }))
    return places
  }

  #position(jobId: string, state: JobState, id: string): number {
    const node = state.graph.nodes.findIndex(found => found.id === id)
    if (node >= 0) return node
    throw new UmbraError("E310", `Job ${jobId} has no node "${id}". Its graph lists those that it has.`)
  }

  async events(jobId: string): Promise<JobEvent[]> {
    const { plan, facts } = await this.#facts(jobId)
    const state = newJobState(plan)
    return facts.flatMap(recorded => expand(state, jobId, recorded))
  }

  /** A page of them. Before it everything is folded and nothing is told; behind it nothing is looked at. */
  async eventPage(jobId: string, query: EventPageQuery): Promise<EventPage> {
    const { plan, facts } = await this.#facts(jobId)
    return ofFacts(facts, () => pageOfEvents(jobId, newJobState(plan), facts, query))
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
    // From here on only what is new is read: a job of 10,000 nodes brings news thousands of times.
    while (signal?.aborted !== true) {
      const news = watchers.next(jobId, LOOK_AGAIN_MS)
      for (const recorded of await this.#factsAfter(jobId, seen)) {
        seen = recorded.seq
        yield* expand(state, jobId, recorded)
      }
      if (jobHasEnded(state.status)) {
        news.cancel()
        return
      }
      await news.settled
    }
  }

  async #factsAfter(jobId: string, after: number): Promise<FoldedJob["facts"]> {
    const { journal, largeOutputBytes } = this.#parts
    return decodeRows(this.#parts, await journal.readFacts([jobId], { inlineBytes: largeOutputBytes, after }))
  }

  /** J18: folds the job's journal and compares it with its projection. Answers what differs. */
  async verify(row: JobRow): Promise<string[]> {
    for (let read = row; ; ) {
      const differences = await this.#differences(read)
      if (differences.length === 0) return differences
      // It may have gone on between the two reads.
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
    compare("created_at", state.createdAt, row.createdAt)
    compare("finished_at", state.finishedAt, row.finishedAt)
    compare("error", jobErrorOf(plan, state), row.error === null ? null : JSON.parse(row.error))
    if (row.status === "COMPLETED" && row.output !== null)
      compare("output", outputInMemory(state), JSON.parse(row.output))
    if (!wakesInTime(state, row.wakeAt, Date.now()))
      differences.push(`wake_at: journal ${wakeAt(state)}, projection ${row.wakeAt}`)
    if (covered.length < rows.length) differences.push(...(await this.#verifyRest(rows, row)))
    return differences
  }

  /** Facts behind the projection are right as long as they changed nothing it shows. */
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
      if (largeParts(output).length > 0) state.outputs[node] = await this.#whole(jobId, output!)
    }
  }

  #whole(jobId: string, output: Output): Promise<Json> {
    return readWhole(output, seq => readOutput(this.#parts.journal, jobId, seq))
  }
}

export function noSuchJob(jobId: string): UmbraError {
  return new UmbraError("E301", `Job ${jobId} does not exist. \`umbra jobs list\` shows those that do.`)
}
