import { Histogram } from "./histogram.ts"
import type { JobMetrics, NodeMetrics } from "./job-metrics.ts"

/**
 * The statistics of one node, or of whole jobs, over any number of ended jobs. Totals are added up: those of two sets of
 * jobs give the totals of their union.
 */
export interface Totals {
  /** Nodes: ended COMPLETED or FAILED. Jobs: ended in any way. */
  count: number
  failed: number
  /** Nodes: begun, and cancelled when their job ended. */
  cancelled: number
  expired: number
  attempts: number
  losses: number
  /** Of those that completed. */
  readonly duration: Histogram
  readonly queued: Histogram
  /** Failures by the code of their error. */
  readonly errors: Map<string, number>
  readonly usage: Map<string, UsageTotals>
}

export interface UsageTotals {
  sum: number
  /** Of those that completed and reported it; null: not kept, so that rows stay small. */
  histogram: Histogram | null
}

/** The names of the totals of whole jobs, and of the nodes of a job beyond the first 1,000. No node has such a name. */
export const JOB = ""
export const OTHER_NODES = "*"

/** Codes and keys of usage beyond these are counted together: users choose them. */
const MAX_CODES = 100
const MAX_USAGE = 50
/** So many keys of usage, those that are seen first, have histograms. */
const MAX_USAGE_HISTOGRAMS = 16
const OTHER = "other"

export function newTotals(): Totals {
  return {
    count: 0,
    failed: 0,
    cancelled: 0,
    expired: 0,
    attempts: 0,
    losses: 0,
    duration: new Histogram(),
    queued: new Histogram(),
    errors: new Map(),
    usage: new Map(),
  }
}

/** Adds a job that has ended to totals by node. */
export function addJob(totals: Map<string, Totals>, metrics: JobMetrics): void {
  const job = ensureTotals(totals, JOB)
  job.count++
  switch (metrics.status) {
    case "COMPLETED":
      job.duration.add(metrics.durationMs)
      break
    case "FAILED":
      job.failed++
      addError(job, metrics.code)
      break
    case "CANCELLED":
      job.cancelled++
      break
    default:
      job.expired++
  }
  if (metrics.queuedMs !== null) job.queued.add(metrics.queuedMs)
  addUsage(job, metrics.usage, metrics.status === "COMPLETED")
  const { plain } = metrics
  job.attempts += plain.length / 3
  for (let at = 0; at < plain.length; at += 3)
    addPlain(ensureTotals(totals, plain[at] as string), plain[at + 1] as Time, plain[at + 2] as Time)
  for (const node of metrics.nodes) {
    job.attempts += node.attempts
    job.losses += node.losses
    addNode(ensureTotals(totals, node.node), node)
  }
  const { rest } = metrics
  if (rest === null) return
  job.attempts += rest.attempts
  job.losses += rest.losses
  mergeTotals(ensureTotals(totals, OTHER_NODES), rest)
}

type Time = number | null

/** One of `JobMetrics.plain`. */
function addPlain(totals: Totals, durationMs: Time, queuedMs: Time): void {
  totals.count++
  totals.attempts++
  if (durationMs !== null) totals.duration.add(durationMs)
  if (queuedMs !== null) totals.queued.add(queuedMs)
}

export function addNode(totals: Totals, node: NodeMetrics): void {
  const { outcome, durationMs, queuedMs } = node
  if (outcome === "cancelled") totals.cancelled++
  else totals.count++
  if (outcome === "failed") {
    totals.failed++
    addError(totals, node.code)
  }
  if (outcome === "completed" && durationMs !== null) totals.duration.add(durationMs)
  if (queuedMs !== null) totals.queued.add(queuedMs)
  totals.attempts += node.attempts
  totals.losses += node.losses
  addUsage(totals, node.usage, outcome === "completed")
}

function ensureTotals(totals: Map<string, Totals>, node: string): Totals {
  let found = totals.get(node)
  if (found === undefined) {
    found = newTotals()
    totals.set(node, found)
  }
  return found
}

function addError({ errors }: Totals, code: string | null): void {
  addTo(errors, code ?? OTHER, 1, MAX_CODES)
}

function addUsage(totals: Totals, used: JobMetrics["usage"], isCompleted: boolean): void {
  for (const key in used) {
    const amount = used[key]!
    const into = addSum(totals, key, amount)
    if (isCompleted) ensureHistogram(totals, into)?.addAmount(amount)
  }
}

/** null: the amount was added to those of other keys. */
function addSum({ usage }: Totals, key: string, amount: number): UsageTotals | null {
  const name = nameIn(usage, key, MAX_USAGE)
  let into = usage.get(name)
  if (into === undefined) {
    into = { sum: 0, histogram: null }
    usage.set(name, into)
  }
  into.sum += amount
  return name === OTHER ? null : into
}

function ensureHistogram({ usage }: Totals, into: UsageTotals | null): Histogram | null {
  if (into === null || into.histogram !== null) return into?.histogram ?? null
  let kept = 0
  for (const { histogram } of usage.values()) if (histogram !== null) kept++
  if (kept < MAX_USAGE_HISTOGRAMS) into.histogram = new Histogram()
  return into.histogram
}

function addTo(sums: Map<string, number>, key: string, amount: number, most: number): void {
  const name = nameIn(sums, key, most)
  sums.set(name, (sums.get(name) ?? 0) + amount)
}

function nameIn(sums: ReadonlyMap<string, unknown>, key: string, most: number): string {
  return sums.has(key) || sums.size < most ? key : OTHER
}

export function mergeTotals(into: Totals, other: Totals): void {
  into.count += other.count
  into.failed += other.failed
  into.cancelled += other.cancelled
  into.expired += other.expired
  into.attempts += other.attempts
  into.losses += other.losses
  into.duration.merge(other.duration)
  into.queued.merge(other.queued)
  for (const [code, count] of other.errors) addTo(into.errors, code, count, MAX_CODES)
  for (const [key, { sum, histogram }] of other.usage) {
    const usage = addSum(into, key, sum)
    if (histogram !== null) ensureHistogram(into, usage)?.merge(histogram)
  }
}

export function mergeByNode(into: Map<string, Totals>, other: ReadonlyMap<string, Totals>): void {
  for (const [node, totals] of other) mergeTotals(ensureTotals(into, node), totals)
}

/** As stored, in this order: counts in a fixed order, then what there is of the rest. */
interface StoredTotals {
  readonly n: readonly number[]
  /** Histograms. */
  readonly d?: readonly number[] | undefined
  readonly q?: readonly number[] | undefined
  /** Histograms of the keys in `u`, in their order; empty: not kept. */
  readonly h?: readonly (readonly number[])[] | undefined
  readonly e?: readonly (readonly [code: string, count: number])[] | undefined
  readonly u?: readonly (readonly [key: string, amount: number])[] | undefined
}

const DURATION = ',"d":['
const QUEUED = ',"q":['
const USAGE = ',"h":['

export function encodeTotals(totals: Totals): string {
  const { count, failed, cancelled, expired, attempts, losses, duration, queued, errors, usage } = totals
  const [d, q] = [duration.encode(), queued.encode()]
  const h = [...usage.values()].map(({ histogram }) => histogram?.encode() ?? [])
  const stored: StoredTotals = {
    n: [count, failed, cancelled, expired, attempts, losses],
    d: d.length === 0 ? undefined : d,
    q: q.length === 0 ? undefined : q,
    h: h.every(list => list.length === 0) ? undefined : h,
    e: errors.size === 0 ? undefined : [...errors],
    u: usage.size === 0 ? undefined : [...usage].map(([key, { sum }]) => [key, sum] as const),
  }
  return JSON.stringify(stored)
}

/** Adds totals as `encodeTotals` writes them, one or more, each on a line of its own. */
export function addStored(into: Totals, text: string): void {
  for (let from = 0; from < text.length; ) {
    const found = text.indexOf("\n", from)
    const end = found === -1 ? text.length : found
    addLine(into, text, from, end)
    from = end + 1
  }
}

/** Histograms are nearly all of a line: they are added as they are read, and only the rest is parsed as JSON. */
function addLine(into: Totals, text: string, from: number, end: number): void {
  const counts = text.indexOf("]", from) + 1
  let at = counts
  if (text.startsWith(DURATION, at)) at = into.duration.addText(text, at + DURATION.length)
  if (text.startsWith(QUEUED, at)) at = into.queued.addText(text, at + QUEUED.length)
  const lists: number[] = []
  if (text.startsWith(USAGE, at)) at = findLists(text, at + USAGE.length, lists)
  const { n, e, u } = JSON.parse(text.slice(from, counts) + text.slice(at, end)) as StoredTotals
  const [count = 0, failed = 0, cancelled = 0, expired = 0, attempts = 0, losses = 0] = n
  into.count += count
  into.failed += failed
  into.cancelled += cancelled
  into.expired += expired
  into.attempts += attempts
  into.losses += losses
  if (e !== undefined) for (const [code, failures] of e) addTo(into.errors, code, failures, MAX_CODES)
  if (lists.length > 0 && lists.length !== u?.length) throw cutOff()
  u?.forEach(([key, amount], index) => {
    const usage = addSum(into, key, amount)
    const list = lists[index]
    if (list !== undefined && text[list] !== "]") ensureHistogram(into, usage)?.addText(text, list)
  })
}

/** Adds to `lists` where each list of a list of lists begins, after its "[". Returns the place after all of them. */
function findLists(text: string, from: number, lists: number[]): number {
  for (let at = from; ; at++) {
    lists.push(at + 1)
    const end = text.indexOf("]", at)
    if (text[at] !== "[" || end === -1) throw cutOff()
    at = end + 1
    if (text[at] !== ",") return at + 1
  }
}

function cutOff(): SyntaxError {
  return new SyntaxError("A list of histograms is cut off.")
}

export function decodeTotals(text: string): Totals {
  const totals = newTotals()
  addStored(totals, text)
  return totals
}
