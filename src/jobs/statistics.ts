/**
 * What the jobs of a workflow usually take, use and fail with. Everything is read from roll-ups by hour, never from jobs:
 * the work depends on the hours, nodes and engines, not on the number of jobs. "No data" is null, never 0.
 */
import { valueIn } from "../core/maps.ts"
import { criticalPath } from "../core/statistics/critical-path.ts"
import type { Histogram } from "../core/statistics/histogram.ts"
import {
  addStored,
  JOB,
  newTotals,
  OTHER_NODES,
  type Totals,
  type UsageTotals,
} from "../core/statistics/totals.ts"
import type { Plan } from "../definition/plan.ts"
import { isoTime } from "../engine/clock.ts"
import { readEnd } from "../engine/owner/job-result.ts"
import type { Plans } from "../engine/plans.ts"
import { noSuchWorkflow } from "../engine/versions.ts"
import { UmbraError } from "../errors.ts"
import { fingerprint, normalizedMessage } from "../journal/fingerprint.ts"
import type { JobRow, Journal } from "../journal/port/journal.ts"
import type { StoredTotals } from "../journal/port/statistics.ts"
import { inTurns, type Work } from "../turns.ts"
import { checkRange, namedFilter } from "./arguments.ts"

const HOUR_MS = 3_600_000
/** Without `from`. */
const DEFAULT_MS = 24 * HOUR_MS

export interface StatisticsRequest {
  readonly owner: string
  readonly workflow: string
  /** Absent: all versions. */
  readonly version?: number | undefined
  /** Milliseconds since 1970; whole hours are counted. Absent: 24 hours before `to`. */
  readonly from?: number | undefined
  /** Absent: now. */
  readonly to?: number | undefined
}

export interface Percentiles {
  readonly p50: number
  readonly p90: number
  readonly p95: number
  readonly p99: number
}

/** By kind of usage. */
export interface UsageStatistics {
  readonly [key: string]: UsageSummary
}

/** Percentiles are of those that completed and reported it, within 5 %; null: no data. */
export interface UsageSummary extends Readonly<Record<keyof Percentiles, number | null>> {
  readonly total: number
  /** Per job, or per run of the node, however it ended. */
  readonly mean: number
}

interface Statistics {
  readonly count: number
  readonly failed: number
  /** `failed` of `count`; null: nothing is counted. */
  readonly failure_rate: number | null
  /** Of those that completed, within 5 %. */
  readonly duration_ms: Percentiles | null
  readonly queued_ms: Percentiles | null
  readonly attempts: number
  readonly losses: number
  /** The most frequent first. */
  readonly errors: readonly { readonly code: string; readonly count: number }[]
  readonly usage: UsageStatistics | null
}

export interface JobStatistics extends Statistics {
  readonly cancelled: number
  readonly expired: number
}

export interface NodeStatistics extends Statistics {
  /** "*": the nodes of a job beyond the first 1,000, together. */
  readonly node: string
  /** Runs that were cancelled when their job ended. `count` does not include them; attempts and usage do. */
  readonly cancelled: number
}

export interface CriticalNode {
  readonly node: string
  /** The median; null: no data, counted as 0. */
  readonly duration_ms: number | null
  readonly queued_ms: number | null
}

export interface WorkflowStatistics {
  readonly workflow: string
  /** null: all versions. */
  readonly version: number | null
  /** The hours that are counted, by the ends of jobs. */
  readonly from: string
  readonly to: string
  readonly jobs: JobStatistics
  /** Nodes of the workflow in its order, then those of other versions. */
  readonly nodes: readonly NodeStatistics[]
  /** The slowest path through the graph of the version, or of the latest version with data, by the medians of its nodes. */
  readonly critical_path: readonly CriticalNode[]
}

export interface StatisticsParts {
  readonly journal: Journal
  readonly plans: Plans
  now(): number
}

/** The functions below, for one store. */
export class StatisticsQueries {
  readonly #parts: StatisticsParts
  /** By owner and workflow; the one that was used last is at the end. */
  readonly #recent = new Map<string, Recent>()

  constructor(parts: StatisticsParts) {
    this.#parts = parts
  }

  workflow(request: StatisticsRequest): Promise<WorkflowStatistics> {
    return workflowStatistics(this.#parts, request)
  }

  failures(request: FailuresRequest): Promise<FailurePage> {
    return failureGroups(this.#parts, request)
  }

  /**
   * The nodes of the workflow in the last week, of all versions together. A node without runs is left out. At most
   * `RECENT_MS` old, beyond the delay of statistics: every request for the reasons of a job reads them.
   */
  recentNodes({ owner, workflow }: WorkflowOf): Promise<readonly NodeStatistics[]> {
    const key = JSON.stringify([owner, workflow])
    const now = this.#parts.now()
    const known = this.#recent.get(key)
    this.#recent.delete(key)
    const recent =
      known !== undefined && known.until > now ? known : this.#readRecent(key, { owner, workflow }, now)
    this.#recent.set(key, recent)
    return recent.nodes
  }

  #readRecent(key: string, of: WorkflowOf, now: number): Recent {
    const recent: Recent = { until: now + RECENT_MS, size: 0, nodes: lastWeek(this.#parts, of) }
    const forget = () => {
      if (this.#recent.get(key) === recent) this.#recent.delete(key)
    }
    recent.nodes.then(nodes => {
      recent.size = nodes.length
      // Cheap to read again, and the first run of a node is known at once.
      if (nodes.length === 0) forget()
      this.#evict()
    }, forget)
    return recent
  }

  #evict(): void {
    let size = 0
    for (const recent of this.#recent.values()) size += recent.size
    for (const [oldest, recent] of this.#recent) {
      if (size <= MOST_RECENT) return
      this.#recent.delete(oldest)
      size -= recent.size
    }
  }
}

const RECENT_MS = 10_000
/** Nodes of all workflows that are kept in memory, about 1 KB each. */
const MOST_RECENT = 10_000

type WorkflowOf = Pick<StatisticsRequest, "owner" | "workflow">

interface Recent {
  readonly until: number
  /** 0: being read. */
  size: number
  readonly nodes: Promise<readonly NodeStatistics[]>
}

async function lastWeek(parts: StatisticsParts, of: WorkflowOf): Promise<readonly NodeStatistics[]> {
  const { owner, workflow } = of
  const from = parts.now() - 7 * 24 * HOUR_MS
  const found = await workflowStatistics(parts, { owner, workflow, from }).catch(error => {
    // The workflow was deleted, and has no data.
    if (error instanceof UmbraError && error.code === "E305") return { nodes: [] }
    throw error
  })
  return found.nodes
}

/** Throws E305 if there is neither such a workflow nor data of one. */
export async function workflowStatistics(
  { journal, plans, now }: StatisticsParts,
  request: StatisticsRequest,
): Promise<WorkflowStatistics> {
  const { owner, workflow, version } = request
  checkRange(request)
  const until = request.to ?? now()
  const to = Math.ceil(until / HOUR_MS) * HOUR_MS
  const from = Math.floor((request.from ?? until - DEFAULT_MS) / HOUR_MS) * HOUR_MS
  const rows = await journal.statistics.read({ owner, workflow, version, from, to })
  const { byNode, latest } = await inTurns(merged(rows))
  const shown = version ?? latest ?? (await journal.readWorkflow({ owner, name: workflow }))?.version
  if (shown === undefined) throw noSuchWorkflow(workflow)
  const plan = await plans.get(owner, workflow, shown)
  const nodes = orderNodes(plan, byNode).map(node => nodeStatistics(node, byNode.get(node)!))
  const job = byNode.get(JOB) ?? newTotals()
  return {
    ...{ workflow, version: version ?? null, from: isoTime(from), to: isoTime(to) },
    jobs: { ...statistics(job, job.count), cancelled: job.cancelled, expired: job.expired },
    nodes,
    critical_path: nodes.length === 0 ? [] : slowestPath(plan, nodes),
  }
}

function* merged(rows: readonly StoredTotals[]): Work<{ byNode: Map<string, Totals>; latest?: number }> {
  const byNode = new Map<string, Totals>()
  let latest: number | undefined
  for (const { version, node, data } of rows) {
    // 0: forks with a definition of their own.
    if (version > 0 && (latest === undefined || version > latest)) latest = version
    addStored(
      valueIn(byNode, node, () => newTotals()),
      data,
    )
    yield
  }
  return latest === undefined ? { byNode } : { byNode, latest }
}

function orderNodes({ nodes }: Plan, byNode: ReadonlyMap<string, Totals>): string[] {
  const known = nodes.map(({ id }) => id)
  const others = new Set(byNode.keys())
  for (const node of [...known, JOB, OTHER_NODES]) others.delete(node)
  return [...known, ...[...others].sort(), OTHER_NODES].filter(node => byNode.has(node))
}

function nodeStatistics(node: string, totals: Totals): NodeStatistics {
  const { count, cancelled } = totals
  return { node, ...statistics(totals, count + cancelled), cancelled }
}

/** `runs`: of which usage is counted. */
function statistics(totals: Totals, runs: number): Statistics {
  const { count, failed, attempts, losses, errors } = totals
  return {
    ...{ count, failed, failure_rate: count === 0 ? null : failed / count },
    duration_ms: percentiles(totals.duration),
    queued_ms: percentiles(totals.queued),
    ...{ attempts, losses },
    errors: [...errors]
      .map(([code, count]) => ({ code, count }))
      .sort((a, b) => b.count - a.count || (a.code < b.code ? -1 : 1)),
    usage: usageStatistics(totals, runs),
  }
}

function percentiles(histogram: Histogram): Percentiles | null {
  const found = histogram.quantiles([0.5, 0.9, 0.95, 0.99])
  return found === null ? null : { p50: found[0]!, p90: found[1]!, p95: found[2]!, p99: found[3]! }
}

function usageStatistics({ usage }: Totals, runs: number): UsageStatistics | null {
  if (usage.size === 0) return null
  const none = { p50: null, p90: null, p95: null, p99: null }
  const summary = ({ sum, histogram }: UsageTotals): UsageSummary => ({
    ...{ total: sum, mean: sum / Math.max(1, runs) },
    ...((histogram && percentiles(histogram)) ?? none),
  })
  return Object.fromEntries([...usage].map(([key, totals]) => [key, summary(totals)]))
}

function slowestPath(plan: Plan, nodes: readonly NodeStatistics[]): CriticalNode[] {
  const byId = new Map(nodes.map(node => [node.node, node]))
  const medians = plan.nodes.map(({ id }) => {
    const { duration_ms = null, queued_ms = null } = byId.get(id) ?? {}
    return { node: id, duration_ms: duration_ms?.p50 ?? null, queued_ms: queued_ms?.p50 ?? null }
  })
  const nodeTime = (node: number) => (medians[node]!.duration_ms ?? 0) + (medians[node]!.queued_ms ?? 0)
  return criticalPath(plan, nodeTime).map(node => medians[node]!)
}

/** Failed jobs are read in pages like those of lists, until one of these is reached. */
const FAILURES_PAGE = 500
const MAX_FAILURES = 5000
const MAX_FAILURES_MS = 500

export interface FailuresRequest {
  /** Absent: of all owners. */
  readonly owner?: string | undefined
  readonly workflow?: string | undefined
  /** Of jobs that were submitted then, in milliseconds since 1970. Absent: 24 hours before `to`. */
  readonly from?: number | undefined
  /** Absent: now. */
  readonly to?: number | undefined
  /** `next` of the previous page. */
  readonly after?: string | undefined
}

/** Failed jobs of one workflow whose errors differ only in numbers, ids and quoted texts. */
export interface FailureGroup {
  readonly fingerprint: string
  readonly workflow: string
  readonly code: string
  /** The node that failed; null: none caused the failure. */
  readonly node: string | null
  /** Of the error, with ? for numbers, ids and quoted texts. */
  readonly message: string
  readonly count: number
  readonly first_at: string
  readonly last_at: string
  /** The newest of these jobs. */
  readonly example_job_id: string
}

export interface FailurePage {
  readonly from: string
  readonly to: string
  /** The largest first. */
  readonly groups: readonly FailureGroup[]
  /** The number of failed jobs in these groups. */
  readonly jobs: number
  /** false: the search ended early, after a bounded amount of work; `next` continues it. */
  readonly complete: boolean
  /** How far back it has searched; null: to the end. */
  readonly scanned_to: string | null
  readonly next: string | null
}

/** Failed jobs by the fingerprint of their error, from the newest to the oldest. */
export async function failureGroups(
  { journal, now }: Pick<StatisticsParts, "journal" | "now">,
  { owner, workflow, after, ...request }: FailuresRequest,
): Promise<FailurePage> {
  checkRange(request)
  const to = request.to ?? now()
  const from = request.from ?? to - DEFAULT_MS
  const groups = new Map<string, Grouped>()
  const filter = {
    owner,
    ...namedFilter({ workflow }),
    ...{
      statuses: ["FAILED" as const],
      createdFrom: from,
      createdBefore: to,
      limit: FAILURES_PAGE,
    },
  }
  const begun = performance.now()
  let jobs = 0
  for (let next = after; ; ) {
    const page = await journal.listJobs({ ...filter, after: next })
    for (const row of page.jobs) addFailure(groups, row)
    jobs += page.jobs.length
    next = page.next ?? undefined
    const isOver = jobs >= MAX_FAILURES || performance.now() - begun >= MAX_FAILURES_MS
    if (next !== undefined && !isOver) continue
    return {
      ...{ from: isoTime(from), to: isoTime(to) },
      groups: [...groups.values()].sort(byCount).map(failureGroup),
      ...{ jobs, complete: next === undefined, next: next ?? null },
      scanned_to: page.scannedTo === null ? null : isoTime(page.scannedTo),
    }
  }
}

type Grouped = Omit<FailureGroup, "count" | "first_at" | "last_at"> & {
  count: number
  first: number
  last: number
}

/** Rows of a release before 0.2 have no fingerprint. */
function addFailure(groups: Map<string, Grouped>, row: JobRow): void {
  const { error } = readEnd(row)
  if (error === null) return
  const at = row.finishedAt ?? row.updatedAt
  const print = row.fingerprint ?? fingerprint(error)
  const key = `${print} ${row.owner} ${row.workflow}`
  const known = groups.get(key)
  if (known !== undefined) {
    known.count++
    known.first = Math.min(known.first, at)
    known.last = Math.max(known.last, at)
    return
  }
  const { code, node = null } = error
  groups.set(key, {
    ...{ fingerprint: print, workflow: row.workflow, code, node, message: normalizedMessage(error.message) },
    ...{ example_job_id: row.id, count: 1, first: at, last: at },
  })
}

function byCount(a: Grouped, b: Grouped): number {
  return b.count - a.count || b.last - a.last
}

function failureGroup({ first, last, ...group }: Grouped): FailureGroup {
  return { ...group, first_at: isoTime(first), last_at: isoTime(last) }
}
