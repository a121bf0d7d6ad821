import type { Effects } from "../effects.ts"
import { isInFlight, type JobState, PENDING, QUEUED } from "../state.ts"

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

export function beginHeld(state: JobState, at: number, effects: Effects): void {
  const { nodeStatus, remaining } = state
  for (; state.room > 0 && state.nextHeld < nodeStatus.length; state.nextHeld++) {
    const node = state.nextHeld
    if (nodeStatus[node] !== PENDING || remaining[node] !== 0) continue
    state.room--
    enqueue(state, node, at, effects)
  }
}

export function enqueue(state: JobState, node: number, at: number, effects: Effects): void {
  state.nodeStatus[node] = QUEUED
  state.queuedAt[node] = at
  state.active++
  effects?.push({ type: "dispatch", node, item: undefined, attempt: state.attempt[node]! })
}

/** In replay a retry time may still be set when the result of that same try arrives: the node was not counted as active. */
export function leaveFlight(state: JobState, node: number): void {
  if (!isInFlight(state, node)) return
  if (!state.retryAt.delete(node) && !state.awaitingSlot.delete(node)) state.active--
}
