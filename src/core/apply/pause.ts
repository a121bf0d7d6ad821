import type { Effects } from "../effects.ts"
import type { JobDescribed, JobPaused } from "../facts.ts"
import {
  isDone,
  isInFlight,
  type JobState,
  noneHeld,
  type Pause,
  RUNNING,
  type TaskRef,
  taskKey,
} from "../state.ts"
import { resetEarliestTimer } from "../timers.ts"
import { handedOut } from "./apply.ts"

/**
 * The part of `apply` for pauses. While a job is paused its ready nodes and items are held: they are QUEUED, and not in
 * flight. Timers and retries that become due wait; operations at providers are followed.
 */

/** Every attempt that no worker has is held. Slots that they wait for, or hold, are released. */
export function paused(state: JobState, fact: JobPaused & { readonly at: number }, effects: Effects): void {
  const { at, by = null, reason = null, kept = [] } = fact
  const keys = new Set(kept.map(taskKey))
  // The dispatch of a job that waited in the store is not recorded, but certain.
  if (state.status === "QUEUED" && keys.size > 0) state.status = "PROCESSING"
  setPaused(state, { at, by, reason, ofWorkflow: false })
  holdAll(
    state,
    at,
    node => keys.has(taskKey({ node })),
    node => released(state, node, { node }, effects),
  )
  for (const [node, { state: list }] of openLists(state)) {
    const before = list.active
    const isKept = (item: number) => keys.has(taskKey({ node, item }))
    holdAll(list, at, isKept, item => released(list, item, { node, item }, effects))
    state.active += list.active - before
  }
  resetEarliestTimer(state)
}

/** The pause of a job that is submitted while its workflow is paused. */
export function submittedPause(
  { by = null, reason = null }: { readonly by?: string | null; readonly reason?: string | null },
  at: number,
): Pause {
  return { at, by, reason, ofWorkflow: true }
}

export function resumed(state: JobState, effects: Effects): void {
  setPaused(state, null)
  // A job that waits in the store is dispatched when its queue has room.
  const dispatched = state.status === "QUEUED" ? undefined : effects
  state.active += dispatchHeld(state, node => ({ node }), dispatched)
  for (const [node, { state: list }] of openLists(state)) {
    const count = dispatchHeld(list, item => ({ node, item }), dispatched)
    list.active += count
    state.active += count
  }
  if (state.status === "DISPATCHING") handedOut(state)
  resetEarliestTimer(state)
}

/** The job has ended. */
export function forgetPause(state: JobState): void {
  if (state.paused === null) return
  setPaused(state, null)
  releaseHeld(state)
  for (const { state: list } of state.lists.values()) releaseHeld(list)
}

function setPaused(state: JobState, pause: Pause | null): void {
  state.paused = pause
  for (const { state: list } of state.lists.values()) list.paused = pause
}

/** A retry time that has passed counts as due: its dispatch is not recorded. */
function holdAll(
  own: JobState,
  at: number,
  isKept: (position: number) => boolean,
  onHeld: (position: number) => void,
): void {
  for (let position = 0; position < own.nodeStatus.length; position++) {
    if (!isInFlight(own, position) || own.held.has(position)) continue
    if (isKept(position) || own.nodeStatus[position] === RUNNING) {
      if (own.retryAt.delete(position)) own.active++
      continue
    }
    const retryAt = own.retryAt.get(position)
    if (retryAt !== undefined && retryAt > at) continue
    if (!own.retryAt.delete(position) && !own.awaitingSlot.delete(position)) own.active--
    hold(own, position)
    onHeld(position)
  }
}

/** An operation that may be running without being followed keeps its slot. */
function released(own: JobState, position: number, { node, item }: TaskRef, effects: Effects): void {
  if (own.graph.nodes[position]!.provider == null || own.unfollowed.has(position)) return
  effects?.push({ type: "release_slot", node, item })
}

function dispatchHeld(own: JobState, ref: (position: number) => TaskRef, effects: Effects): number {
  const held = releaseHeld(own)
  for (const position of held) {
    const { node, item } = ref(position)
    effects?.push({ type: "dispatch", node, item, attempt: own.attempt[position]! })
  }
  return held.size
}

function openLists(state: JobState) {
  return [...state.lists].filter(([node]) => !isDone(state, node))
}

/** Labels and the note. */
export function described(
  state: JobState,
  { labels, note, by, at }: JobDescribed & { readonly at: number },
): void {
  if (labels !== undefined) state.labels = labels
  if (note === null) state.note = null
  else if (note !== undefined) state.note = { text: note, at, by: by ?? null }
}

/** The node is ready, and does not begin. */
export function hold(state: JobState, node: number): void {
  if (state.held === noneHeld) state.held = new Set()
  ;(state.held as Set<number>).add(node)
}

/** Returns the nodes that were held. */
function releaseHeld(state: JobState): ReadonlySet<number> {
  const { held } = state
  state.held = noneHeld
  return held
}
