/**
 * `GET /jobs/{job}/why`: why a job makes no progress, in one sentence, the chain of causes, and what would help. The answer
 * is computed from the job's graph and its live overlay, which the owner of its partition provides.
 */
import type { JsonObject } from "../../core/json.ts"
import { valueIn } from "../../core/maps.ts"
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
import { nextTurnIfLate } from "../../turns.ts"
import type { Moment, Place } from "../history.ts"
import { isoWaiting } from "../iso-times.ts"
import type { Queries } from "../queries.ts"
import type { NodeStatistics } from "../statistics.ts"
import {
  chainFrom,
  grouped,
  type NodeReason,
  type ReasonGroup,
  type ReasonKind,
  type UsualWait,
  usualWait,
  waitEnd,
  waitReason,
  waitStart,
} from "./reasons.ts"
import { type ExecutionFacts, type RouteReason, routeReasons } from "./routes.ts"
import {
  type GroupFacts,
  groupText,
  type OperationFacts,
  pauseText,
  type SlotFacts,
  withPause,
} from "./text.ts"
import { type WaitPage, type WaitsRequest, waitPage } from "./waits.ts"

export type { WaitGroup, WaitPage, WaitsRequest } from "./waits.ts"

/** The time limit for the answer of the partition's owner. */
const ANSWER_MS = 1000
/** The reason is computed a second time before a task is reported as lost: facts and overlay are of different moments. */
const SECOND_LOOK_MS = 200
const MANY_NODES = 20
const MANY_HOLDERS = 5
const MAX_DEPTH = 10
/** Child jobs of one job whose own reasons are read. */
const MANY_CHILDREN = 3
/** Items further back are only counted. */
const MANY_ITEMS = 1000
const EVENTS = 200
/** Clocks of processes differ. */
const CLOCKS_MS = 60_000

/** Nodes with the same reason. */
export interface WhyReason {
  readonly kind: ReasonKind
  /** How many nodes. 0: the job is paused, and none of its nodes is held yet. */
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
  /** What its wait is compared with: how long nodes like the first one usually wait for this; null: no data. */
  readonly usual: UsualWait | null
  /** Of the child job that the first node waits for. */
  readonly child?: WhyView
  /** Only of `waits`: the first of them is this item of its node. */
  readonly item?: number
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
  /** From the requested node, or the first one that waits, to its cause. */
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
  /** The time at which child jobs are explained. Absent: `at`. */
  readonly childrenAt?: number
  /** No live engine owns the job. */
  readonly isAway?: boolean
  /** Absent: for a past moment. */
  readonly findUsual?: FindUsual
  /** Items of `for_each` that wait have reasons of their own. */
  readonly byItem?: boolean
}

/** An item of `for_each` in the form of a node. */
type ItemNode = NodeView & { readonly index?: number }

/** By node: how long nodes of the workflow usually wait and run. */
type Usual = ReadonlyMap<string, NodeStatistics>
type FindUsual = (row: JobRow) => Promise<Usual>

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
    return at === undefined ? this.#now(jobId, node, 0) : this.#past(jobId, node, at, 0)
  }

  /** Why unfinished jobs make no progress, by cause. Child jobs are jobs of their own here. */
  waits(request: WaitsRequest): Promise<WaitPage> {
    const known = new Map<string, ReturnType<FindUsual>>()
    const findUsual: FindUsual = row =>
      valueIn(known, JSON.stringify([row.owner, row.workflow]), () => this.#usual(row))
    const why = (id: string) =>
      this.#now(id, undefined, MAX_DEPTH, { findUsual, byItem: true }).catch(notFound)
    return waitPage({ ...this.#parts, why }, request)
  }

  async #now(
    jobId: string,
    node: string | undefined,
    depth: number,
    { findUsual = row => this.#usual(row), byItem = false }: Pick<Shown, "findUsual" | "byItem"> = {},
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
    // A delayed job has no tasks yet, so its overlay does not show that no engine runs.
    const isAway = graph.nodes.some(({ waiting_on }) => waiting_on?.kind === "start_time")
      ? await queries.isAway(jobId)
      : false
    const shown = { row, graph, at: graph.live?.at ?? now(), past: false, isAway, findUsual, byItem }
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

  async #past(jobId: string, node: string | undefined, moment: Moment, depth: number): Promise<WhyView> {
    const { queries } = this.#parts
    const row = await queries.row(jobId)
    const { moment: place, routes, ...graph } = await queries.facts.graphAt(jobId, moment)
    const at = (place as Place).at
    const childrenAt = "time" in moment ? moment.time : at
    const view = await this.#view({ row, graph, at, past: true, childrenAt }, node, depth)
    return { ...view, ...(routes === undefined ? {} : { routes: null }), unknown: notRecorded }
  }

  async #view(shown: Shown, only: string | undefined, depth: number): Promise<WhyView> {
    const { row, graph, at } = shown
    const byId = new Map(graph.nodes.map(node => [node.id, node]))
    if (only !== undefined && !byId.has(only))
      throw new UmbraError("E310", `Job ${row.id} has no node "${only}". Its graph lists its nodes.`)
    const head = { job_id: row.id, status: graph.status, at: isoTime(at), unknown: [] }
    const ofNodes = graph.nodes.flatMap(node => explained(node, shown) ?? [])
    const reasons = shown.byItem ? await this.#ofItems(ofNodes, row.id) : ofNodes
    const asked = only === undefined ? reasons : reasons.filter(({ node }) => node.id === only)
    if (asked.length === 0) {
      const sentence = endedText(row, graph, only === undefined ? undefined : byId.get(only))
      return { ...head, sentence, action: null, reasons: [], chain: [] }
    }
    const waiting = reasons.filter(({ kind }) => kind !== "dependency" && kind !== "running").length
    const usual = await shown.findUsual?.(row)
    // Jobs of one workflow wait for the same statistics, and would continue together.
    await nextTurnIfLate()
    const groups = await Promise.all(
      grouped(asked).map(group => this.#reason(group, shown, { waiting, usual, depth })),
    )
    const first = groups[0]!
    const start = byId.get(only ?? first.nodes[0]!)!
    const nodes = chainFrom(start, byId)
    const causes = this.#chain(nodes, reasons, shown)
    // A node that waits for others is explained by the last of the chain.
    const end = reasons.find(({ node }) => node === nodes.at(-1))
    const cause =
      end === undefined || first.kind !== "dependency" || causes.length < 2
        ? first
        : await this.#reason({ ...end, nodes: [end.node] }, shown, { waiting: 1, usual, depth })
    const isOfChild = end?.kind === "child" && cause.child?.job_id === awaitedChild(end.node)
    const chain = [...causes, ...(isOfChild ? cause.child!.chain : [])]
    const said =
      cause === first ? first : { ...cause, sentence: `${first.sentence} The cause: ${cause.sentence}` }
    const { sentence, action } = said
    const pause = pauseOfOthers(shown, reasons)
    if (pause === null) return { ...head, sentence, action, reasons: groups, chain }
    return { ...head, ...withPause(said, pause), reasons: [...groups, pause], chain }
  }

  /** With the reasons of items that wait, instead of a list that only has their number. */
  async #ofItems(reasons: readonly NodeReason[], jobId: string): Promise<NodeReason[]> {
    const found = reasons.map(async reason => {
      const { node, kind } = reason
      if (kind !== "items" && (node.items?.waiting ?? 0) === 0) return [reason]
      const { items } = await this.#parts.queries.items(jobId, node.id, { limit: MANY_ITEMS })
      const waiting = items.flatMap(({ index, item: _, ...task }) =>
        task.status === "WAITING" || kind === "items"
          ? (waitReason({ id: node.id, handler: node.handler, incoming: 0, ...task, index } as ItemNode) ??
            [])
          : [],
      )
      const told = waiting.filter(({ node: { waiting_on } }) => waiting_on !== null)
      return kind === "items" && told.length > 0 ? told : [reason, ...told]
    })
    return (await Promise.all(found)).flat()
  }

  async #reason(
    group: ReasonGroup,
    shown: Shown,
    context: {
      readonly waiting: number
      readonly usual: Usual | undefined
      readonly depth: number
    },
  ): Promise<WhyReason> {
    const { row, past } = shown
    const child = await this.#child(group, shown, context.depth)
    const facts: GroupFacts = {
      ...(past ? {} : await this.#storeFacts(group, row)),
      child: child?.sentence,
      error: group.kind === "quarantined" ? (readEnd(row).error?.message ?? "") : undefined,
    }
    const said = groupText(group, facts, { job: row, waiting: context.waiting, past })
    const first = group.nodes[0]!
    const known = context.usual?.get(first.id)
    return {
      kind: group.kind,
      count: group.nodes.length,
      nodes: group.nodes.slice(0, MANY_NODES).map(({ id }) => id),
      ...said,
      action: child?.action ?? said.action,
      since: earliest(group.nodes.map(waitStart)),
      until: earliest(group.nodes.map(waitEnd)),
      details: details(first, facts),
      usual: known === undefined ? null : usualWait(group.kind, known),
      ...(child === undefined ? {} : { child }),
      ...((first as ItemNode).index === undefined ? {} : { item: (first as ItemNode).index }),
    }
  }

  async #usual(row: JobRow): Promise<Usual> {
    const nodes = await this.#parts.queries.statistics.recentNodes(row)
    return new Map(nodes.map(each => [each.node, each]))
  }

  /** The reasons of the first child that makes no progress, or made none at that time. */
  async #child(
    { kind, nodes }: ReasonGroup,
    { past, at, childrenAt = at }: Shown,
    depth: number,
  ): Promise<WhyView | undefined> {
    if (kind !== "child" || depth >= MAX_DEPTH) return undefined
    for (const { waiting_on } of nodes.slice(0, MANY_CHILDREN)) {
      if (waiting_on?.kind !== "child") continue
      const { job_id } = waiting_on
      const answer = past
        ? this.#past(job_id, undefined, { time: childrenAt }, depth + 1)
        : this.#now(job_id, undefined, depth + 1)
      const found = await answer.catch(notFound)
      if (found !== null) return found
    }
    return undefined
  }

  async #storeFacts({ kind, subject, nodes }: ReasonGroup, row: JobRow): Promise<GroupFacts> {
    if (kind === "slot") return { slots: await this.#slots(subject, row.owner, nodes) }
    const [first] = nodes
    if (kind !== "provider" || first?.waiting_on?.kind !== "external") return {}
    return { operation: await this.#operation(subject, first.waiting_on.external_id, row) }
  }

  /** Jobs of other owners are only counted. */
  async #slots(provider: string, owner: string, nodes: readonly NodeView[]): Promise<SlotFacts> {
    const { journal, now, slotLimit } = this.#parts
    const at = now()
    const { held, waiting } = await journal.providers.overview({ provider, at })
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
      expected_ms: position === null ? null : expectedWait(held, { position, at }),
    }
  }

  /** Searches the latest webhooks of the provider. Earlier ones are unknown, except that none is older than the job. */
  async #operation(provider: string, externalId: string, { createdAt }: JobRow): Promise<OperationFacts> {
    const events = await this.#parts.journal.providers.listEvents({ provider, limit: EVENTS })
    const found = events.find(event => event.externalId === externalId)
    if (found !== undefined) return { webhook_seen: true, webhook_at: found.receivedAt }
    const last = events.at(EVENTS - 1)
    const isKnown = last === undefined || last.receivedAt < createdAt - CLOCKS_MS
    return { webhook_seen: isKnown ? false : null, webhook_at: null }
  }

  #chain(nodes: readonly NodeView[], reasons: readonly NodeReason[], { row, past }: Shown): WhyCause[] {
    const byNode = new Map(reasons.map(reason => [reason.node, reason]))
    return nodes.flatMap(node => {
      const reason = byNode.get(node)
      if (reason === undefined) return []
      const { kind, subject } = reason
      const { sentence } = groupText({ kind, subject, nodes: [node] }, {}, { job: row, waiting: 1, past })
      return [{ job_id: row.id, node: node.id, kind, sentence }]
    })
  }
}

function awaitedChild({ waiting_on }: NodeView): string | undefined {
  return waiting_on?.kind === "child" ? waiting_on.job_id : undefined
}

/** The pause of a job none of whose nodes is held yet: they run, or wait for something else. null: there is none. */
function pauseOfOthers({ row, graph, past }: Shown, reasons: readonly NodeReason[]): WhyReason | null {
  const { paused } = graph
  if (paused === undefined || reasons.some(({ kind }) => kind === "paused")) return null
  return {
    ...{ kind: "paused", count: 0, nodes: [] },
    ...pauseText(paused, { job: row, past }),
    ...{ since: isoTime(paused.at), until: null, usual: null },
    details: { ...paused, at: isoTime(paused.at) } as unknown as JsonObject,
  }
}

/** Why no message of an execution is processed; null: a live process runs it. A graph of routes has one node. */
function stoppedBy(graph: GraphView, { reasons, action }: WhyView): ExecutionFacts["stopped"] {
  if (graph.live?.engine === "store_away") return { kind: "store_away", action: "Check the database." }
  const kind = reasons[0]?.kind ?? "running"
  return kind === "running" ? null : { kind, action }
}

/** The reason of a node, with what the graph alone does not contain. */
function explained(node: NodeView, { row, graph, at, past, isAway = false }: Shown): NodeReason | null {
  const reason = waitReason(node)
  if (reason === null || past) return reason
  const { kind } = reason
  if (kind === "dependency" || kind === "owner_away") return reason
  const { live } = graph
  // A recorded start does not prove that the handler runs: the overlay would list it.
  const isRun = kind === "running" && live?.nodes.some(({ id }) => id === node.id) === true
  if (isRun) return reason
  if (live?.engine === "store_away") return { ...reason, kind: "store_away" }
  const isDue = kind === "start_time" && waitEnd(node)! <= at
  const isReady = kind === "worker" || kind === "running" || isDue
  if (isReady && (live === null || live === undefined || (isDue && isAway)))
    return { ...reason, kind: "owner_away" }
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

/**
 * As many slots as are held were granted since the oldest of them: that pace, for each place up to its own. Where none has been
 * released for long, all of that time counts.
 */
function expectedWait(
  held: readonly { readonly grantedAt: number }[],
  { position, at }: { readonly position: number; readonly at: number },
): number | null {
  if (held.length === 0) return null
  const oldest = held.reduce((first, { grantedAt }) => Math.min(first, grantedAt), at)
  return Math.round(((at - oldest) / held.length) * position)
}

function earliest(times: readonly (number | null)[]): string | null {
  const known = times.filter(time => time !== null)
  return known.length === 0 ? null : isoTime(known.reduce((a, b) => Math.min(a, b)))
}

function details(node: NodeView, { slots, operation }: GroupFacts): JsonObject {
  const { waiting_on, attempt, max_attempts, error } = node
  const { kind, ...wait } = waiting_on === null ? { kind: null } : isoWaiting(waiting_on)
  const since = slots?.holders.map(holder => ({ ...holder, since: isoTime(holder.since) }))
  return {
    ...wait,
    ...(kind === "retry" ? { attempt, max_attempts, error } : {}),
    ...(slots === undefined ? {} : { ...slots, holders: since }),
    ...(operation === undefined
      ? {}
      : { ...operation, webhook_at: operation.webhook_at === null ? null : isoTime(operation.webhook_at) }),
  } as unknown as JsonObject
}

/** A child that was removed meanwhile, or that had no fact yet. */
function notFound(error: unknown): null {
  if (error instanceof UmbraError && (error.code === "E301" || error.code === "E313")) return null
  throw error
}
