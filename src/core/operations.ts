import { leaveFlight } from "./begin.ts"
import type { Effects } from "./effects.ts"
import type { NodeFailed, PollScheduled, SlotAwaited, SlotGranted } from "./facts.ts"
import type { JobState } from "./state.ts"

/** What facts mean for the operations at providers that nodes wait for: the part of `apply` that knows them. */

export function operationHappened(
  state: JobState,
  fact: SlotAwaited | SlotGranted | PollScheduled,
  effects: Effects,
): void {
  switch (fact.type) {
    case "slot_awaited":
      leaveFlight(state, fact.node)
      state.awaitingSlot.set(fact.node, fact.provider)
      break
    case "slot_granted":
      state.awaitingSlot.delete(fact.node)
      state.active++
      effects.dispatch(fact.node, fact.attempt)
      break
    case "poll_scheduled":
      pollScheduled(state, fact)
  }
}

function pollScheduled(state: JobState, { node, next_poll_at, because, fault }: PollScheduled): void {
  state.polling.delete(node)
  setPoll(state, node, next_poll_at)
  if (because !== "running" && because !== "error") return
  const { count, errors } = state.polls.get(node) ?? { count: 0, errors: 0 }
  const isError = because === "error"
  state.polls.set(node, {
    count: count + 1,
    errors: isError ? errors + 1 : 0,
    fault: isError ? (fault ?? null) : null,
  })
}

export function setPoll(state: JobState, node: number, at: number): void {
  state.pollAt.set(node, at)
  state.earliestTimer = Math.min(state.earliestTimer, at)
}

/** What could not be followed may still run: the same again is recognised by its key, and given up for good it is cancelled. */
export function operationFailed(state: JobState, fact: NodeFailed, effects: Effects): void {
  const waiting = state.waiting.get(fact.node)
  if (waiting?.kind !== "external") return
  if (fact.abandoned === true) {
    if (fact.retry_at === undefined) effects.abandon(fact.node, waiting)
    return
  }
  operationEnded(state, fact.node)
  effects.operationFailed(fact.node)
}

/** The job ends before its operations do. */
export function abandonAll(state: JobState, effects: Effects): void {
  for (const [node, waiting] of state.waiting) {
    if (waiting.kind !== "external") continue
    operationEnded(state, node)
    effects.abandon(node, waiting)
  }
  state.pollAt.clear()
  state.polls.clear()
  state.polling.clear()
}

/** Over without a result: whoever is asked to do it again must not take it for the same. */
function operationEnded(state: JobState, node: number): void {
  state.operations.set(node, (state.operations.get(node) ?? 0) + 1)
}

/** Every way in which a wait ends while the job goes on. */
export function resumed(state: JobState, node: number): void {
  state.resumes++
  state.pollAt.delete(node)
  state.polls.delete(node)
  state.polling.delete(node)
}
