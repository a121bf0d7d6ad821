import type { DecisionContext, External, OperationResult, Refusal, Submitted } from "../commands.ts"
import type { ExternalWaiting, Fact } from "../facts.ts"
import { isRateLimited } from "../faults.ts"
import { isDone, type JobState, operationOf, resumeToken } from "../state.ts"
import { wholeTime } from "../whole-time.ts"
import { pollDelay } from "./backoff.ts"
import { failure, jobResult, refuse } from "./failure.ts"

/**
 * Operations at providers: webhook or poll, whichever arrives first, once (X4).
 *
 * 1. A report counts only for the operation that the node waits for right now; of two that report its end, the second is
 *    a duplicate.
 * 2. A failed poll says nothing about the operation: the wait continues until the policy or the job's time limit ends it,
 *    unless no poll can ever succeed.
 */
export function submitted(command: Submitted, given: DecisionContext): Fact {
  const { node, attempt, provider, externalId, poll, ttlSeconds } = command
  const at = given.now
  const waiting: ExternalWaiting = {
    kind: "external",
    provider,
    external_id: externalId,
    ...(poll === null ? {} : { next_poll_at: wholeTime(at + pollDelay(poll, 0, given.random)) }),
    ...(ttlSeconds === null ? {} : { until: wholeTime(at + ttlSeconds * 1000) }),
  }
  return { type: "node_waiting", at, node, attempt, waiting }
}

export function operationNews(
  state: JobState,
  command: External,
  given: DecisionContext,
): readonly Fact[] | Refusal {
  const { node, externalId } = command
  if (!(node >= 0 && node < state.nodeStatus.length)) return refuse("no_such_node")
  if (isDone(state, node)) return refuse("duplicate")
  const operation = operationOf(state, node)
  if (operation?.external_id !== externalId) return refuse("stale_operation")
  // The operation is not followed at the moment, but it belongs to the node: its result counts, other reports lead to a poll.
  const isFollowed = operation === state.waiting.get(node)
  if (!isFollowed && command.result.type !== "completed") return refuse("stale_operation")
  if (command.resumeToken !== undefined && command.resumeToken !== resumeToken(state))
    return refuse("stale_token")
  return newsOf(state, command, given)
}

function newsOf(state: JobState, command: External, given: DecisionContext): readonly Fact[] {
  const { node, result, source: via } = command
  const at = given.now
  const attempt = state.attempt[node]!
  switch (result.type) {
    case "completed": {
      const usage = result.usage === undefined ? {} : { usage: result.usage }
      const { output } = result
      const overtaken = state.waiting.has(node) ? {} : ({ overtaken: true } as const)
      return [
        {
          ...{ type: "node_completed", at, node, attempt, output, ...usage, via, ...overtaken },
          ...jobResult(command),
        },
      ]
    }
    case "failed":
      return [
        {
          ...failure(state, node, result.fault, given),
          via,
          ...(result.usage === undefined ? {} : { usage: result.usage }),
        },
      ]
    case "error":
      return !isRateLimited(result.fault) && isOneTooMany(state, command)
        ? [{ ...failure(state, node, result.fault, given), abandoned: true }]
        : nextLook(state, command, given)
    case "running":
      return [...nextLook(state, command, given), ...preview(state, command, result, at)]
    case "hint":
    case "postponed":
      return nextLook(state, command, given)
  }
}

function isOneTooMany(state: JobState, { node, poll, result }: External): boolean {
  if (result.type === "error" && result.isFinal === true) return true
  const most = poll?.maxErrors ?? null
  return most !== null && (state.polls.get(node)?.errors ?? 0) + 1 > most
}

/** A webhook that only reports "still running" changes nothing: the next poll runs at its time. */
function nextLook(state: JobState, command: External, given: DecisionContext): readonly Fact[] {
  const { node, poll, result, source } = command
  if (poll === null || (source === "webhook" && result.type !== "hint")) return []
  const because = reasonOf(result as NoEnd)
  const next_poll_at = wholeTime(nextLookAt(state, command, given))
  const fault = result.type === "error" ? { fault: result.fault } : {}
  const attempt = state.attempt[node]!
  return [{ type: "poll_scheduled", at: given.now, node, attempt, next_poll_at, because, ...fault }]
}

type NoEnd = Exclude<OperationResult, { type: "completed" | "failed" }>

/** A provider that asks for a pause is not one that cannot be polled. */
function reasonOf(result: NoEnd): NoEnd["type"] {
  return result.type === "error" && isRateLimited(result.fault) ? "postponed" : result.type
}

function nextLookAt(state: JobState, { node, poll, result }: External, given: DecisionContext): number {
  if (result.type === "hint") return given.now
  if (result.type === "postponed") return Math.max(given.now, result.until)
  const planned = given.now + pollDelay(poll!, (state.polls.get(node)?.count ?? 0) + 1, given.random)
  const asked = result.type === "error" ? (result.fault.retry_after_seconds ?? 0) : 0
  return Math.max(planned, given.now + asked * 1000)
}

/** A repeated equal preview is not recorded. */
function preview(
  state: JobState,
  { node }: External,
  result: Extract<OperationResult, { type: "running" }>,
  at: number,
): readonly Fact[] {
  const data = result.preview
  if (data === undefined || JSON.stringify(data) === JSON.stringify(state.previews.get(node))) return []
  return [{ type: "preview_published", at, node, attempt: state.attempt[node]!, data }]
}
