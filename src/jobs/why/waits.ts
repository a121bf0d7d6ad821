/**
 * `GET /waits`: why unfinished jobs make no progress, grouped by cause: one entry for all nodes that wait for the same provider,
 * handler or signal, in however many jobs.
 */
import { setTimeout } from "node:timers/promises"
import { type JobStatus, jobHasEnded, jobStatuses } from "../../core/states.ts"
import { isoTime } from "../../engine/clock.ts"
import type { Queries } from "../queries.ts"
import type { ReasonKind, UsualWait } from "./reasons.ts"
import type { WhyReason, WhyView } from "./why.ts"

/** One request explains at most so many jobs, and begins no further ones after this time. */
const MOST_JOBS = 200
const MOST_MS = 500
/** Jobs that are explained concurrently: it takes a second to notice that an owner does not respond. */
const TOGETHER = 20
/** The next one begins after this time at the latest. Large jobs that begin together would block the event loop. */
const APART_MS = 2
const EXAMPLES = 20
const unfinished: readonly JobStatus[] = jobStatuses.filter(status => !jobHasEnded(status))
/** Not a cause: the node runs or will at once, or another node or job is the cause. */
const noCause: ReadonlySet<ReasonKind> = new Set(["running", "dispatching", "dependency", "child"])

export interface WaitsRequest {
  /** Absent: of all owners. */
  readonly owner?: string | undefined
  /** A name, or NAME@VERSION. */
  readonly workflow?: string | undefined
  /** `next` of the previous page. */
  readonly after?: string | undefined
}

export interface WaitExample {
  readonly job_id: string
  readonly workflow: string
  /** The first node of the job with this reason; for breakers and backpressure a route. */
  readonly node: string
  /** Of a node with `for_each`: the first item that waits for it. null: the node itself does. */
  readonly item: number | null
  readonly since: string | null
  /** When the wait ends by itself; null: it does not, or this is not known. */
  readonly until: string | null
}

/** Nodes of any jobs that wait for the same. */
export interface WaitGroup {
  readonly kind: ReasonKind
  /** The provider, handler, signal, pipeline or adapter's route; empty: the kind has no subject. */
  readonly subject: string
  /** Of the node that has waited longest. */
  readonly sentence: string
  readonly action: string | null
  readonly jobs: number
  readonly nodes: number
  readonly since: string | null
  readonly until: string | null
  /** How long nodes like the one that has waited longest usually wait, in ms; null: no data. */
  readonly usual: UsualWait | null
  /** One node of each job, the longest wait first; at most 20. */
  readonly examples: readonly WaitExample[]
}

export interface WaitPage {
  readonly at: string
  /** Most nodes first. */
  readonly groups: readonly WaitGroup[]
  /** Unfinished jobs that were examined. */
  readonly jobs: number
  /** Those of them with a node that runs. */
  readonly running: number
  /** false: the search ended early, after a bounded amount of work; `next` continues it. */
  readonly complete: boolean
  readonly scanned_to: string | null
  readonly next: string | null
}

interface WaitParts {
  readonly queries: Queries
  now(): number
  /** null: the job has been removed. */
  why(jobId: string): Promise<WhyView | null>
}

export async function waitPage(
  { queries, now, why }: WaitParts,
  { owner, workflow, after }: WaitsRequest,
): Promise<WaitPage> {
  const filter = {
    owner,
    workflow,
    statuses: unfinished,
    limit: TOGETHER,
  }
  const beginning = performance.now()
  const groups = new Map<string, Gathered>()
  let [jobs, running] = [0, 0]
  const answer = (next: string | null, scannedTo: string | null): WaitPage => ({
    at: isoTime(now()),
    groups: [...groups.values()].map(shownGroup).sort((a, b) => b.nodes - a.nodes || b.jobs - a.jobs),
    ...{ jobs, running, complete: next === null, scanned_to: next === null ? null : scannedTo, next },
  })
  for (let from = after; ; ) {
    const page = await queries.jobPage({ ...filter, after: from })
    const begun: Promise<WhyView | null>[] = []
    for (const { job_id } of page.jobs) {
      begun.push(why(job_id))
      await Promise.race([begun.at(-1), setTimeout(APART_MS)])
    }
    const views = await Promise.all(begun)
    for (const [n, view] of views.entries()) {
      if (view === null || view.reasons.length === 0) continue
      jobs++
      if (view.reasons.some(({ kind }) => kind === "running")) running++
      add(groups, view, page.jobs[n]!.workflow)
    }
    if (page.next === null || jobs >= MOST_JOBS || performance.now() - beginning >= MOST_MS)
      return answer(page.next, page.jobs.at(-1)?.created_at ?? page.scanned_to)
    from = page.next
  }
}

interface Gathered extends Omit<WaitGroup, "since" | "until" | "jobs" | "nodes" | "examples"> {
  nodes: number
  readonly examples: WaitExample[]
}

interface Found
  extends Pick<WhyReason, "kind" | "count" | "since" | "until" | "sentence" | "action" | "usual" | "item"> {
  readonly subject: string
  readonly node: string
}

function add(groups: Map<string, Gathered>, view: WhyView, workflow: string): void {
  for (const found of causes(view)) {
    const { kind, subject, count, node, item = null, since, until, sentence, action, usual } = found
    const key = JSON.stringify([kind, subject])
    const known = groups.get(key)
    const example = { job_id: view.job_id, workflow, node, item, since, until }
    const said = { kind, subject, sentence, action, usual }
    if (known === undefined) groups.set(key, { ...said, nodes: count, examples: [example] })
    else {
      const isLonger =
        since !== null && known.examples.every(other => other.since === null || since < other.since)
      if (isLonger) groups.set(key, { ...known, ...said, nodes: known.nodes + count })
      else known.nodes += count
      known.examples.push(example)
    }
  }
}

function causes({ reasons, routes }: WhyView): Found[] {
  const ofNodes = reasons
    .filter(({ kind, count }) => !noCause.has(kind) && count > 0)
    .map(reason => ({ ...reason, subject: findSubject(reason), node: reason.nodes[0]! }))
  const ofRoutes = (routes ?? [])
    .filter(({ kind }) => kind === "breaker" || kind === "backpressure")
    .map(({ route, queued, ...said }) => ({
      ...{ ...said, subject: route, node: route, count: queued },
      ...{ since: null, until: null, usual: null },
    }))
  return [...ofNodes, ...ofRoutes]
}

/** What nodes with the same reason have in common, as `details` names it. */
function findSubject({ details }: WhyReason): string {
  const { provider, handler, name, pipeline } = details
  return [provider, handler, name, pipeline].find(text => typeof text === "string") ?? ""
}

function shownGroup({ examples: all, ...group }: Gathered): WaitGroup {
  const times = (field: "since" | "until") => all.flatMap(example => example[field] ?? []).sort()
  // Unknown times last; of equal ones the older job first.
  const order = ({ since, job_id }: WaitExample) => `${since ?? "~"} ${job_id}`
  const examples = all.toSorted((a, b) => (order(a) < order(b) ? -1 : 1)).slice(0, EXAMPLES)
  return {
    ...group,
    jobs: all.length,
    since: times("since")[0] ?? null,
    until: times("until")[0] ?? null,
    examples,
  }
}
