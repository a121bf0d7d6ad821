/**
 * What must hold after every step of a job:
 *
 * 1. A completed node never runs again, and at most one completion of a node is accepted.
 * 2. A node is dispatched only when all its dependencies are done, and once per attempt.
 * 3. A job that has ended has nothing in flight, no timer, and whatever ran was told to stop.
 * 4. A job that has not ended has a reason to wake.
 * 5. Folding the journal, through JSON, gives the live state.
 * 6. Every transition of the job and its nodes is in the tables, through the states that are implied.
 * 7. The job and its nodes are in the states the model says.
 * 8. An operation that can be looked at has a time for it; one that nobody wants any more is abandoned, once.
 */
import { isDeepStrictEqual } from "node:util"
import { fold } from "../../src/core/apply/apply.ts"
import type { Fact } from "../../src/core/facts.ts"
import type { Graph } from "../../src/core/plan.ts"
import { isDelayed, isDone, isInFlight, type JobState, readNodeStatus } from "../../src/core/state.ts"
import {
  type JobStatus,
  jobHasEnded,
  jobMayBecome,
  type NodeStatus,
  nodeMayBecome,
} from "../../src/core/states.ts"
import { nextTimer, wakeAt } from "../../src/core/timers.ts"
import type { Model } from "./model.ts"
import { summaryOf } from "./summary.ts"

export interface Checked {
  readonly graph: Graph
  readonly state: JobState
  readonly model: Model
  readonly journal: readonly Fact[]
  readonly pool: ReadonlySet<string>
  readonly now: number
}

export interface Observed {
  readonly job: JobStatus
  readonly nodes: readonly NodeStatus[]
}

export function observe(state: JobState): Observed {
  return { job: state.status, nodes: Array.from(state.nodeStatus, (_, node) => readNodeStatus(state, node)) }
}

export function mustHold(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Error(otherwise)
}

/** After each single fact: invariants 2 and 6. */
export function verifyApplied({ state, graph }: Checked, before: Observed, fact: Fact): void {
  const after = observe(state)
  mustHold(
    isJobPath(before.job, after.job),
    `the job went from ${before.job} to ${after.job} by ${JSON.stringify(fact)}`,
  )
  for (const [node, status] of after.nodes.entries()) {
    const was = before.nodes[node]!
    const { id } = graph.nodes[node]!
    mustHold(isNodePath(was, status), `${id} went from ${was} to ${status} by ${JSON.stringify(fact)}`)
    const open = dependenciesOf(graph, node).filter(dependency => !isDone(state, dependency))
    mustHold(state.remaining[node] === open.length, `${id} counts ${state.remaining[node]} of ${open.length}`)
    if (isInFlight(state, node))
      mustHold(open.length === 0, `${id} is in flight before its dependencies are done`)
  }
}

/** Not recorded, but certain: what has a result has run, what runs has been handed out. */
function isNodePath(from: NodeStatus, to: NodeStatus): boolean {
  if (from === to || nodeMayBecome(from, to)) return true
  return nodeMayBecome(from, "RUNNING") && nodeMayBecome("RUNNING", to)
}

function isJobPath(from: JobStatus, to: JobStatus): boolean {
  if (from === to || jobMayBecome(from, to)) return true
  // A submission or a retry passes QUEUED and DISPATCHING within one fact.
  if (jobMayBecome(from, "QUEUED")) return to === "PROCESSING"
  return jobMayBecome(from, "PROCESSING") && jobMayBecome("PROCESSING", to)
}

function dependenciesOf({ dependencies: { starts, items } }: Graph, node: number): number[] {
  return [...items.subarray(starts[node], starts[node + 1])]
}

export function verify(checked: Checked): void {
  const { state, model, now } = checked
  const live = summaryOf(state, now)
  const expected = model.summary(now)
  mustHold(
    isDeepStrictEqual(live, expected),
    `the model says ${JSON.stringify(expected)}, the core ${JSON.stringify(live)}`,
  )
  verifyFold(checked)
  verifyOneCompletion(checked)
  verifyTimers(state)
  if (jobHasEnded(state.status)) verifyEnded(checked)
  else verifyAwake(checked)
}

/** Invariant 5. Retry times that have come are the one difference: no fact says that such a node was handed out. */
function verifyFold({ graph, journal, state, now }: Checked): void {
  const folded = fold(graph, journal)
  mustHold(isDeepStrictEqual(recorded(folded), recorded(state)), "the journal folds to another state")
  mustHold(
    isDeepStrictEqual(summaryOf(folded, now), summaryOf(state, now)),
    "the journal folds to other timers",
  )
}

function recorded({ retryAt: _, active: _a, earliestTimer: _t, polling: _p, ...rest }: JobState) {
  return rest
}

/** Invariant 1, by the journal. */
function verifyOneCompletion({ journal }: Checked): void {
  const completed = new Set<number>()
  for (const fact of journal) {
    const counts =
      fact.type === "node_completed" || fact.type === "node_skipped" || fact.type === "signal_received"
    if (!counts || fact.node === undefined) continue
    mustHold(!completed.has(fact.node), `node ${fact.node} completed twice`)
    completed.add(fact.node)
  }
}

function verifyTimers(state: JobState): void {
  const isPaused = state.paused !== null
  const times = [
    ...(isPaused ? [] : state.retryAt.values()),
    ...[...state.waiting.values()].flatMap(({ until, kind }) =>
      isPaused && kind !== "external" ? [] : (until ?? []),
    ),
    ...[...state.pollAt].flatMap(([node, at]) => (state.polling.has(node) ? [] : at)),
  ]
  if (isDelayed(state) && !isPaused) times.push(state.startAt!)
  const earliest = Math.min(...times, state.expiresAt ?? Number.POSITIVE_INFINITY)
  if (!jobHasEnded(state.status))
    mustHold((nextTimer(state) ?? Number.POSITIVE_INFINITY) <= earliest, "a timer would fire late")
}

/** Invariant 3. */
function verifyEnded({ state, pool }: Checked): void {
  mustHold(state.active === 0 && pool.size === 0, "an ended job has work in flight")
  mustHold(
    state.retryAt.size + state.waiting.size + state.started.size + state.awaitingSlot.size === 0 &&
      state.held.size === 0 &&
      state.paused === null,
    "an ended job waits for something",
  )
  mustHold(state.pollAt.size + state.polls.size + state.polling.size === 0, "an ended job would be looked at")
  mustHold(nextTimer(state) === null, "an ended job has a timer")
  // Whoever owns it next must tell its relatives; with nobody left to tell it is never looked at again.
  mustHold(wakeAt(state) === (state.unsettled ? 0 : null), "an ended job is woken for nothing, or not at all")
}

/** Invariant 4. */
function verifyAwake({ state, pool, now }: Checked): void {
  mustHold(!isDelayed(state) || pool.size === 0, "a job has begun before its start time")
  const due = [...state.retryAt.values()].filter(at => at <= now).length
  mustHold(state.active === pool.size, `${state.active} nodes count as active, workers have ${pool.size}`)
  const waitsForNews = [...state.waiting.values()].some(({ kind }) => kind !== "timer")
  const comes = waitsForNews || state.awaitingSlot.size > 0 || state.paused !== null
  mustHold(pool.size + due > 0 || wakeAt(state) !== null || comes, "nothing will ever wake the job")
  for (const [node, waiting] of state.waiting)
    mustHold(
      waiting.kind !== "external" || waiting.next_poll_at === undefined || state.pollAt.has(node),
      "an operation that can be looked at never will be",
    )
}
