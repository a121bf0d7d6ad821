import type { Effects } from "../effects.ts"
import type { ForkRecord, JobSubmitted, ReusedList, ReusedNode } from "../facts.ts"
import { newItemList, valueAt } from "../item-list.ts"
import type { Json } from "../json.ts"
import { readItems } from "../payloads.ts"
import {
  COMPLETED,
  isDone,
  type JobState,
  LargeOutput,
  ListOutput,
  type Output,
  ownCounters,
  ownMap,
  SKIPPED,
  skippedOutput,
  WAITING,
} from "../state.ts"
import { end, handedOut, setJobResult, startAll } from "./apply.ts"
import { within } from "./items.ts"

/**
 * The beginning of a fork: what it takes over is done, the rest begins as in every other job.
 *
 * 1. Nothing that is taken over is dispatched, counted as usage, or begun again when its dependencies end: a result that
 *    the request of the fork sets may be there before them.
 * 2. The outputs are in facts of other jobs (`LargeOutput.jobId`); `fillReused` replaces those that fit into memory.
 */
export function startFork(
  state: JobState,
  fact: JobSubmitted,
  fork: ForkRecord,
  at: number,
  effects: Effects,
): void {
  ownCounters(state)
  state.forkedFrom = fork.job_id
  state.reused = new Map<number, string | null>()
  for (const reused of fork.nodes) takeOver(state, fact, fork, reused, at)
  for (const child of fork.children ?? []) rememberForkedChild(state, child)
  for (const { node } of fork.nodes) if (isDone(state, node)) countDown(state, node)
  startAll(state, at, effects)
  for (const { node } of fork.nodes) {
    state.remaining[node] = 0
    if (state.nodeStatus[node] === WAITING) within(state, node, effects, list => startAll(list, at, effects))
  }
  handedOut(state)
  if (state.unfinished > 0) return
  setJobResult(state, fact)
  end(state, state.fault === null ? "COMPLETED" : "FAILED", at, effects)
}

/** Below zero: no dependency that ends makes the node ready. */
const NEVER_READY = -1

function takeOver(
  state: JobState,
  { pinned }: JobSubmitted,
  fork: ForkRecord,
  reused: ReusedNode,
  at: number,
): void {
  const { jobs } = fork
  const { node } = reused
  state.remaining[node] = NEVER_READY
  if ("list" in reused) {
    takeOverList(state, reused, { fork, at })
    return
  }
  if ("skipped" in reused) setDone(state, node, { status: SKIPPED, output: skippedOutput, at })
  else {
    const output = "pinned" in reused ? pinnedOutput(pinned, reused.pinned) : reference(jobs, reused)
    setDone(state, node, { status: COMPLETED, output, at })
  }
  // No fact of another job is needed for a node that was skipped: the origin has skipped it, or taken it over.
  if ("pinned" in reused) noteReused(state, node, null)
  else noteReused(state, node, "job" in reused ? jobs[reused.job]! : fork.job_id)
}

/** A record whose payloads are left out has no list here. */
function pinnedOutput(pinned: JobSubmitted["pinned"], index: number): Json {
  return Array.isArray(pinned) ? (pinned[index] as Json) : null
}

function reference(
  jobs: readonly string[],
  { job, seq }: { readonly job: number; readonly seq: number },
): Output {
  return new LargeOutput(seq, 0, jobs[job]!)
}

function setDone(
  state: JobState,
  node: number,
  { status, output, at }: { status: number; output: Output; at: number },
): void {
  state.nodeStatus[node] = status
  state.outputs[node] = output
  state.endedAt[node] = at
  state.unfinished--
}

function noteReused(state: JobState, position: number, jobId: string | null): void {
  ;(state.reused as Map<number, string | null>).set(position, jobId)
}

/** The list becomes what it would be if these items had completed in this job. */
function takeOverList(
  state: JobState,
  reused: Extract<ReusedNode, { readonly list: ReusedList }>,
  { fork, at }: { readonly fork: ForkRecord; readonly at: number },
): void {
  const { jobs } = fork
  const { node, list: source } = reused
  const list = newItemList(state, node, knownItems(state, source))
  ownCounters(list.state)
  list.state.reused = new Map<number, string | null>()
  for (const [item, job, seq] of reused.items) {
    list.state.remaining[item] = NEVER_READY
    setDone(list.state, item, { status: COMPLETED, output: reference(jobs, { job, seq }), at })
    noteReused(list.state, item, jobs[job]!)
  }
  ownMap(state, "lists").set(node, list)
  state.nodeStatus[node] = WAITING
  ownMap(state, "waitingSince").set(node, at)
  if (list.state.unfinished > 0) return
  end(list.state, "COMPLETED", at, undefined)
  setDone(state, node, { status: COMPLETED, output: new ListOutput(list.state.outputs), at })
  const holders = new Set(list.state.reused.values())
  const [holder = fork.job_id] = holders.size === 1 ? holders : []
  noteReused(state, node, holder)
}

/** The list as far as the fact and the input contain it; its length is always known. `fillReused` sets the rest. */
function knownItems(state: JobState, source: ReusedList): readonly Json[] {
  const found = "input" in source ? valueAt(state.input, source.input) : undefined
  return Array.isArray(found) ? found : readItems(new Array<null>(source.count).fill(null))
}

function rememberForkedChild(state: JobState, { node, item, job_id }: ForkedChildOf): void {
  const owner = item === undefined ? state : state.lists.get(node)?.state
  if (owner === undefined) return
  if (owner.forkedChildren.size === 0) owner.forkedChildren = new Map()
  ;(owner.forkedChildren as Map<number, string>).set(item ?? node, job_id)
}

type ForkedChildOf = NonNullable<ForkRecord["children"]>[number]

function countDown(state: JobState, node: number): void {
  const { starts, items } = state.graph.successors
  for (let i = starts[node]!; i < starts[node + 1]!; i++) state.remaining[items[i]!]!--
}

/** What was read from other jobs for a fork. */
export interface ReusedValues {
  /** By the seq of its fact: an output, or a reference with its size if it is too large for memory. */
  readonly outputs: ReadonlyMap<number, Output>
  /** By node with `for_each`: its list. */
  readonly lists: ReadonlyMap<number, readonly Json[]>
}

/** Replaces references to other jobs. Called before anything else happens to the job. */
export function fillReused(state: JobState, fork: ForkRecord, { outputs, lists }: ReusedValues): void {
  for (const reused of fork.nodes) {
    const { node } = reused
    if ("seq" in reused) {
      state.outputs[node] = outputs.get(reused.seq) ?? state.outputs[node]
      continue
    }
    if (!("list" in reused)) continue
    const list = state.lists.get(node)!
    for (const [item, , seq] of reused.items)
      list.state.outputs[item] = outputs.get(seq) ?? list.state.outputs[item]
    const items = lists.get(node)
    if (items !== undefined) ownMap(state, "lists").set(node, { items, state: list.state })
    const whole = state.outputs[node]
    if (whole instanceof ListOutput) whole.partLeft()
  }
}
