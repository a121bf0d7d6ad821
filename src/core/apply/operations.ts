import type { Effects } from "../effects.ts"
import type { ExternalWaiting, Fact, NodeFailed } from "../facts.ts"
import { FAILED, findOperation, followed, type JobState, ownMap } from "../state.ts"
import { leaveFlight } from "./apply.ts"

/** The part of `apply` for operations at providers that nodes wait for. */

export function operationHappened(
  state: JobState,
  fact: Extract<Fact, { type: "slot_awaited" | "slot_granted" | "poll_scheduled" }>,
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
      effects?.push({ type: "dispatch", node: fact.node, item: undefined, attempt: fact.attempt })
      break
    case "poll_scheduled":
      pollScheduled(state, fact)
  }
}

function pollScheduled(
  state: JobState,
  { node, at, next_poll_at, because, fault }: Extract<Fact, { type: "poll_scheduled" }>,
): void {
  state.polling.delete(node)
  setPoll(state, node, next_poll_at)
  if (because !== "running" && because !== "error") return
  const { count, errors } = state.polls.get(node) ?? { count: 0, errors: 0 }
  const isError = because === "error"
  state.polls.set(node, {
    count: count + 1,
    at,
    errors: isError ? errors + 1 : 0,
    fault: isError ? (fault ?? null) : null,
  })
}

export function setPoll(state: JobState, node: number, at: number): void {
  state.pollAt.set(node, at)
  state.earliestTimer = Math.min(state.earliestTimer, at)
}

/** An operation that could not be followed may still run: a retry is recognised by its key; if the node fails permanently, the operation is cancelled. */
export function operationFailed(state: JobState, fact: NodeFailed, effects: Effects): void {
  const { node, retry_at } = fact
  const isFollowed = state.waiting.get(node)?.kind === "external"
  if (isFollowed && fact.abandoned !== true) {
    operationEnded(state, node)
    effects?.push({ type: "operation_failed", node, item: undefined })
    return
  }
  const operation = findOperation(state, node)
  if (retry_at === undefined) {
    if (operation === null) return
    operationEnded(state, node)
    effects?.push({ type: "abandon", node, item: undefined, operation })
  } else if (fact.postponed !== true) mayRun(state, node, operation)
}

/** An attempt ended without an answer. */
export function mayRun(state: JobState, node: number, operation: ExternalWaiting | null = null): void {
  if (state.graph.nodes[node]!.provider == null && operation === null) return
  ownMap(state, "unfollowed").set(node, operation ?? state.unfollowed.get(node) ?? null)
}

/** The job ends before its operations do. */
export function abandonAll(state: JobState, effects: Effects): void {
  for (const [node, waiting] of state.waiting) {
    if (waiting.kind !== "external") continue
    operationEnded(state, node)
    effects?.push({ type: "abandon", node, item: undefined, operation: waiting })
  }
  for (const [node, operation] of state.unfollowed) {
    // A node that failed by itself has had its answer, and a retry of the job submits the same again.
    if (operation === null && state.nodeStatus[node] === FAILED) continue
    if (operation === null) unanswered(state, node, effects)
    else effects?.push({ type: "abandon", node, item: undefined, operation })
    operationEnded(state, node)
  }
  state.pollAt.clear()
  state.polls.clear()
  state.polling.clear()
}

/** The job ends while a submission may be in flight. The provider must not take a submission of a retried job for the same. */
export function submissionLeft(state: JobState, node: number, effects: Effects): void {
  if (state.graph.nodes[node]!.provider == null) return
  unanswered(state, node, effects)
  if (!state.unfollowed.has(node)) operationEnded(state, node)
}

/** Call before the operation counts as ended. */
export function unanswered(state: JobState, node: number, effects: Effects): void {
  effects?.push({
    ...{ type: "unanswered", node, item: undefined, attempt: state.attempt[node]! },
    operation: state.operations.get(node) ?? 0,
    isSubmitted: state.unfollowed.get(node) === null,
  })
}

/** The operation ended without a result: the provider must not take the next submission for the same. */
function operationEnded(state: JobState, node: number): void {
  state.operations.set(node, (state.operations.get(node) ?? 0) + 1)
  followed(state, node)
}

/** Every way in which a wait ends while the job continues. */
export function resumed(state: JobState, node: number): void {
  state.resumes++
  state.pollAt.delete(node)
  state.polls.delete(node)
  state.polling.delete(node)
}
