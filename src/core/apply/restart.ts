import { resetPolicy } from "../attempt-times.ts"
import type { Effects } from "../effects.ts"
import type { JobRetried } from "../facts.ts"
import { isDone, type JobState, ownCounters, PENDING } from "../state.ts"
import { setExpiry } from "../timers.ts"
import { begin, handedOut } from "./apply.ts"
import { retryItems } from "./items.ts"

/** J10: exactly the nodes that are not COMPLETED or SKIPPED run again. Each gets a new attempt number: an aborted attempt may still be running. */
export function retried(state: JobState, fact: JobRetried, at: number, effects: Effects): void {
  state.status = "DISPATCHING"
  state.finishedAt = null
  state.fault = null
  state.endedAs = null
  state.endReason = null
  state.output = undefined
  state.unsettled = false
  state.orphans = []
  setExpiry(state, fact.expires_at)
  // A job that was cancelled before its start time begins now.
  if (state.startAt !== null && state.startAt > at) state.startAt = at
  ownCounters(state)
  countRemaining(state)
  state.failures = 0
  state.room = state.places
  state.nextHeld = state.nodeStatus.length
  for (let node = 0; node < state.nodeStatus.length; node++) {
    if (isDone(state, node)) continue
    // The items of a list begin again, each by itself; the list is expanded once.
    if (!state.lists.has(node)) resetPolicy(state, node)
    state.nodeStatus[node] = PENDING
    state.attempt[node]!++
    state.tries[node] = 0
    state.losses[node] = 0
    state.suspects.delete(node)
    state.queuedAt[node] = 0
    state.endedAt[node] = 0
    state.faults.delete(node)
    state.previews.delete(node)
    if (state.lists.has(node)) retryItems(state, node, { fact: { ...fact, at }, effects })
    else if (state.remaining[node] === 0) begin(state, node, at, effects)
  }
  handedOut(state)
}

function countRemaining(state: JobState): void {
  const { starts, items } = state.graph.dependencies
  for (let node = 0; node < state.remaining.length; node++) {
    let open = 0
    // A node whose result was set by a fork is done before its dependencies are.
    if (isDone(state, node)) {
      state.remaining[node] = 0
      continue
    }
    for (let i = starts[node]!; i < starts[node + 1]!; i++) if (!isDone(state, items[i]!)) open++
    state.remaining[node] = open
  }
}
