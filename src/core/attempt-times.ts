import type { AttemptRef, AttemptTimes, Command, Refusal } from "./commands.ts"
import { retryPolicy } from "./decide/backoff.ts"
import type { AttemptAborted, ChildUsage, Fact, Ran, RunningAttempt } from "./facts.ts"
import type { JsonObject } from "./json.ts"
import {
  type AbortedRun,
  CANCELLED,
  COMPLETED,
  type EndedAttempt,
  ensureChildUsage,
  ensureNodeUsage,
  FAILED,
  findTask,
  type JobState,
  ownMap,
  RUNNING,
  type Usage,
} from "./state.ts"

/**
 * When attempts began, and what they used.
 *
 * 1. A worker reports durations, never times: its wall clock may differ from the owner's. The owner computes the start
 *    backwards from the time of its own fact, and clamps it to the attempt's interval [ready, at].
 * 2. A fact names the worker only if it differs from the worker of the fact before it: in a job that one process runs
 *    the name is written once.
 */

/** The fields of a fact that ends an attempt. `state`: before the fact. */
export function ranFields(state: JobState, times: AttemptTimes | undefined): Ran {
  if (times === undefined) return {}
  const { worker } = times
  return worker === state.worker ? durations(times) : { ...durations(times), worker }
}

function durations({ ranMs, heldMs, logLines, logRun }: AttemptTimes): Omit<Ran, "worker"> {
  const held_ms = wholeMs(heldMs)
  return {
    ran_ms: wholeMs(ranMs),
    held_ms: held_ms === 0 ? undefined : held_ms,
    log_lines: logLines,
    log_run: logRun,
  }
}

export function wholeMs(ms: number): number {
  return ms > 0 ? Math.round(ms) : 0
}

/**
 * The attempt number that people see counts the attempts that have begun, according to facts, and were not handed over.
 * A node that has not begun shows the number of the attempt that it waits for. `JobState.attempt` is the fence, which
 * rises with every dispatch.
 */
export function shownAttempt(state: JobState, node: number): number {
  const { spentAttempts } = state
  const earlier = spentAttempts.size === 0 ? 0 : (spentAttempts.get(node)?.earlier ?? 0)
  const begun = earlier + state.tries[node]!
  const status = state.nodeStatus[node]
  const isOver = status === FAILED || (status === CANCELLED && !hasBegun(state, node))
  return isOver ? Math.max(1, begun) : begun + 1
}

/** The maximum of that number: attempts that were lost, or made before a retry of the job, do not count. */
export function maxAttempts(state: JobState, node: number): number {
  return (state.spentAttempts.get(node) ?? noneSpent).earlier + retryPolicy(state, node).maxAttempts
}

/** Attempts that were running when their process died. */
export function lostAttempts(state: JobState, node: number): number {
  return (state.spentAttempts.get(node) ?? noneSpent).lost
}

/** Attempts that have begun and were not handed over. */
export function begunAttempts(state: JobState, node: number): number {
  const { spentAttempts } = state
  const earlier = spentAttempts.size === 0 ? 0 : (spentAttempts.get(node)?.earlier ?? 0)
  const status = state.nodeStatus[node]
  // The failure of a node that FAILED is one of its tries.
  const current = status === COMPLETED || (status !== FAILED && hasBegun(state, node)) ? 1 : 0
  return earlier + state.tries[node]! + current
}

const noneSpent = { earlier: 0, lost: 0 }

/** For a retry of the job: attempts that have begun so far do not count against the retry policy any more. */
export function resetPolicy(state: JobState, node: number): void {
  const hasFailed = state.nodeStatus[node] === FAILED
  const isBegun = hasBegun(state, node)
  const begun = state.tries[node]! + (!hasFailed && isBegun ? 1 : 0)
  if (begun > 0) spend(state, node, { earlier: begun, lost: 0 })
  const outcome = hasFailed ? "failed" : "cancelled"
  if (isBegun) attemptEnded(state, node, { outcome, endedAt: state.endedAt[node]! })
}

function hasBegun(state: JobState, node: number): boolean {
  return state.startedAt[node]! > 0 || state.waitingSince.has(node)
}

function spend(state: JobState, node: number, more: { earlier: number; lost: number }): void {
  const { earlier, lost } = state.spentAttempts.get(node) ?? noneSpent
  ownMap(state, "spentAttempts").set(node, { earlier: earlier + more.earlier, lost: lost + more.lost })
}

/** The node fails because its process died too often: that attempt was lost too. */
export function recordFinalLoss(state: JobState, node: number): void {
  spend(state, node, { earlier: 0, lost: 1 })
}

/** When the current attempt could begin: when it was queued, or, for a retry, when it was due. */
export function readyAt(state: JobState, node: number): number {
  const queuedAt = state.queuedAt[node]!
  if (state.lastAttempts.size === 0) return queuedAt
  return Math.max(queuedAt, state.lastAttempts.get(node)?.retryAt ?? 0)
}

/** Folds the times of a fact that records how long the node's handler has run until `at`. */
export function foldRan(state: JobState, node: number, { ran_ms, worker }: Ran, at: number): void {
  if (ran_ms === undefined) return
  if (worker !== undefined) state.worker = worker
  state.workers[node] = state.worker
  state.startedAt[node] = attemptStart(state, node, ran_ms, at)
}

/** When the handler of the current attempt began, if it had run for `ranMs` by `at`. */
export function attemptStart(state: JobState, node: number, ranMs: number, at: number): number {
  return Math.min(at, Math.max(at - ranMs, earliestStart(state, node)))
}

/** The current attempt begins when it is ready, and after the one before it has ended. */
function earliestStart(state: JobState, node: number): number {
  if (state.lastAttempts.size === 0) return state.queuedAt[node]!
  return Math.max(readyAt(state, node), state.lastAttempts.get(node)?.endedAt ?? 0)
}

/** Folds the attempts that were running, and their usage, when a fact ended them. Later facts do not refer to the worker named in such a list. */
export function foldRunning(state: JobState, fact: { readonly at: number } & RunningList): void {
  for (const { node, item, ran_ms, worker, usage } of fact.running ?? []) {
    const place = findTask(state, { node, item })
    if (place === null) continue
    addUsage(place.state, place.position, usage)
    if (item !== undefined) addNodeUsage(state, node, usage)
    const { worker: named } = place.state
    foldRan(place.state, place.position, { ran_ms, worker }, fact.at)
    place.state.worker = named
    addTo(noteAborted(place.state, place.position, fact.at).usage, usage)
  }
}

/** The current attempt ends without a report of its worker: called before its number changes. */
export function noteAborted(state: JobState, node: number, at: number): AbortedRun {
  const attempt = state.attempt[node]!
  const known = state.abortedRuns.get(node)
  if (known?.attempt === attempt) return known
  const isBegun = state.startedAt[node]! > 0
  const run = { attempt, earliest: earliestStart(state, node), endedAt: at, isBegun, usage: {} }
  ownMap(state, "abortedRuns").set(node, run)
  return run
}

/** The attempt, if a fact ended it without a report of its worker. */
export function findAborted(state: JobState, task: AttemptRef): AbortedRun | null {
  const place = findTask(state, task)
  const run = place?.state.abortedRuns.get(place.position)
  return run?.attempt === task.attempt ? run : null
}

/** The part of the worker's report that no fact records yet; null: nothing. */
export function abortedFact(
  run: AbortedRun,
  { node, item, attempt, times, usage = {} }: Extract<Command, { type: "aborted" }>,
): AttemptAborted | null {
  const { worker } = times
  const uncounted = Object.entries(usage).flatMap(([key, amount]) =>
    typeof amount === "number" && amount !== (run.usage[key] ?? 0)
      ? [[key, amount - (run.usage[key] ?? 0)] as const]
      : [],
  )
  if (run.isBegun && uncounted.length === 0) return null
  return {
    type: "attempt_aborted",
    node,
    item,
    attempt,
    ...(run.isBegun && times.hasEnded !== true ? {} : durations(times)),
    ended: times.hasEnded === true ? true : undefined,
    worker,
    usage: uncounted.length === 0 ? undefined : Object.fromEntries(uncounted),
  }
}

/** When the handler of an aborted attempt began, if it had begun `ranMs` before `at`. */
export function abortedStart({ earliest, endedAt }: AbortedRun, ranMs: number, at: number): number {
  return Math.min(endedAt, Math.max(at - ranMs, earliest))
}

/** Folds a worker's report on an attempt that has ended. The numbers of a node that was retried meanwhile do not change. */
export function foldAborted(state: JobState, fact: AttemptAborted & { readonly at: number }): void {
  const { node, item, attempt, ran_ms, worker, usage, at } = fact
  const place = findTask(state, fact)
  const run = findAborted(state, fact)
  if (place === null || run === null) return
  const { state: own, position } = place
  if (ran_ms !== undefined) run.ranMs = ran_ms
  if (ran_ms !== undefined && !run.isBegun) {
    run.isBegun = true
    if (own.attempt[position] === attempt) {
      own.startedAt[position] = abortedStart(run, ran_ms, at)
      own.workers[position] = worker
    }
  }
  if (usage === undefined) return
  addUsage(own, position, usage)
  if (item !== undefined) addNodeUsage(state, node, usage)
  addTo(run.usage, usage)
  notifyOfUsage(state)
}

/** Usage that is counted after the end of a job: its parent counts it too. */
export function notifyOfUsage(state: JobState): void {
  if (state.finishedAt !== null && state.parent !== null) state.unsettled = true
}

interface RunningList {
  readonly running?: readonly RunningAttempt[]
}

/** The node is retried: its attempt becomes the last one, and the next has not begun. */
export function attemptEnded(
  state: JobState,
  node: number,
  ended: Pick<EndedAttempt, "outcome" | "endedAt"> & { readonly retryAt?: number | undefined },
): void {
  const { outcome, endedAt, retryAt = null } = ended
  const startedAt = state.startedAt[node] || null
  if (outcome === "lost" && startedAt !== null) spend(state, node, { earlier: 1, lost: 1 })
  ownMap(state, "lastAttempts").set(node, {
    outcome,
    startedAt,
    endedAt,
    worker: state.workers[node] ?? null,
    retryAt,
  })
  state.startedAt[node] = 0
  state.workers[node] = undefined
  if (state.waitingSince.size > 0) (state.waitingSince as Map<number, number>).delete(node)
}

/** The usage of every attempt counts, whatever its outcome. */
export function addUsage(state: JobState, node: number, usage: JsonObject | undefined): void {
  for (const key in usage) {
    const amount = usage[key]
    if (typeof amount === "number") state.usage.set(key, (state.usage.get(key) ?? 0) + amount)
  }
  addNodeUsage(state, node, usage)
}

export function addNodeUsage(state: JobState, node: number, usage: JsonObject | undefined): void {
  if (usage === undefined) return
  addTo(ensureNodeUsage(state, node), usage)
  const waiting = state.waiting.get(node)
  if (waiting?.kind === "child") addTo(ensureChildUsage(state, waiting.job_id), usage)
}

/** Folds the usage of children that were cancelled with the job. */
export function addChildUsage(state: JobState, children: readonly ChildUsage[]): void {
  for (const { node, item, job_id, usage } of children) {
    const place = findTask(state, { node, item })
    if (place === null) continue
    addUsage(place.state, place.position, usage)
    if (item !== undefined) addNodeUsage(state, node, usage)
    addTo(ensureChildUsage(place.state, job_id), usage)
  }
}

function addTo(sums: Usage, usage: JsonObject | undefined): void {
  for (const key in usage) {
    const amount = usage[key]
    if (typeof amount === "number") sums[key] = (sums[key] ?? 0) + amount
  }
}

/** The usage of a child job that its parent has not counted yet; undefined: nothing. */
export function uncountedUsage(parent: JobState, childId: string, usage: ReadonlyMap<string, number>) {
  const counted = parent.childUsage.get(childId)
  const rest = [...usage].map(([key, sum]) => [key, sum - (counted?.[key] ?? 0)] as const)
  const left = rest.filter(([, amount]) => amount !== 0)
  return left.length === 0 ? undefined : (Object.fromEntries(left) as JsonObject)
}

/** The part of the usage of these child jobs, given in total, that is not counted yet. */
export function uncountedOfChildren(state: JobState, totals: readonly ChildUsage[]): ChildUsage[] {
  return totals.flatMap(total => {
    const place = findTask(state, total)
    const counted = place?.state.childUsage.get(total.job_id)
    const rest = Object.entries(total.usage).map(
      ([key, sum]) => [key, Number(sum) - (counted?.[key] ?? 0)] as const,
    )
    const left = rest.filter(([, amount]) => amount > 0)
    return left.length === 0 ? [] : [{ ...total, usage: Object.fromEntries(left) }]
  })
}

/** At most this many attempts without usage are named: the fact of a job with thousands of tasks stays small. */
const MAX_RUNNING = 1000

/** Adds the attempts that were running to the facts that end them. Changes nothing else. */
export function withRunning(
  state: JobState,
  decided: readonly Fact[] | Refusal,
  running: () => readonly RunningAttempt[],
): readonly Fact[] | Refusal {
  if ("refused" in decided || !decided.some(fact => endsAttempts(state, fact))) return decided
  let left = running()
  if (left.length === 0) return decided
  return decided.map(fact => {
    if (!endsAttempts(state, fact)) return fact
    const isEnded = isEndedBy(fact)
    let unused = 0
    const ended = left.filter(each => isEnded(each) && (each.usage !== undefined || ++unused <= MAX_RUNNING))
    // Only the first of several facts ends an attempt: its usage is counted once.
    left = left.filter(each => !isEnded(each))
    return ended.length === 0 ? fact : { ...fact, running: ended }
  })
}

function endsAttempts(state: JobState, fact: Fact): boolean {
  switch (fact.type) {
    case "job_cancelled":
    case "job_expired":
    case "job_failed":
    case "tasks_lost":
    case "items_lost":
      return true
    case "node_failed":
      return fact.retry_at === undefined
    case "item_failed": {
      if (fact.retry_at !== undefined) return false
      const list = state.lists.get(fact.node)!.state
      return !list.continuesOnFailure || list.unfinished - list.failures === 1
    }
    default:
      return false
  }
}

function isEndedBy(fact: Fact): (attempt: RunningAttempt) => boolean {
  switch (fact.type) {
    case "tasks_lost": {
      const lost = new Set(fact.nodes)
      return ({ node, item }) => item === undefined && lost.has(node)
    }
    case "items_lost": {
      const lost = new Set(fact.items)
      return ({ node, item }) => node === fact.node && item !== undefined && lost.has(item)
    }
    case "node_failed":
      return ({ node }) => node !== fact.node
    case "item_failed":
      return ({ node, item }) => node !== fact.node || item !== fact.item
    default:
      return () => true
  }
}

/** An announced start is stored at most this long before its handler begins, unless the worker's answer is late. */
const ANNOUNCED_MS = 1000

/** Does the handler run, according to facts? An announced start counts only after `ANNOUNCED_MS`: until then the handler may not have begun. */
export function isRunningAt(state: JobState, node: number, now: number): boolean {
  if (state.nodeStatus[node] !== RUNNING) return false
  const start = state.started.get(node)
  return start?.announced !== true || now - start.at >= ANNOUNCED_MS
}
