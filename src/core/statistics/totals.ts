import { Histogram } from "./histogram.ts"
import type { JobFigures, NodeFigures } from "./job-figures.ts"

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
  readonly usage: Map<string, number>
}

/** The names of the totals of whole jobs, and of the nodes of a job beyond the first 1,000. No node has such a name. */
export const JOB = ""
export const OTHER_NODES = "*"

/** Codes and keys of usage beyond these are counted together: users choose them. */
const MAX_CODES = 100
const MAX_USAGE = 50
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
export function addJob(totals: Map<string, Totals>, figures: JobFigures): void {
  const job = totalsOf(totals, JOB)
  job.count++
  switch (figures.status) {
    case "COMPLETED":
      job.duration.add(figures.durationMs)
      break
    case "FAILED":
      job.failed++
      addError(job, figures.code)
      break
    case "CANCELLED":
      job.cancelled++
      break
    default:
      job.expired++
  }
  if (figures.queuedMs !== null) job.queued.add(figures.queuedMs)
  addUsage(job, figures.usage)
  const { plain } = figures
  job.attempts += plain.length / 3
  for (let at = 0; at < plain.length; at += 3)
    addPlain(totalsOf(totals, plain[at] as string), plain[at + 1] as Time, plain[at + 2] as Time)
  for (const node of figures.nodes) {
    job.attempts += node.attempts
    job.losses += node.losses
    addNode(totalsOf(totals, node.node), node)
  }
  const { rest } = figures
  if (rest === null) return
  job.attempts += rest.attempts
  job.losses += rest.losses
  mergeTotals(totalsOf(totals, OTHER_NODES), rest)
}

type Time = number | null

/** One of `JobFigures.plain`. */
function addPlain(totals: Totals, durationMs: Time, queuedMs: Time): void {
  totals.count++
  totals.attempts++
  if (durationMs !== null) totals.duration.add(durationMs)
  if (queuedMs !== null) totals.queued.add(queuedMs)
}

export function addNode(totals: Totals, node: NodeFigures): void {
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
  addUsage(totals, node.usage)
}

function totalsOf(totals: Map<string, Totals>, node: string): Totals {
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

function addUsage({ usage }: Totals, used: JobFigures["usage"]): void {
  for (const key in used) addTo(usage, key, used[key]!, MAX_USAGE)
}

function addTo(sums: Map<string, number>, key: string, amount: number, most: number): void {
  const name = sums.has(key) || sums.size < most ? key : OTHER
  sums.set(name, (sums.get(name) ?? 0) + amount)
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
  for (const [key, amount] of other.usage) addTo(into.usage, key, amount, MAX_USAGE)
}

export function mergeByNode(into: Map<string, Totals>, other: ReadonlyMap<string, Totals>): void {
  for (const [node, totals] of other) mergeTotals(totalsOf(into, node), totals)
}

/** As stored: counts in a fixed order, then what there is of the rest. */
interface StoredTotals {
  readonly n: readonly number[]
  readonly d?: readonly number[]
  readonly q?: readonly number[]
  readonly e?: readonly (readonly [code: string, count: number])[]
  readonly u?: readonly (readonly [key: string, amount: number])[]
}

export function encodeTotals(totals: Totals): string {
  const { count, failed, cancelled, expired, attempts, losses, duration, queued, errors, usage } = totals
  const [d, q] = [duration.encode(), queued.encode()]
  const stored: StoredTotals = {
    n: [count, failed, cancelled, expired, attempts, losses],
    ...(d.length === 0 ? {} : { d }),
    ...(q.length === 0 ? {} : { q }),
    ...(errors.size === 0 ? {} : { e: [...errors] }),
    ...(usage.size === 0 ? {} : { u: [...usage] }),
  }
  return JSON.stringify(stored)
}

export function decodeTotals(text: string): Totals {
  const { n, d = [], q = [], e = [], u = [] } = JSON.parse(text) as StoredTotals
  const [count = 0, failed = 0, cancelled = 0, expired = 0, attempts = 0, losses = 0] = n
  return {
    ...{ count, failed, cancelled, expired, attempts, losses },
    ...{ duration: Histogram.decode(d), queued: Histogram.decode(q) },
    ...{ errors: new Map(e), usage: new Map(u) },
  }
}
