import {
  abortedFact,
  findAborted,
  ranFields,
  uncountedOfChildren,
  wholeMs,
  withRunning,
} from "../attempt-times.ts"
import type {
  AttemptRef,
  Command,
  Completed,
  DecisionContext,
  Refusal,
  Reported,
  Submit,
} from "../commands.ts"
import type { Fact, JobSubmitted, NodeCompleted, Ran, Waiting } from "../facts.ts"
import { type Fault, isRateLimited } from "../faults.ts"
import type { JsonObject } from "../json.ts"
import {
  findTask,
  isDelayed,
  isDone,
  isInFlight,
  type JobState,
  RUNNING,
  resumeToken,
  type TaskRef,
  WAITING,
} from "../state.ts"
import { jobHasEnded, jobMayBecome } from "../states.ts"
import { isBlamed, lostTooOften, startFact } from "../suspects.ts"
import { outputWhenDue } from "../timers.ts"
import { expiry, failure, postponement, recordPolicy, refuse, waitForPlace } from "./backoff.ts"
import { describe, pause, resume } from "./describe.ts"
import { operationReport, submitted } from "./external.ts"
import { decideItem, handOverItems, recoverItems, waiterFor, wakeItems } from "./items.ts"
import { removeDelayed, reschedule, start, startTime } from "./start.ts"

/**
 * The rules: whether a command is legal, and the facts it becomes. Changes nothing.
 *
 * 1. A result counts only for the current attempt of a node that is in flight or waiting: at most one is accepted.
 * 2. A job that has ended accepts only `retry`, `delete`, `describe`, `settle`, and the usage of its aborted attempts
 *    and its children.
 * 3. Only failures spend the user's retries; a lost process counts against its own limit, and a provider that asks for
 *    a pause spends nothing.
 */
export function decide(
  state: JobState,
  command: Command,
  context: DecisionContext,
): readonly Fact[] | Refusal {
  if (command.type === "hand_over" && command.ran !== undefined) {
    const { ran, ...plain } = command
    return decide(state, plain, { ...context, running: () => ran })
  }
  const decided = decideFacts(state, command, context)
  return context.running === undefined ? decided : withRunning(state, decided, context.running)
}

/** The rules alone: also those of the items of a list, which the job's `running` does not cover. */
export function decideFacts(
  state: JobState,
  command: Command,
  context: DecisionContext,
): readonly Fact[] | Refusal {
  switch (command.type) {
    case "submit":
      return submit(state, command, context)
    case "retry":
      return isChanged(command, context) ? refuse("job_changed") : retry(state, command, context)
    case "delete":
      return isChanged(command, context) ? refuse("job_changed") : remove(state, command, context)
    case "settle":
      return settle(state, command, context.now)
    case "count_usage": {
      const used = uncountedOfChildren(state, command.used)
      if (used.length === 0 || state.status === "DELETED") return refuse("duplicate")
      return [{ type: "job_settled", at: context.now, used, late: true }]
    }
    case "aborted":
      return aborted(state, command, context.now)
    case "describe":
      return describe(state, command, context.now)
    case "cancel":
      return isChanged(command, context) ? refuse("job_changed") : decideUnended(state, command, context)
    default:
      return decideUnended(state, command, context)
  }
}

function decideUnended(
  state: JobState,
  command: RunningCommand,
  context: DecisionContext,
): readonly Fact[] | Refusal {
  return (state.status === "PENDING" && state.startAt === null) || state.finishedAt !== null
    ? refuse(isRepeated(state, command) ? "duplicate" : "job_ended")
    : decideRunning(state, command, context)
}

export type ItemCommand = Exclude<Extract<Command, TaskRef>, { type: "expand" | "skip" | "aborted" }> & {
  readonly item: number
}

function isOfItem(command: Command): command is ItemCommand {
  return "item" in command && command.item !== undefined
}

type RunningCommand = Exclude<
  Command,
  { type: "submit" | "retry" | "delete" | "settle" | "count_usage" | "aborted" | "describe" }
>

function decideRunning(
  state: JobState,
  command: RunningCommand,
  context: DecisionContext,
): readonly Fact[] | Refusal {
  if (isOfItem(command)) return decideItem(state, command, context)
  const at = context.now
  switch (command.type) {
    case "cancel": {
      const reason = command.reason?.trim() === "" ? undefined : command.reason
      return [{ type: "job_cancelled", at, reason, ...ofOperation(command) }]
    }
    case "pause":
      return pause(state, command, at)
    case "resume":
      return resume(state, command, at)
    case "reschedule":
      return reschedule(state, command, at)
    case "fail_job":
      // Nothing of a delayed job has begun that could fail.
      if (isDelayed(state)) return refuse("nothing_due")
      return [{ type: "job_failed", at, fault: command.fault }]
    case "signal":
      return signal(state, command, at)
    case "external":
      return operationReport(state, command, context)
    case "grant_slot":
      return grantSlot(state, command.node, at)
    case "wake":
      return isDelayed(state) ? start(state, command, at) : wake(state, context)
    case "recover":
      return recover(state, command.only, context)
    case "hand_over":
      return handOver(state, command.only, context)
    default:
      return fence(state, command) ?? decideResult(state, command, context)
  }
}

type AttemptCommand = Exclude<Extract<Command, { node: number; attempt: number }>, { type: "aborted" }>

function grantSlot(state: JobState, node: number, at: number): readonly Fact[] | Refusal {
  return state.awaitingSlot.has(node)
    ? [{ type: "slot_granted", at, node, attempt: state.attempt[node]! }]
    : refuse("duplicate")
}

function decideResult(
  state: JobState,
  command: AttemptCommand,
  context: DecisionContext,
): readonly Fact[] | Refusal {
  const { node, attempt } = command
  const at = context.now
  switch (command.type) {
    case "started": {
      const fact = startFact(state, command, context)
      return fact === null ? refuse("duplicate") : [fact]
    }
    case "completed":
      return [completed(state, command, at)]
    case "failed":
      return [{ ...decideFailure(state, command, context), ...reported(state, command) }]
    case "waiting":
      return startWaiting(state, command, at)
    case "await_slot":
      return [{ type: "slot_awaited", at, node, attempt, provider: command.provider }]
    case "submitted":
      return [{ ...submitted(command, context), ...reported(state, command) }]
    case "expand":
      return [{ type: "node_expanded", at, node, attempt, ...listFields(command) }]
    case "skip":
      return [{ type: "node_skipped", at, node }]
    case "preview":
      return [{ type: "preview_published", at, node, attempt, data: command.data }]
  }
}

/** What the worker reported on the attempt besides its outcome. */
function reported(state: JobState, { times, usage }: Reported): Ran & { usage?: JsonObject } {
  const ran = ranFields(state, times)
  return usage === undefined ? ran : { ...ran, usage }
}

function listFields({ items, source }: Extract<Command, { type: "expand" }>) {
  return source === undefined ? { items } : { items_of: source }
}

function decideFailure(
  state: JobState,
  { node, fault, hasNoPlace }: Extract<Command, { type: "failed" }>,
  context: DecisionContext,
): Fact {
  return hasNoPlace ? waitForPlace(state, node, fault, context) : attemptFailed(state, node, fault, context)
}

function attemptFailed(state: JobState, node: number, fault: Fault, context: DecisionContext): Fact {
  const isAtProvider = state.graph.nodes[node]!.provider != null
  return isAtProvider && fault.retryable && isRateLimited(fault)
    ? postponement(state, node, fault, context)
    : failure(state, node, fault, context)
}

/**
 * Invariant 1. A waiting node has no worker any more: only its own completion, failure or preview may arrive, and if
 * it waits for a provider only reports on that operation (external.ts).
 */
function fence(state: JobState, command: AttemptCommand): Refusal | null {
  const { node, attempt } = command
  if (!(node >= 0 && node < state.nodeStatus.length)) return refuse("no_such_node")
  if (attempt !== state.attempt[node]) return refuse("stale_attempt")
  if (
    state.retryAt.has(node) ||
    state.awaitingSlot.has(node) ||
    (state.held.size > 0 && state.held.has(node))
  )
    return refuse("stale_attempt")
  if (isInFlight(state, node)) {
    const isForQueued = command.type === "skip" || command.type === "await_slot"
    const tooLate = isForQueued && state.nodeStatus[node] === RUNNING
    return tooLate ? refuse("node_running") : null
  }
  const resumes = command.type === "completed" || command.type === "failed" || command.type === "preview"
  // No command addresses all items of a list.
  const isOpen =
    state.nodeStatus[node] === WAITING &&
    state.waiting.get(node)?.kind !== "external" &&
    !state.lists.has(node)
  return resumes && isOpen ? null : refuse("duplicate")
}

function submit(state: JobState, command: Submit, context: DecisionContext): readonly Fact[] | Refusal {
  const isNew = state.status === "PENDING" && state.startAt === null
  return isNew ? [submission(command, context.now)] : refuse("job_exists")
}

type Submission = JobSubmitted & { readonly at: number }

/** The first fact of a new job. `isQueued`: it is not dispatched yet. Built by hand: spreads show in profiles of bulk submissions. */
export function submission(command: Submit, at: number, isQueued = false): Submission {
  const { labels, traceparent, submittedBy, parent, retryDefaults } = command
  const fact: Writable<JobSubmitted & { at: number }> = {
    type: "job_submitted",
    at,
    owner: command.owner,
    workflow: command.workflow,
    workflow_version: command.workflowVersion === 0 ? null : command.workflowVersion,
    input: command.input,
    ttl_seconds: command.ttlSeconds,
    expires_at: expiry(command.ttlSeconds, at, command.expiresBy),
    priority: command.priority,
  }
  if (labels !== undefined) fact.labels = labels
  if (traceparent !== undefined) fact.traceparent = traceparent
  if (submittedBy !== undefined) fact.submitted_by = submittedBy
  if (parent !== undefined) fact.parent = parent
  if (retryDefaults !== undefined) fact.retry_defaults = recordPolicy(retryDefaults)
  const startAt = startTime(command, at)
  if (startAt !== null) {
    fact.start_at = startAt
    fact.expires_at = null
  } else if (isQueued) fact.queued = true
  if (command.paused !== undefined) fact.paused = command.paused
  if (command.schedule !== undefined) {
    fact.schedule = command.schedule
    if (command.operation !== undefined) fact.operation = command.operation
  }
  return command.fork === undefined ? fact : { ...fact, ...forkFields(command) }
}

function forkFields({ fork, pinned, operation, definition, result }: Submit): Partial<JobSubmitted> {
  return {
    fork: fork!,
    pinned,
    operation,
    ...(definition === undefined ? {} : { definition: definition.hash }),
    ...result,
  }
}

type Writable<T> = { -readonly [K in keyof T]: T[K] }

/** By far the commonest fact, built by hand: with spreads it took ten times as long. */
function completed(state: JobState, command: Completed, at: number): Fact {
  const { node, attempt, output, times, usage } = command
  const type = "node_completed"
  const fact: Writable<NodeCompleted & { at: number }> =
    times === undefined
      ? { type, at, node, attempt, output }
      : { type, at, node, attempt, output, ran_ms: wholeMs(times.ranMs) }
  if (times !== undefined) {
    const held = wholeMs(times.heldMs)
    if (held > 0) fact.held_ms = held
    if (times.logLines !== undefined) fact.log_lines = times.logLines
    if (times.logRun !== undefined) fact.log_run = times.logRun
    if (times.worker !== state.worker) fact.worker = times.worker
  }
  if (usage !== undefined) fact.usage = usage
  return fact
}

function startWaiting(
  state: JobState,
  command: Extract<Command, { type: "waiting" }>,
  at: number,
): readonly Fact[] {
  const { node, attempt, waiting } = command
  const fact: Fact = { type: "node_waiting", at, node, attempt, waiting, ...reported(state, command) }
  if (waiting.kind !== "signal") return [fact]
  const kept = state.signals.get(waiting.name)
  if (kept === undefined || kept.length === 0) return [fact]
  // The signal arrived before a node waited for it.
  return [fact, { type: "node_completed", at, node, attempt, output: kept[0]! }]
}

function signal(
  state: JobState,
  command: Extract<Command, { type: "signal" }>,
  at: number,
): readonly Fact[] | Refusal {
  const { name, data } = command
  const by = command.by == null ? {} : { by: command.by }
  if (command.resumeToken !== undefined && command.resumeToken !== resumeToken(state))
    return refuse("stale_token")
  const { waiting, ...waiter } = waiterFor(state, name) ?? { waiting: null }
  if (!isCheckedFor(waiting?.schema, command.checkedWith)) return refuse("other_schema")
  return [{ type: "signal_received", at, name, data, ...by, ...waiter }]
}

/** Schemas are compared as they are stored: every process reads the same text. */
function isCheckedFor(schema: JsonObject | undefined, checkedWith: JsonObject | null | undefined): boolean {
  if (schema === undefined || checkedWith === undefined) return true
  return JSON.stringify(schema) === JSON.stringify(checkedWith)
}

function wake(state: JobState, context: DecisionContext): readonly Fact[] | Refusal {
  const at = context.now
  if (state.expiresAt !== null && state.expiresAt <= at) return [{ type: "job_expired", at }]
  const facts: Fact[] = []
  for (const [node, waiting] of state.waiting) {
    if (waiting.until === undefined || waiting.until > at) continue
    if (state.paused !== null && waiting.kind !== "external") continue
    // J17: an operation that exceeds its provider's time limit expires the job.
    if (waiting.kind === "external") return [...facts, { type: "job_expired", at, node }]
    const output = outputWhenDue(waiting)
    // The job ends here: all other due timers end with it.
    if (output === undefined) return [...facts, failure(state, node, timedOut(waiting), context)]
    // The last node of a job is woken alone: outputs that are not in memory are read before that decision.
    if (facts.length > 0 && facts.length === state.unfinished - 1) break
    facts.push({ type: "node_completed", at, node, attempt: state.attempt[node]!, output })
  }
  if (facts.length > 0) return facts
  const ofItems = wakeItems(state, context)
  return ofItems.length > 0 ? ofItems : refuse("nothing_due")
}

function timedOut(waiting: Waiting): Fault {
  const name = waiting.kind === "signal" ? waiting.name : ""
  return { code: "E416", message: `Signal "${name}" did not arrive in time.`, retryable: false }
}

function recover(
  state: JobState,
  only: readonly AttemptRef[] | undefined,
  context: DecisionContext,
): readonly Fact[] | Refusal {
  const isMeant = isAmong(state, only)
  const lost: number[] = []
  let blamed: number | null = null
  for (let node = 0; node < state.nodeStatus.length; node++) {
    if (!isInFlight(state, node) || state.awaitingSlot.has(node) || state.held.has(node)) continue
    if (!isMeant(node)) continue
    const retryAt = state.retryAt.get(node)
    if (retryAt !== undefined && (retryAt > context.now || state.paused !== null)) continue
    if (blamed === null && isBlamed(state, node, context)) blamed = node
    else lost.push(node)
  }
  const failed = blamed === null ? [] : [lostTooOften(state, blamed, context)]
  // The job ends here: the other lost attempts end with it.
  if (failed.length > 0 && !state.continuesOnFailure) return failed
  const ofItems = recoverItems(state, only, context)
  if (endsTheJob(state, ofItems.at(-1))) return ofItems
  const facts: Fact[] = lost.length > 0 ? [{ type: "tasks_lost", at: context.now, nodes: lost }] : []
  // Last: it may end the list, and the job with it.
  facts.push(...ofItems, ...failed)
  return facts.length > 0 ? facts : refuse("nothing_due")
}

function endsTheJob({ lists }: JobState, fact: Fact | undefined): boolean {
  return fact?.type === "item_failed" && !lists.get(fact.node)!.state.continuesOnFailure
}

/** Attempts that are not known to have begun keep their number: the next owner dispatches them unchanged. */
function handOver(
  state: JobState,
  only: readonly AttemptRef[] | undefined,
  context: DecisionContext,
): readonly Fact[] | Refusal {
  const isMeant = isAmong(state, only)
  const begun = new Set(state.started.keys())
  for (const { node, item } of context.running?.() ?? []) if (item === undefined) begun.add(node)
  const nodes = [...begun].filter(node => isInFlight(state, node) && isMeant(node))
  const facts: Fact[] = handOverItems(state, only, context).slice()
  if (nodes.length > 0) facts.unshift({ type: "tasks_lost", at: context.now, nodes, handed_over: true })
  return facts.length > 0 ? facts : refuse("nothing_due")
}

/** Is the node's current attempt one of these? Absent: all are meant. */
function isAmong(state: JobState, only: readonly AttemptRef[] | undefined): (node: number) => boolean {
  if (only === undefined) return () => true
  const attempts = new Map<number, number>()
  for (const { node, item, attempt } of only) if (item === undefined) attempts.set(node, attempt)
  return node => attempts.get(node) === state.attempt[node]
}

/** The condition of a bulk operation: the job is still in the run, or at the end, in which the operation found it. */
function isChanged(command: OfOperation, { turnSeq = 0 }: DecisionContext): boolean {
  return command.onlyIf !== undefined && turnSeq > command.onlyIf.seq
}

type OfOperation = Extract<Command, { type: "cancel" | "retry" | "delete" }>

function ofOperation({ operation }: OfOperation): { operation?: string } {
  return operation === undefined ? {} : { operation }
}

function retry(
  state: JobState,
  command: Extract<Command, { type: "retry" }>,
  context: DecisionContext,
): readonly Fact[] | Refusal {
  if (!jobHasEnded(state.status)) return refuse("job_not_ended")
  if (!jobMayBecome(state.status, "QUEUED")) return refuse("job_final")
  if (state.unfinished === 0) return refuse("nothing_to_retry")
  const expires_at = expiry(state.ttlSeconds, context.now, command.expiresBy)
  return [{ type: "job_retried", at: context.now, expires_at, ...ofOperation(command) }]
}

function settle(
  state: JobState,
  command: Extract<Command, { type: "settle" }>,
  at: number,
): readonly Fact[] | Refusal {
  if (!state.unsettled) return refuse("settled")
  const used = uncountedOfChildren(state, command.used ?? [])
  return [{ type: "job_settled", at, used: used.length === 0 ? undefined : used }]
}

/** A report on an attempt that another fact has ended, perhaps together with the job. */
function aborted(
  state: JobState,
  command: Extract<Command, { type: "aborted" }>,
  at: number,
): readonly Fact[] | Refusal {
  if (state.status === "DELETED") return refuse("job_final")
  const run = findAborted(state, command)
  if (run === null) return refuse("stale_attempt")
  const fact = abortedFact(run, command)
  return fact === null ? refuse("duplicate") : [{ at, ...fact }]
}

function remove(
  state: JobState,
  command: Extract<Command, { type: "delete" }>,
  context: DecisionContext,
): readonly Fact[] | Refusal {
  if (state.status === "DELETED") return refuse("job_final")
  if (isDelayed(state)) return removeDelayed(ofOperation(command), context.now)
  if (!jobHasEnded(state.status)) return refuse("job_not_ended")
  return [{ type: "job_deleted", at: context.now, ...ofOperation(command) }]
}

/** A result that the job already has, sent a second time. */
function isRepeated(state: JobState, command: Command): boolean {
  if (command.type !== "completed") return false
  const place = findTask(state, command)
  if (place?.state.attempt[place.position] !== command.attempt) return false
  return isDone(place.state, place.position)
}
