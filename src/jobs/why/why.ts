/**
 * `GET /jobs/{job}/why`: why a job does not go on, in one sentence, the chain of causes, and what would help. The answer
 * is computed from the job's graph and its live overlay, which the owner of its partition gives.
 */
import type { JsonObject } from "../../core/json.ts"
import { decodeProgress, unsettled } from "../../core/pipeline/progress.ts"
import { jobHasEnded } from "../../core/states.ts"
import { withLive } from "../../core/view/live-view.ts"
import type { GraphView, NodeView } from "../../core/view/view.ts"
import { isoTime } from "../../engine/clock.ts"
import { QUARANTINED_AT } from "../../engine/commit/batch.ts"
import { jobIsPaused, readEnd } from "../../engine/owner/job-result.ts"
import type { LoadParts } from "../../engine/recovery/fold.ts"
import { UmbraError } from "../../errors.ts"
import type { JobRow } from "../../journal/port/journal.ts"
import type { Moment, Place } from "../history.ts"
import { isoWaiting } from "../iso-times.ts"
import type { Queries } from "../queries.ts"
import { recentNodes } from "../statistics.ts"
import {
  chainFrom,
  grouped,
  type NodeReason,
  type ReasonGroup,
  type ReasonKind,
  reasonOf,
  sinceOf,
  untilOf,
} from "./reasons.ts"
import { type ExecutionFacts, type RouteReason, routeReasons } from "./routes.ts"
import { type GroupFacts, groupText, type OperationFacts, type SlotFacts } from "./text.ts"
import { type WaitPage, type WaitsRequest, waitPage } from "./waits.ts"

export type { WaitGroup, WaitPage, WaitsRequest } from "./waits.ts"

/** The owner of the job's partition has so long to answer. */
const ANSWER_MS = 1000
/** A second look before the engine is said to have lost a task: facts and overlay are of two moments. */
const SECOND_LOOK_MS = 200
const MANY_NODES = 20
const MANY_HOLDERS = 5
const MAX_DEPTH = 10
/** Child jobs of one job whose own reasons are read. */
const MANY_CHILDREN = 3
const EVENTS = 200

/** How long nodes like this usually wait before they run, in ms. */
export interface UsualWait {
  readonly count: number
  readonly p50: number
  readonly p90: number
  readonly p99: number
}

/** Nodes with the same reason. */
export interface WhyReason {
  readonly kind: ReasonKind
  /** How many nodes. */
  readonly count: number
  /** The first of them. */
  readonly nodes: readonly string[]
  readonly sentence: string
  /** What would help; null: nothing, or nothing is needed. */
  readonly action: string | null
  /** Since when the first of them waits; null: not known. */
  readonly since: string | null
  /** When the first wait ends by itself; null: it does not, or this is not known. */
  readonly until: string | null
  /** The fields of `waiting_on` of the first node, and what the store knows besides. */
  readonly details: JsonObject
  /** How long nodes like the first one usually wait; null: no data. */
  readonly usual: UsualWait | null
  /** Of the child job that the first node waits for. */
  readonly child?: WhyView
}

/** One step from an effect to its cause. */
export interface WhyCause {
  readonly job_id: string
  readonly node: string
  readonly kind: ReasonKind
  readonly sentence: string
}

export interface WhyView {
  readonly job_id: string
  readonly status: string
  /** The moment of this answer. */
  readonly at: string
  readonly sentence: string
  readonly action: string | null
  /** Most nodes first; nodes that only wait for others, and running ones, come last. Empty: the job has ended. */
  readonly reasons: readonly WhyReason[]
  /** From the node that was asked about, or the first that waits, to its cause. */
  readonly chain: readonly WhyCause[]
  /** For a pipeline: routes that have messages. null: not recorded for this moment. */
  readonly routes?: readonly RouteReason[] | null
  /** What is not recorded for a past moment. */
  readonly unknown: readonly string[]
}

export interface WhyQuery {
  readonly node?: string | undefined
  /** Absent: now. */
  readonly at?: Moment | undefined
}

export interface WhyParts extends Pick<LoadParts, "journal" | "plans"> {
  readonly queries: Queries
  now(): number
  /** How many slots a provider has; null: not known here, or no limit. */
  slotLimit?(provider: string): number | null
  /** The engine knows no reason for these nodes. */
  defect?(jobId: string, nodes: readonly string[]): void
}

interface Shown {
  readonly row: JobRow
  readonly graph: GraphView
  readonly at: number
  readonly past: boolean
  /** Absent: for a past moment. */
  readonly usualOf?: UsualOf
}

/** By node: how long nodes of the workflow usually wait. */
type UsualOf = (row: JobRow) => Promise<ReadonlyMap<string, UsualWait>>

const notRecorded = [
  "which handlers ran for less than a second",
  "positions in queues for workers and slots",
  "rates of providers",
]

export class Why {
  readonly #parts: WhyParts

  constructor(parts: WhyParts) {
    this.#parts = parts
  }

  why(jobId: string, { node, at }: WhyQuery = {}): Promise<WhyView> {
    return at === undefined ? this.#now(jobId, node, 0) : this.#past(jobId, node, at)
  }

  /** Why unfinished jobs do not go on, by cause. Child jobs are jobs of their own here. */
  waits(request: WaitsRequest): Promise<WaitPage> {
    const known = new Map<string, ReturnType<UsualOf>>()
    const usualOf: UsualOf = row => {
      const key = JSON.stringify([row.owner, row.workflow])
      const found = known.get(key) ?? this.#usual(row)
      known.set(key, found)
      return found
    }
    const why = (id: string) => this.#now(id, undefined, MAX_DEPTH, usualOf).catch(notFound)
    return waitPage({ ...this.#parts, why }, request)
  }

  async #now(
    jobId: string,
    node: string | undefined,
    depth: number,
    usualOf: UsualOf = row => this.#usual(row),
  ): Promise<WhyView> {
    const { queries, now, defect } = this.#parts
    let row = await queries.row(jobId)
    let graph = await this.#graph(jobId)
    let lost = lostNodes(row, graph)
    if (lost.length > 0) {
      await new Promise(resolve => setTimeout(resolve, SECOND_LOOK_MS))
      row = await queries.row(jobId)
      graph = await this.#graph(jobId)
      const again = new Set(lostNodes(row, graph))
      lost = lost.filter(id => again.has(id))
      if (lost.length > 0) defect?.(jobId, lost)
    }
    const shown = { row, graph, at: graph.live?.at ?? now(), past: false, usualOf }
    const view = await this.#view(shown, node, depth)
    if (graph.routes === undefined || jobHasEnded(graph.status)) return view
    const { pipeline } = await this.#parts.plans.get(row.owner, row.workflow, row.workflowVersion)
    if (pipeline === null) return view
    const execution = await this.#execution(jobId, graph, view)
    return withRoutes(view, routeReasons(pipeline, graph.routes, execution))
  }

  async #execution(jobId: string, graph: GraphView, view: WhyView): Promise<ExecutionFacts> {
    const stored = await this.#parts.journal.pipelines.readExecution(jobId)
    const routes = stored?.progress == null ? [] : decodeProgress(stored.progress).routes
    return { unsettled: routes.map(unsettled), stopped: stoppedBy(graph, view) }
  }

  async #graph(jobId: string): Promise<GraphView> {
    return withLive(await this.#parts.queries.graph(jobId, ANSWER_MS))
  }

  async #past(jobId: string, node: string | undefined, moment: Moment): Promise<WhyView> {
    const { queries } = this.#parts
    const row = await queries.row(jobId)
    const { moment: place, routes, ...graph } = await queries.facts.graphAt(jobId, moment)
    const at = (place as Place).at
    const view = await this.#view({ row, graph, at, past: true }, node, MAX_DEPTH)
    return { ...view, ...(routes === undefined ? {} : { routes: null }), unknown: notRecorded }
  }

  async #view(shown: Shown, only: string | undefined, depth: number): Promise<WhyView> {
    const { row, graph, at } = shown
    const byId = new Map(graph.nodes.map(node => [node.id, node]))
    if (only !== undefined && !byId.has(only))
      throw new UmbraError("E310", `Job ${row.id} has no node "${only}". Its graph lists its nodes.`)
    const head = { job_id: row.id, status: graph.status, at: isoTime(at), unknown: [] }
    const reasons = graph.nodes.flatMap(node => explained(node, shown) ?? [])
    const asked = only === undefined ? reasons : reasons.filter(({ node }) => node.id === only)
    if (asked.length === 0) {
      const sentence = endedText(row, graph, only === undefined ? undefined : byId.get(only))
      return { ...head, sentence, action: null, reasons: [], chain: [] }
    }
    const waiting = reasons.filter(({ kind }) => kind !== "dependency" && kind !== "running").length
    const usual = await shown.usualOf?.(row)
    const groups = await Promise.all(
      grouped(asked).map(group => this.#reason(group, shown, { waiting, usual, depth })),
    )
    const first = groups[0]!
    const start = byId.get(only ?? first.nodes[0]!)!
    const causes = this.#chain(chainFrom(start, byId), reasons, shown)
    const last = causes.at(-1)
    const ofChild = groups.find(({ child }) => child !== undefined)?.child?.chain ?? []
    const chain = [...causes.map(({ action: _, ...cause }) => cause), ...ofChild]
    // A node that waits for others is explained by the last of the chain.
    if (first.kind !== "dependency" || last === undefined || causes.length < 2)
      return { ...head, sentence: first.sentence, action: first.action, reasons: groups, chain }
    const sentence = `${first.sentence} The cause: ${last.sentence}`
    return { ...head, sentence, action: last.action, reasons: groups, chain }
  }

  async #reason(
    group: ReasonGroup,
    shown: Shown,
    context: {
      readonly waiting: number
      readonly usual: ReadonlyMap<string, UsualWait> | undefined
      readonly depth: number
    },
  ): Promise<WhyReason> {
    const { row, past } = shown
    const child = past ? undefined : await this.#child(group, context.depth)
    const facts: GroupFacts = {
      ...(past ? {} : await this.#storeFacts(group, row)),
      ...(child === undefined ? {} : { child: child.sentence }),
      ...(group.kind === "quarantined" ? { error: readEnd(row).error?.message ?? "" } : {}),
    }
    const said = groupText(group, facts, { job: row, waiting: context.waiting, past })
    const first = group.nodes[0]!
    return {
      kind: group.kind,
      count: group.nodes.length,
      nodes: group.nodes.slice(0, MANY_NODES).map(({ id }) => id),
      ...said,
      ...(child === undefined || child.action === null ? {} : { action: child.action }),
      since: earliest(group.nodes.map(sinceOf)),
      until: earliest(group.nodes.map(untilOf)),
      details: details(first, facts),
      usual: context.usual?.get(first.id) ?? null,
      ...(child === undefined ? {} : { child }),
    }
  }

  /** How long the nodes of the workflow usually wait before they run. */
  async #usual(row: JobRow): Promise<ReadonlyMap<string, UsualWait>> {
    const nodes = await recentNodes(this.#parts, row)
    return new Map(
      nodes.flatMap(({ node, count, queued_ms }) =>
        queued_ms === null ? [] : [[node, { count, ...queued_ms }]],
      ),
    )
  }

  /** The reasons of the first child that does not go on. */
  async #child({ kind, nodes }: ReasonGroup, depth: number): Promise<WhyView | undefined> {
    if (kind !== "child" || depth >= MAX_DEPTH) return undefined
    for (const { waiting_on } of nodes.slice(0, MANY_CHILDREN)) {
      if (waiting_on?.kind !== "child") continue
      const found = await this.#now(waiting_on.job_id, undefined, depth + 1).catch(notFound)
      if (found !== null) return found
    }
    return undefined
  }

  async #storeFacts({ kind, subject, nodes }: ReasonGroup, row: JobRow): Promise<GroupFacts> {
    if (kind === "slot") return { slots: await this.#slots(subject, row.owner, nodes) }
    const [first] = nodes
    if (kind !== "provider" || first?.waiting_on?.kind !== "external") return {}
    return { operation: await this.#operation(subject, first.waiting_on.external_id) }
  }

  /** Jobs of other owners are only counted. */
  async #slots(provider: string, owner: string, nodes: readonly NodeView[]): Promise<SlotFacts> {
    const { journal, now, slotLimit } = this.#parts
    const { held, waiting } = await journal.providers.overview({ provider, at: now() })
    const own = new Map<string, { slots: number; since: number }>()
    for (const slot of held) {
      if (slot.owner !== owner) continue
      const known = own.get(slot.jobId) ?? { slots: 0, since: slot.grantedAt }
      own.set(slot.jobId, { slots: known.slots + 1, since: Math.min(known.since, slot.grantedAt) })
    }
    const holders = [...own].map(([job_id, each]) => ({ job_id, ...each })).sort((a, b) => b.slots - a.slots)
    const wait = nodes[0]?.waiting_on
    const position = wait?.kind === "slot" ? wait.position : null
    return {
      held: held.length,
      limit: slotLimit?.(provider) ?? null,
      waiting,
      holders: holders.slice(0, MANY_HOLDERS),
      other_owners: held.filter(slot => slot.owner !== owner).length,
      expected_ms:
        position === null
          ? null
          : expectedWait(
              held.map(({ grantedAt }) => grantedAt),
              position,
            ),
    }
  }

  async #operation(provider: string, externalId: string): Promise<OperationFacts> {
    const events = await this.#parts.journal.providers.listEvents({ provider, limit: EVENTS })
    const found = events.find(event => event.externalId === externalId)
    return { webhook_at: found?.receivedAt ?? null, is_known: found !== undefined || events.length < EVENTS }
  }

  #chain(
    nodes: readonly NodeView[],
    reasons: readonly NodeReason[],
    { row, past }: Shown,
  ): (WhyCause & { readonly action: string | null })[] {
    const byNode = new Map(reasons.map(reason => [reason.node, reason]))
    return nodes.flatMap(node => {
      const reason = byNode.get(node)
      if (reason === undefined) return []
      const { kind, subject } = reason
      const said = groupText({ kind, subject, nodes: [node] }, {}, { job: row, waiting: 1, past })
      return [{ job_id: row.id, node: node.id, kind, ...said }]
    })
  }
}

/** Why no message of an execution goes on; null: a live process runs it. A graph of routes has one node. */
function stoppedBy(graph: GraphView, { reasons, action }: WhyView): ExecutionFacts["stopped"] {
  if (graph.live?.engine === "store_away") return { kind: "store_away", action: "Check the database." }
  const kind = reasons[0]?.kind ?? "running"
  return kind === "running" ? null : { kind, action }
}

/** The reason of a node, with what the graph alone cannot tell. */
function explained(node: NodeView, { row, graph, at, past }: Shown): NodeReason | null {
  const reason = reasonOf(node)
  if (reason === null || past) return reason
  const { kind } = reason
  if (kind === "dependency" || kind === "owner_away") return reason
  const { live } = graph
  // A recorded start is no proof that it runs: the overlay would list it.
  const isRun = kind === "running" && live?.nodes.some(({ id }) => id === node.id) === true
  if (isRun) return reason
  if (live?.engine === "store_away") return { ...reason, kind: "store_away" }
  const isDue = kind === "start_time" && untilOf(node)! <= at
  const isReady = kind === "worker" || kind === "running" || isDue
  if (isReady && (live === null || live === undefined)) return { ...reason, kind: "owner_away" }
  if (isReady && live?.engine === "starting") return { ...reason, kind: "starting" }
  // Neither timers nor results of the job are processed.
  if (row.wakeAt === QUARANTINED_AT && live?.engine !== "starting") return { ...reason, kind: "quarantined" }
  if (kind !== "worker") return reason
  // Its result, which the facts do not show yet.
  if (live?.storing === true) return { ...reason, kind: "dispatching" }
  // The overlay lists a bounded number of tasks.
  const isCut = live?.nodes.some(({ waiting_on }) => waiting_on?.kind === "worker")
  return isCut ? reason : { ...reason, kind: "unexplained" }
}

function lostNodes(row: JobRow, graph: GraphView): string[] {
  if (jobHasEnded(graph.status)) return []
  const shown = { row, graph, at: 0, past: false }
  const found = graph.nodes.map(node => explained(node, shown)).filter(reason => reason !== null)
  return found.filter(({ kind }) => kind === "unexplained").map(({ node }) => node.id)
}

function endedText(row: JobRow, graph: GraphView, node: NodeView | undefined): string {
  if (node !== undefined) return `Node ${node.id} has ended: ${node.status}.`
  if (jobHasEnded(graph.status)) return `The job has ended: ${graph.status}.`
  return jobIsPaused(row) ? "The job is paused, and none of its nodes waits." : "No node of the job waits."
}

function withRoutes(view: WhyView, routes: readonly RouteReason[]): WhyView {
  const stuck = routes.find(({ kind }) => kind === "breaker" || kind === "backpressure")
  if (stuck === undefined || view.reasons[0]?.kind !== "running") return { ...view, routes }
  return { ...view, sentence: stuck.sentence, action: stuck.action, routes }
}

/** The time between two grants, as the slots that are held tell, for each place before. */
function expectedWait(granted: readonly number[], position: number): number | null {
  if (granted.length < 2) return null
  const sorted = [...granted].sort((a, b) => a - b)
  return Math.round(((sorted.at(-1)! - sorted[0]!) / (sorted.length - 1)) * position)
}

function earliest(times: readonly (number | null)[]): string | null {
  const known = times.filter(time => time !== null)
  return known.length === 0 ? null : isoTime(known.reduce((a, b) => Math.min(a, b)))
}

function details({ waiting_on }: NodeView, { slots, operation }: GroupFacts): JsonObject {
  const { kind: _, ...wait } = waiting_on === null ? { kind: null } : isoWaiting(waiting_on)
  const since = slots?.holders.map(holder => ({ ...holder, since: isoTime(holder.since) }))
  return {
    ...wait,
    ...(slots === undefined ? {} : { ...slots, holders: since }),
    ...(operation === undefined
      ? {}
      : { webhook_at: operation.webhook_at === null ? null : isoTime(operation.webhook_at) }),
  } as unknown as JsonObject
}

/** A child that was removed meanwhile. */
function notFound(error: unknown): null {
  if (error instanceof UmbraError && error.code === "E301") return null
  throw error
}
