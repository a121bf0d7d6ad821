import {
  addChildUsage,
  addUsage,
  attemptEnded,
  foldAborted,
  foldRan,
  foldRunning,
  noteAborted,
  notifyOfUsage,
  recordFinalLoss,
} from "../attempt-times.ts"
import type { JobResult } from "../commands.ts"
import { readPolicy } from "../decide/backoff.ts"
import type { Effects } from "../effects.ts"
import type {
  Fact,
  JobSubmitted,
  NodeCompleted,
  NodeFailed,
  NodeWaiting,
  SignalReceived,
  TasksLost,
} from "../facts.ts"
import { executionsFullIn, type Fault, lostTooOften } from "../faults.ts"
import type { Json } from "../json.ts"
import type { Graph } from "../plan.ts"
import {
  CANCELLED,
  COMPLETED,
  FAILED,
  followed,
  isDone,
  isInFlight,
  type JobState,
  newJobState,
  type Output,
  ownCounters,
  ownMap,
  PENDING,
  QUEUED,
  RUNNING,
  SKIPPED,
  skippedOutput,
  WAITING,
} from "../state.ts"
import type { JobStatus } from "../states.ts"
import { countedBefore } from "../statistics/job-metrics.ts"
import { foldLoss, foldStart } from "../suspects.ts"
import { setExpiry } from "../timers.ts"
import { expiryReason, noReason } from "../view/reasons.ts"
import { failFast } from "./fail-fast.ts"
import { startFork } from "./fork.ts"
import { endItems, expanded, itemHappened, itemPreviewed, itemSignalled } from "./items.ts"
import {
  abandonAll,
  mayRun,
  operationFailed,
  operationHappened,
  resumed as resumedWait,
  setPoll,
  submissionLeft,
  unanswered,
} from "./operations.ts"
import { described, forgetPause, hold, paused, resumed, submittedPause } from "./pause.ts"
import { retried } from "./restart.ts"
import { delayed, rescheduled, started } from "./start.ts"

/**
 * Folds one fact into the shadow graph. The same code runs live and in replay.
 *
 * 1. It cannot fail and decides nothing: facts that `decide` produced are applied as they are.
 * 2. A completion costs O(out-degree). Only facts that end or restart a whole job cost O(nodes).
 * 3. `remaining[n] = 0` exactly once per life of a node, by the last of its dependencies: fan-in fires once.
 * 4. A dispatched node has all its dependencies done; a job that has ended has nothing in flight.
 */
export function apply(state: JobState, fact: Fact, effects?: Effects): void {
  if (state.status === "QUEUED" && isOfNode(fact)) state.status = "PROCESSING"
  switch (fact.type) {
    case "job_submitted":
      submitted(state, fact, fact.at, effects)
      break
    case "node_started":
      runs(state, fact.node)
      if (fact.joined !== true)
        foldRan(state, fact.node, { ran_ms: fact.ran_ms ?? 0, worker: fact.worker }, fact.at)
      foldStart(state, fact)
      progressed(state)
      break
    case "node_completed":
      completed(state, fact, fact.at, effects)
      break
    case "node_skipped":
      setJobResult(state, fact)
      done(state, fact.node, { status: SKIPPED, output: skippedOutput, at: fact.at }, effects)
      break
    case "node_failed":
      failed(state, fact, fact.at, effects)
      break
    case "node_waiting":
      waits(state, fact)
      break
    case "tasks_lost":
      lost(state, fact, effects)
      break
    case "attempt_aborted":
      foldAborted(state, fact)
      break
    case "node_expanded":
      leaveFlight(state, fact.node)
      forget(state, fact.node)
      expanded(state, fact, effects)
      break
    case "item_failed":
    case "items_lost":
      foldRunning(state, fact)
      itemHappened(state, fact, effects)
      break
    case "item_started":
    case "item_completed":
    case "item_waiting":
      itemHappened(state, fact, effects)
      break
    case "preview_published":
      if (fact.item !== undefined) itemPreviewed(state, { ...fact, item: fact.item })
      if (isInFlight(state, fact.node)) runs(state, fact.node)
      state.previews.set(fact.node, fact.data)
      progressed(state)
      state.status = "PREVIEW"
      break
    case "signal_received":
      signalled(state, fact, effects)
      break
    case "slot_awaited":
    case "slot_granted":
    case "poll_scheduled":
      if (fact.item === undefined) operationHappened(state, fact, effects)
      else itemHappened(state, { ...fact, item: fact.item }, effects)
      break
    case "job_failed":
      foldRunning(state, fact)
      state.fault = { fault: fact.fault }
      end(state, "FAILED", fact.at, effects)
      break
    case "job_cancelled":
      foldRunning(state, fact)
      state.endReason = fact.reason || noReason
      end(state, "CANCELLED", fact.at, effects)
      break
    case "job_expired":
      foldRunning(state, fact)
      state.endReason = expiryReason(state, fact)
      end(state, "EXPIRED", fact.at, effects)
      break
    case "job_retried":
      state.counted = countedBefore(state, fact.at)
      retried(state, fact, fact.at, effects)
      break
    case "job_deleted":
      state.status = "DELETED"
      break
    case "job_paused":
      paused(state, fact, effects)
      break
    case "job_resumed":
      resumed(state, effects)
      break
    case "job_described":
      described(state, fact)
      break
    case "job_started":
      started(state, fact, effects)
      break
    case "job_rescheduled":
      rescheduled(state, fact)
      break
    case "job_settled":
      if (fact.used !== undefined) addChildUsage(state, fact.used)
      if (fact.late === true) {
        notifyOfUsage(state)
        break
      }
      state.unsettled = false
      state.orphans = []
      break
    default:
      state.unknownFacts++
  }
}

export function fold(graph: Graph, facts: Iterable<Fact>): JobState {
  const state = newJobState(graph)
  for (const fact of facts) apply(state, fact)
  return state
}

function submitted(state: JobState, fact: JobSubmitted, at: number, effects: Effects): void {
  state.owner = fact.owner
  state.workflow = fact.workflow
  state.workflowVersion = fact.workflow_version ?? 0
  state.definition = fact.definition ?? null
  state.input = fact.input
  state.priority = fact.priority
  state.labels = fact.labels ?? {}
  state.traceparent = fact.traceparent ?? null
  state.submittedBy = fact.submitted_by ?? null
  state.retryDefaults = fact.retry_defaults === undefined ? null : readPolicy(fact.retry_defaults)
  state.parent = fact.parent ?? null
  state.ttlSeconds = fact.ttl_seconds
  state.createdAt = at
  setExpiry(state, fact.expires_at)
  if (fact.paused !== undefined) state.paused = submittedPause(fact.paused, at)
  if (fact.schedule !== undefined) state.schedule = fact.schedule
  if (fact.start_at !== undefined) delayed(state, fact.start_at)
  else if (fact.fork === undefined) startAll(state, at, effects)
  else startFork(state, fact, fact.fork, at, effects)
  if (fact.queued === true) state.status = "QUEUED"
}

/** The first fact about a node of a job that waited in the store: the job has been dispatched. */
function isOfNode(fact: Fact): boolean {
  return fact.type === "tasks_lost" || ("node" in fact && fact.type !== "signal_received")
}

function completed(state: JobState, fact: NodeCompleted, at: number, effects: Effects): void {
  const waiting = state.waiting.get(fact.node)
  if (waiting?.kind === "signal") takeSignal(state, waiting.name)
  addUsage(state, fact.node, fact.usage)
  foldRan(state, fact.node, fact, at)
  setJobResult(state, fact)
  if (fact.overtaken === true) mayReport(state, fact.node, at)
  if (fact.overtaken === true && isInFlight(state, fact.node) && !isHeldBack(state, fact.node)) {
    effects?.push({ type: "abort", node: fact.node, item: undefined, attempt: fact.attempt })
    unanswered(state, fact.node, effects)
  }
  done(state, fact.node, { status: COMPLETED, output: fact.output, at }, effects)
}

export function done(
  state: JobState,
  node: number,
  ended: { status: number; output: Output; at: number },
  effects: Effects,
): void {
  leaveFlight(state, node)
  state.nodeStatus[node] = ended.status
  state.outputs[node] = ended.output
  state.endedAt[node] = ended.at
  forget(state, node)
  followed(state, node)
  state.unfinished--
  progressed(state)
  const { starts, items } = state.graph.successors
  for (let i = starts[node]!; i < starts[node + 1]!; i++) {
    const successor = items[i]!
    if (--state.remaining[successor]! === 0) begin(state, successor, ended.at, effects)
  }
  leavePlace(state, ended.at, effects)
}

/** Adds the job's result to the fact that completed the job, and to the state. Called right after that fact was applied. */
export function addJobResult(state: JobState, fact: Fact, result: JobResult): Fact {
  setJobResult(state, result)
  if (state.fault !== null) {
    state.status = "FAILED"
    state.endedAs = "FAILED"
  }
  return { ...fact, ...result } as Fact
}

export function setJobResult(
  state: JobState,
  fact: { readonly job_output?: Json; readonly job_fault?: Fault },
): void {
  if (fact.job_output !== undefined) state.output = fact.job_output
  if (fact.job_fault !== undefined) state.fault = { fault: fact.job_fault }
}

function failed(state: JobState, fact: NodeFailed, at: number, effects: Effects): void {
  const { node, fault } = fact
  ownCounters(state)
  addUsage(state, node, fact.usage)
  foldRan(state, node, fact, at)
  if (fact.running !== undefined) foldRunning(state, { at, running: fact.running })
  operationFailed(state, fact, effects)
  leaveFlight(state, node)
  forget(state, node)
  state.faults.set(node, { fault })
  if (fact.postponed !== true) state.tries[node]!++
  if (fault.code === lostTooOften) recordFinalLoss(state, node)
  progressed(state)
  if (fact.retry_at === undefined) {
    if (state.continuesOnFailure) failAlone(state, fact, at, effects)
    else failFast(state, fact, at, effects)
    return
  }
  const outcome = fact.postponed === true ? "postponed" : "failed"
  // Without a place among the executions the same attempt continues to wait: it was ready when it was first queued.
  const hasNoPlace = fact.postponed === true && executionsFullIn(fault) !== null
  const retryAt = hasNoPlace ? (state.lastAttempts.get(node)?.retryAt ?? undefined) : fact.retry_at
  attemptEnded(state, node, { outcome, endedAt: at, retryAt })
  state.attempt[node]!++
  state.nodeStatus[node] = QUEUED
  if (!hasNoPlace) state.queuedAt[node] = at
  state.retryAt.set(node, fact.retry_at)
  state.earliestTimer = Math.min(state.earliestTimer, fact.retry_at)
}

/** The list fails with the first failure, once all items have ended. */
function failAlone(state: JobState, { node, fault }: NodeFailed, at: number, effects: Effects): void {
  state.nodeStatus[node] = FAILED
  state.endedAt[node] = at
  state.fault ??= { fault, node }
  state.failures++
  leavePlace(state, at, effects)
}

/** Gives the place to the next node; or ends the list when none is left. */
function leavePlace(state: JobState, at: number, effects: Effects): void {
  state.room++
  beginHeld(state, at, effects)
  if (state.unfinished === state.failures)
    end(state, state.fault === null ? "COMPLETED" : "FAILED", at, effects)
}

function waits(state: JobState, fact: NodeWaiting & { readonly at: number }): void {
  const { node, waiting } = fact
  addUsage(state, node, fact.usage)
  foldRan(state, node, fact, fact.at)
  ownMap(state, "waitingSince").set(node, fact.at)
  leaveFlight(state, node)
  state.nodeStatus[node] = WAITING
  state.waiting.set(node, waiting)
  followed(state, node)
  // Its handler has returned.
  if (state.suspects.size > 0) state.suspects.delete(node)
  if (waiting.kind === "child") ownMap(state, "children").set(node, waiting.job_id)
  if (waiting.until !== undefined) state.earliestTimer = Math.min(state.earliestTimer, waiting.until)
  if (waiting.kind === "external" && waiting.next_poll_at !== undefined)
    setPoll(state, node, waiting.next_poll_at)
  progressed(state)
}

function lost(state: JobState, fact: TasksLost & { readonly at: number }, effects: Effects): void {
  const isCounted = fact.handed_over !== true
  ownCounters(state)
  foldRunning(state, fact)
  for (const node of fact.nodes) {
    // A preview shows that the attempt runs, but not since when.
    const wasRunning = state.nodeStatus[node] === RUNNING
    noteAborted(state, node, fact.at)
    if (isCounted) foldLoss(state, node, fact)
    if (state.started.delete(node) && isCounted) state.losses[node]!++
    leaveFlight(state, node)
    mayRun(state, node)
    if (!isCounted) effects?.push({ type: "abort", node, item: undefined, attempt: state.attempt[node]! })
    // An attempt that had not begun is shown as the same attempt: it has waited since it was first queued.
    const hadBegun = state.startedAt[node]! > 0 || wasRunning
    const queuedAt = hadBegun ? fact.at : state.queuedAt[node]!
    const retryAt = hadBegun ? undefined : (state.lastAttempts.get(node)?.retryAt ?? undefined)
    attemptEnded(state, node, { outcome: isCounted ? "lost" : "handed_over", endedAt: fact.at, retryAt })
    state.attempt[node]!++
    enqueue(state, node, fact.at, effects)
    state.queuedAt[node] = queuedAt
  }
}

function signalled(state: JobState, fact: SignalReceived & { readonly at: number }, effects: Effects): void {
  if (fact.item !== undefined) {
    itemSignalled(state, { ...fact, node: fact.node!, item: fact.item }, effects)
    return
  }
  if (fact.node !== undefined) {
    setJobResult(state, fact)
    done(state, fact.node, { status: COMPLETED, output: fact.data, at: fact.at }, effects)
    return
  }
  const kept = state.signals.get(fact.name)
  if (kept) kept.push(fact.data)
  else state.signals.set(fact.name, [fact.data])
}

function takeSignal(state: JobState, name: string): void {
  state.signals.get(name)?.shift()
}

/** Every way a job ends. Unfinished nodes are cancelled; tasks that a worker may hold are aborted. */
export function end(state: JobState, status: JobStatus, at: number, effects: Effects): void {
  if (state.unfinished > 0) {
    for (let node = 0; node < state.nodeStatus.length; node++) {
      if (isDone(state, node) || state.nodeStatus[node] === FAILED) continue
      mayReport(state, node, at)
      if (isInFlight(state, node) && !isHeldBack(state, node)) {
        effects?.push({ type: "abort", node, item: undefined, attempt: state.attempt[node]! })
        submissionLeft(state, node, effects)
      }
      state.nodeStatus[node] = CANCELLED
      state.endedAt[node] = at
    }
  }
  state.orphans = [...childrenWaitedFor(state), ...endItems(state, at, effects)]
  if (state.waiting.size + state.unfollowed.size > 0) abandonAll(state, effects)
  state.active = 0
  state.unsettled = state.parent !== null || state.orphans.length > 0
  state.retryAt.clear()
  forgetPause(state)
  state.awaitingSlot.clear()
  state.waiting.clear()
  state.started.clear()
  state.earliestTimer = Number.POSITIVE_INFINITY
  state.status = status
  state.endedAs = status
  state.finishedAt = at
  effects?.push({ type: "end" })
}

function childrenWaitedFor({ waiting }: JobState): readonly string[] {
  if (waiting.size === 0) return []
  return [...waiting.values()].flatMap(wait => (wait.kind === "child" ? [wait.job_id] : []))
}

/** A node event: work continues, and a preview is out of date. */
export function progressed(state: JobState): void {
  if (state.status === "DISPATCHING" || state.status === "PREVIEW") state.status = "PROCESSING"
}

/** Ready, but not dispatched: it waits for its retry time or its slot, or the job is paused. */
function isHeldBack({ retryAt, awaitingSlot, held }: JobState, node: number): boolean {
  return retryAt.has(node) || awaitingSlot.has(node) || held.has(node)
}

/** A worker may have the attempt. In replay a retry time may still be set, although the attempt was dispatched. */
function mayReport(state: JobState, node: number, at: number): void {
  if (!isInFlight(state, node) || state.awaitingSlot.has(node) || state.held.has(node)) return
  noteAborted(state, node, at)
}

/** In replay a retry time may still be set here too. */
function runs(state: JobState, node: number): void {
  if (state.retryAt.delete(node)) state.active++
  state.nodeStatus[node] = RUNNING
}

function forget(state: JobState, node: number): void {
  if (state.waiting.size > 0 && state.waiting.delete(node)) resumedWait(state, node)
  if (state.started.size > 0) state.started.delete(node)
  if (state.suspects.size > 0) state.suspects.delete(node)
}

/** How nodes enter and leave flight. */

export function startAll(state: JobState, at: number, effects: Effects): void {
  state.status = "DISPATCHING"
  for (let node = 0; node < state.remaining.length; node++)
    if (state.remaining[node] === 0) begin(state, node, at, effects)
  handedOut(state)
}

/** A job is DISPATCHING only while none of its nodes could be dispatched. */
export function handedOut(state: JobState): void {
  if (state.active > 0) state.status = "PROCESSING"
}

/** A node whose dependencies are done takes a place, or waits for one. Only items ever wait. */
export function begin(state: JobState, node: number, at: number, effects: Effects): void {
  if (state.room > 0) {
    state.room--
    enqueue(state, node, at, effects)
  } else state.nextHeld = Math.min(state.nextHeld, node)
}

function beginHeld(state: JobState, at: number, effects: Effects): void {
  const { nodeStatus, remaining } = state
  for (; state.room > 0 && state.nextHeld < nodeStatus.length; state.nextHeld++) {
    const node = state.nextHeld
    if (nodeStatus[node] !== PENDING || remaining[node] !== 0) continue
    state.room--
    enqueue(state, node, at, effects)
  }
}

function enqueue(state: JobState, node: number, at: number, effects: Effects): void {
  state.nodeStatus[node] = QUEUED
  state.queuedAt[node] = at
  if (state.paused !== null) {
    hold(state, node)
    effects?.push({ type: "hold", node, item: undefined })
    return
  }
  state.active++
  effects?.push({ type: "dispatch", node, item: undefined, attempt: state.attempt[node]! })
}

/** In replay a retry time may still be set when the result of that same try arrives: the node was not counted as active. */
export function leaveFlight(state: JobState, node: number): void {
  if (!isInFlight(state, node)) return
  if (state.retryAt.delete(node) || state.awaitingSlot.delete(node)) return
  if (state.held.size === 0 || !(state.held as Set<number>).delete(node)) state.active--
}
