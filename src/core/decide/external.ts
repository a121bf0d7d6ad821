import type { DecisionContext, External, OperationResult, Refusal, Submitted } from "../commands.ts"
import type { ExternalWaiting, Fact } from "../facts.ts"
import { isRateLimited } from "../faults.ts"
import { findOperation, isDone, type JobState, resumeToken } from "../state.ts"
import { failure, pollDelay, refuse, wholeTime } from "./backoff.ts"

/**
 * Operations at providers: webhook or poll, whichever arrives first, once (X4).
 *
 * 1. A report counts only for the operation that the node waits for right now; of two that report its end, the second is
 *    a duplicate.
 * 2. A failed poll says nothing about the operation: the wait continues until the policy or the job's time limit ends it,
 *    unless no poll can ever succeed.
 */
export function submitted(command: Submitted, context: DecisionContext): Fact {
  const { node, attempt, provider, externalId, poll, ttlSeconds } = command
  const at = context.now
  const waiting: ExternalWaiting = {
    kind: "external",
    provider,
    external_id: externalId,
    ...(poll === null ? {} : { next_poll_at: wholeTime(at + pollDelay(poll, 0, context.random)) }),
    ...(ttlSeconds === null ? {} : { until: wholeTime(at + ttlSeconds * 1000) }),
  }
  return { type: "node_waiting", at, node, attempt, waiting }
}

export function operationReport(
  state: JobState,
  command: External,
  context: DecisionContext,
): readonly Fact[] | Refusal {
  const { node, externalId } = command
  if (!(node >= 0 && node < state.nodeStatus.length)) return refuse("no_such_node")
  if (isDone(state, node)) return refuse("duplicate")
  const operation = findOperation(state, node)
  if (operation?.external_id !== externalId) return refuse("stale_operation")
  // The operation is not followed at the moment, but it belongs to the node: its result counts, other reports lead to a poll.
  const isFollowed = operation === state.waiting.get(node)
  if (!isFollowed && command.result.type !== "completed") return refuse("stale_operation")
  if (command.resumeToken !== undefined && command.resumeToken !== resumeToken(state))
    return refuse("stale_token")
  return reportFacts(state, command, context)
}

function reportFacts(state: JobState, command: External, context: DecisionContext): readonly Fact[] {
  const { node, result, source: via } = command
  const at = context.now
  const attempt = state.attempt[node]!
  switch (result.type) {
    case "completed": {
      const usage = result.usage === undefined ? {} : { usage: result.usage }
      const { output } = result
      const overtaken = state.waiting.has(node) ? {} : ({ overtaken: true } as const)
      return [{ type: "node_completed", at, node, attempt, output, ...usage, via, ...overtaken }]
    }
    case "failed":
      return [
        {
          ...failure(state, node, result.fault, context),
          via,
          usage: result.usage,
        },
      ]
    case "error":
      return !isRateLimited(result.fault) && exceedsMaxErrors(state, command)
        ? [{ ...failure(state, node, result.fault, context), abandoned: true }]
        : nextPoll(state, command, context)
    case "running":
      return [...nextPoll(state, command, context), ...preview(state, command, result, at)]
    case "hint":
    case "postponed":
      return nextPoll(state, command, context)
  }
}

function exceedsMaxErrors(state: JobState, { node, poll, result }: External): boolean {
  if (result.type === "error" && result.isFinal === true) return true
  const most = poll?.maxErrors ?? null
  return most !== null && (state.polls.get(node)?.errors ?? 0) + 1 > most
}

/** A webhook that only reports "still running" changes nothing: the next poll runs at its time. */
function nextPoll(state: JobState, command: External, context: DecisionContext): readonly Fact[] {
  const { node, poll, result, source } = command
  if (poll === null || (source === "webhook" && result.type !== "hint")) return []
  const because = pollReason(result as NoEnd)
  const next_poll_at = wholeTime(nextPollAt(state, command, context))
  const fault = result.type === "error" ? { fault: result.fault } : {}
  const attempt = state.attempt[node]!
  return [{ type: "poll_scheduled", at: context.now, node, attempt, next_poll_at, because, ...fault }]
}

type NoEnd = Exclude<OperationResult, { type: "completed" | "failed" }>

/** A provider that asks for a pause is not one that cannot be polled. */
function pollReason(result: NoEnd): NoEnd["type"] {
  return result.type === "error" && isRateLimited(result.fault) ? "postponed" : result.type
}

function nextPollAt(state: JobState, { node, poll, result }: External, context: DecisionContext): number {
  if (result.type === "hint") return context.now
  if (result.type === "postponed") return Math.max(context.now, result.until)
  const planned = context.now + pollDelay(poll!, (state.polls.get(node)?.count ?? 0) + 1, context.random)
  const asked = result.type === "error" ? (result.fault.retry_after_seconds ?? 0) : 0
  return Math.max(planned, context.now + asked * 1000)
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
