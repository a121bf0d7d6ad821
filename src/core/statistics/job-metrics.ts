import { begunAttempts, lostAttempts, readyAt } from "../attempt-times.ts"
import { CANCELLED, COMPLETED, FAILED, isDone, type JobState, type Usage } from "../state.ts"
import type { JobStatus } from "../states.ts"
import { addNode, newTotals, type Totals } from "./totals.ts"

/**
 * What the statistics count of a job that has ended.
 *
 * 1. Every end of a job is counted once: a job that is retried and ends again counts twice. The second time only what
 *    happened since the retry counts: nodes that were done before, attempts and usage are not counted again.
 * 2. A node counts if it ended COMPLETED or FAILED by itself; one that was skipped, or failed because of another node, does
 *    not. Of one that was cancelled, attempts and usage count.
 */
export interface JobMetrics {
  readonly status: JobStatus
  /** The code of its error; null: it has none. */
  readonly code: string | null
  /** From its submission, its start time if it was delayed, or its retry, to its end. */
  readonly durationMs: number
  /** Until its first handler began; null: none did. */
  readonly queuedMs: number | null
  readonly usage: Usage | null
  /** How often it was retried before. */
  readonly retries: number
  /**
   * Nodes that completed with their first attempt and without usage, as one flat list: id, `durationMs` and `queuedMs` of
   * each. Most nodes are plain, and one object for each of them shows in profiles.
   */
  readonly plain: readonly (string | number | null)[]
  /** All others. */
  readonly nodes: readonly NodeMetrics[]
  /** The nodes after the first `MAX_NODES`; null: none. */
  readonly rest: Totals | null
}

export interface NodeMetrics {
  readonly node: string
  readonly outcome: "completed" | "failed" | "cancelled"
  readonly code: string | null
  /** From when its last attempt began until it ended, waits included; null: not known. For a list: since it was ready. */
  readonly durationMs: number | null
  /** From when its last attempt was ready until its handler began; null: not known. */
  readonly queuedMs: number | null
  readonly attempts: number
  readonly losses: number
  readonly usage: Usage | null
}

/** What was counted, or will never be, when a job was retried. */
export interface CountedBefore {
  readonly retries: number
  readonly retriedAt: number
  readonly usage: ReadonlyMap<string, number>
  readonly nodes: ReadonlyMap<number, CountedNode>
}

interface CountedNode {
  readonly isDone: boolean
  readonly attempts: number
  readonly losses: number
  readonly usage: Usage | null
}

/** Nodes of one job that are counted apart. */
const MAX_NODES = 1000
/** With more nodes the row of a job has only the metrics of the job, because it would double. A new owner folds the job instead. */
const MAX_STORED_NODES = 32

/** Called before a retry of the job is applied. */
export function countedBefore(state: JobState, at: number): CountedBefore {
  const nodes = new Map<number, CountedNode>()
  for (let node = 0; node < state.nodeStatus.length; node++) {
    const { attempts, losses } = countAttempts(state, node)
    const usage = state.nodeUsage.get(node)
    if (isDone(state, node) || attempts > 0 || usage !== undefined)
      nodes.set(node, { isDone: isDone(state, node), attempts, losses, usage: usage ? { ...usage } : null })
  }
  return { retries: (state.counted?.retries ?? 0) + 1, retriedAt: at, usage: new Map(state.usage), nodes }
}

/** `state`: of a job that has just ended. */
export function jobMetrics(state: JobState): JobMetrics {
  const { counted } = state
  const begin = counted?.retriedAt ?? state.startAt ?? state.createdAt
  const plain: (string | number | null)[] = []
  const nodes: NodeMetrics[] = []
  let rest: Totals | null = null
  let firstStart = Number.POSITIVE_INFINITY
  const mayBePlain = isWithoutSpecialNodes(state)
  for (let node = 0; node < state.nodeStatus.length; node++) {
    if (mayBePlain && node < MAX_NODES && state.nodeStatus[node] === COMPLETED && state.tries[node] === 0) {
      const startedAt = state.startedAt[node]!
      if (startedAt > 0 && startedAt < firstStart) firstStart = startedAt
      plain.push(state.graph.nodes[node]!.id, measureDuration(state, node), measureQueueTime(state, node))
      continue
    }
    const metrics = nodeMetrics(state, node, counted?.nodes.get(node))
    if (metrics === null) continue
    firstStart = Math.min(firstStart, findStart(state, node))
    if (node < MAX_NODES) nodes.push(metrics)
    else {
      rest ??= newTotals()
      addNode(rest, metrics)
    }
  }
  return {
    status: state.endedAs ?? state.status,
    code: state.fault?.fault.code ?? null,
    durationMs: Math.max(0, state.finishedAt! - begin),
    queuedMs: firstStart === Number.POSITIVE_INFINITY ? null : Math.max(0, firstStart - begin),
    usage: state.usage.size === 0 ? null : jobUsage(state),
    retries: counted?.retries ?? 0,
    plain,
    nodes,
    rest,
  }
}

/** The job was not retried; no node has lost an attempt, was taken over, has items, or has reported usage. */
function isWithoutSpecialNodes({ counted, spentAttempts, lists, reused, nodeUsage }: JobState): boolean {
  if (counted !== null || spentAttempts.size > 0 || lists.size > 0) return false
  return reused.size === 0 && nodeUsage.size === 0
}

/** null: nothing of the node counts. */
function nodeMetrics(state: JobState, node: number, before: CountedNode | undefined): NodeMetrics | null {
  const status = state.nodeStatus[node]
  if (before?.isDone === true || isTakenOver(state, node)) return null
  const all = countAttempts(state, node)
  const attempts = all.attempts - (before?.attempts ?? 0)
  const isCompleted = status === COMPLETED
  const fault = status === FAILED ? state.faults.get(node) : undefined
  const hasFailed = status === FAILED && fault?.cause === undefined
  if (!isCompleted && !hasFailed && !(status === CANCELLED && attempts > 0)) return null
  const { losses } = all
  return {
    node: state.graph.nodes[node]!.id,
    outcome: isCompleted ? "completed" : hasFailed ? "failed" : "cancelled",
    code: hasFailed ? (fault?.fault.code ?? null) : null,
    durationMs: isCompleted ? measureDuration(state, node) : null,
    queuedMs: measureQueueTime(state, node),
    attempts,
    losses: losses - (before?.losses ?? 0),
    usage: usageSince(state.nodeUsage.get(node), before?.usage ?? null),
  }
}

/** In a fork: the node, or some of its items, did not run. */
function isTakenOver({ reused, lists }: JobState, node: number): boolean {
  return reused.has(node) || (lists.size > 0 && (lists.get(node)?.state.reused.size ?? 0) > 0)
}

/** Of a node with `for_each`: of all its items. */
function countAttempts(state: JobState, node: number): { attempts: number; losses: number } {
  const list = state.lists.size === 0 ? undefined : state.lists.get(node)?.state
  if (list === undefined) return { attempts: begunAttempts(state, node), losses: lostAttempts(state, node) }
  let [attempts, losses] = [0, 0]
  for (let item = 0; item < list.nodeStatus.length; item++) {
    attempts += begunAttempts(list, item)
    losses += lostAttempts(list, item)
  }
  return { attempts, losses }
}

function measureDuration(state: JobState, node: number): number | null {
  const waitingSince = state.waitingSince.size === 0 ? undefined : state.waitingSince.get(node)
  const isList = state.lists.size > 0 && state.lists.has(node)
  const begun = isList ? state.queuedAt[node]! : state.startedAt[node]!
  const since = begun || waitingSince
  return since === undefined ? null : Math.max(0, state.endedAt[node]! - since)
}

function measureQueueTime(state: JobState, node: number): number | null {
  const startedAt = state.startedAt[node]!
  return startedAt === 0 ? null : startedAt - Math.min(startedAt, readyAt(state, node))
}

function findStart(state: JobState, node: number): number {
  const list = state.lists.size === 0 ? undefined : state.lists.get(node)?.state
  let first = state.startedAt[node] || Number.POSITIVE_INFINITY
  if (list === undefined) return first
  for (const at of list.startedAt) if (at > 0 && at < first) first = at
  return first
}

function jobUsage({ usage, counted }: JobState): Usage | null {
  return usageSince(Object.fromEntries(usage), counted === null ? null : Object.fromEntries(counted.usage))
}

function usageSince(usage: Usage | undefined, before: Usage | null): Usage | null {
  if (usage === undefined) return null
  if (before === null) return { ...usage }
  const rest = Object.entries(usage).map(([key, sum]) => [key, sum - (before[key] ?? 0)] as const)
  const used = rest.filter(([, amount]) => amount !== 0)
  return used.length === 0 ? null : Object.fromEntries(used)
}

/** As in the column `stats` of a job. */
interface StoredMetrics {
  /** The seq of the fact that ended the job. */
  readonly e: number
  readonly s?: JobStatus
  readonly c?: string
  readonly d: number
  readonly q?: number
  readonly u?: Usage
  readonly r?: number
  /** `JobMetrics.plain`. */
  readonly p?: JobMetrics["plain"]
  readonly n?: readonly StoredNode[]
  /** Its nodes are left out. */
  readonly m?: true
}

/** `code`: 0 for a node that completed, 1 for one that was cancelled, else the code of its error, if it has one. */
type StoredNode = readonly [
  node: string,
  durationMs: number | null,
  queuedMs: number | null,
  attempts: number,
  losses: number,
  code: string | null | 0 | 1,
  usage?: Usage,
]

/** Without `JSON.stringify` for the usual job: it shows in profiles. */
export function encodeMetrics(metrics: JobMetrics, seq: number): string {
  const { status, code, durationMs, queuedMs, usage, retries, plain, nodes, rest } = metrics
  let text = `{"e":${seq},"d":${durationMs}`
  if (status !== "COMPLETED") text += `,"s":"${status}"`
  if (code !== null) text += `,"c":${JSON.stringify(code)}`
  if (queuedMs !== null) text += `,"q":${queuedMs}`
  if (usage !== null) text += `,"u":${JSON.stringify(usage)}`
  if (retries > 0) text += `,"r":${retries}`
  if (plain.length > 3 * MAX_STORED_NODES || nodes.length > MAX_STORED_NODES || rest !== null)
    return `${text},"m":true}`
  if (nodes.length > 0) text += `,"n":${JSON.stringify(nodes.map(storedNode))}`
  if (plain.length === 0) return `${text}}`
  // Ids of nodes need no escapes (`idPattern` of definitions).
  text += `,"p":["${plain[0]}",${plain[1]},${plain[2]}`
  for (let at = 3; at < plain.length; at += 3) text += `,"${plain[at]}",${plain[at + 1]},${plain[at + 2]}`
  return `${text}]}`
}

function storedNode(metrics: NodeMetrics): StoredNode {
  const { node, outcome, code, durationMs, queuedMs, attempts, losses, usage } = metrics
  const ending = outcome === "completed" ? 0 : outcome === "cancelled" ? 1 : code
  const stored = [node, durationMs, queuedMs, attempts, losses, ending] as const
  return usage === null ? stored : [...stored, usage]
}

/** Must the job be folded to count this end? It was retried, so the row has only its last end, or it has many nodes. */
export function needsFold(stats: string): boolean {
  return stats.includes('"r":') || stats.includes('"m":true')
}

/** `text`: one for which `needsFold` is false. */
export function decodeMetrics(text: string): { readonly seq: number; readonly metrics: JobMetrics } {
  const { e, s, c, d, q, u, r, p = [], n = [] } = JSON.parse(text) as StoredMetrics
  return {
    seq: e,
    metrics: {
      ...{ status: s ?? "COMPLETED", code: c ?? null, durationMs: d, queuedMs: q ?? null },
      ...{ usage: u ?? null, retries: r ?? 0, plain: p, nodes: n.map(decodeNode) },
      rest: null,
    },
  }
}

function decodeNode([node, durationMs, queuedMs, attempts, losses, ending, usage]: StoredNode) {
  return {
    ...{ node, durationMs, queuedMs, attempts, losses, usage: usage ?? null },
    outcome: ending === 0 ? "completed" : ending === 1 ? "cancelled" : "failed",
    code: ending === 1 || ending === 0 ? null : ending,
  } satisfies NodeMetrics
}
