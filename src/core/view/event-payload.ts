import { abortedStart, findAborted } from "../attempt-times.ts"
import type * as facts from "../facts.ts"
import { executionsFullIn, type Fault } from "../faults.ts"
import type { Json, JsonObject } from "../json.ts"
import { findTask, type JobState, shownOutput, skippedOutput } from "../state.ts"
import type { JobStatus, NodeStatus } from "../states.ts"
import { attemptFields } from "./attempt-view.ts"
import type { EventSource } from "./events.ts"
import { abortReason } from "./reasons.ts"
import { reusedField } from "./view.ts"

/** The payload of an event: details of the fact that caused it. */

/** `state`: before the fact. */
export function eventSource(state: JobState, fact: facts.Fact): EventSource {
  switch (fact.type) {
    case "job_submitted":
    case "job_cancelled":
    case "job_retried":
    case "job_deleted":
    case "job_paused":
    case "job_resumed":
    case "job_rescheduled":
    case "job_described":
      return "command"
    case "job_started":
    case "job_expired":
      return "timer"
    case "signal_received":
      return "signal"
    case "node_completed":
    case "node_failed":
      return resultSource(state, fact.node, fact)
    case "preview_published": {
      const place = findTask(state, fact)
      return place?.state.waiting.get(place.position)?.kind === "external" ? "provider" : "worker"
    }
    case "item_completed":
    case "item_failed":
      return resultSource(state.lists.get(fact.node)!.state, fact.item, fact)
    case "node_started":
    case "node_waiting":
    case "item_started":
    case "item_waiting":
    case "attempt_aborted":
      return "worker"
    case "poll_scheduled":
      return "provider"
    case "slot_awaited":
    case "slot_granted":
    case "node_skipped":
    case "tasks_lost":
    case "job_failed":
    case "job_settled":
    case "node_expanded":
    case "items_lost":
      return "engine"
  }
}

/**
 * A waiting node is resumed by its provider, its timer or a signal that had arrived early, or else by the worker that
 * runs it. A result that overtook an attempt came from the provider: there the operation had continued.
 */
function resultSource(state: JobState, node: number, fact: facts.Fact): EventSource {
  if ("overtaken" in fact) return "provider"
  const { at } = fact
  const waiting = state.waiting.get(node)
  if (waiting === undefined) return "worker"
  if (waiting.kind === "external") return "provider"
  if (waiting.kind === "child") return "engine"
  if (waiting.until !== undefined && waiting.until <= at) return "timer"
  return waiting.kind === "signal" && (state.signals.get(waiting.name)?.length ?? 0) > 0 ? "signal" : "worker"
}

/** `job`: after the fact, which records when the handler of an attempt that had ended began, or what it used. */
export function abortedPayload(
  job: JobState,
  fact: facts.AttemptAborted & { readonly at: number },
): JsonObject {
  const { ran_ms, worker, usage, at } = fact
  const run = findAborted(job, fact)
  const place = findTask(job, fact)
  const isCurrent = place?.state.attempt[place.position] === fact.attempt
  const known = isCurrent ? place!.state.startedAt[place!.position]! : 0
  const startedAt = run === null || ran_ms === undefined ? null : known || abortedStart(run, ran_ms, at)
  return {
    ...(startedAt === null ? {} : { started_at: startedAt, duration_ms: ran_ms! }),
    worker,
    ...(usage === undefined ? {} : { usage }),
  }
}

/** What people did to the job as a whole. */
export function aboutJobPayload(
  fact: facts.JobPaused | facts.JobResumed | facts.JobRescheduled | facts.JobDescribed,
): JsonObject {
  const by = { by: fact.by ?? null }
  switch (fact.type) {
    case "job_paused":
      return { ...by, reason: fact.reason ?? null }
    case "job_resumed":
      return by
    case "job_rescheduled":
      return { ...by, start_at: fact.start_at }
    case "job_described":
      return {
        ...by,
        ...(fact.labels === undefined ? {} : { labels: fact.labels }),
        ...(fact.note === undefined ? {} : { note: fact.note }),
      }
  }
}

export function plainPayload(fact: facts.SlotAwaited | facts.SlotGranted | facts.PollScheduled): JsonObject {
  if (fact.type === "slot_granted") return {}
  if (fact.type === "slot_awaited") return { provider: fact.provider }
  const fault = fact.fault === undefined ? {} : { fault: faultJson(fact.fault) }
  return { because: fact.because, next_poll_at: fact.next_poll_at, ...fault }
}

/** `state`: after the fact, of the job or of one of its lists. */
export function nodePayload(
  state: JobState,
  node: number,
  { fact, to, isNamed, job }: { fact: facts.Fact; to: NodeStatus; isNamed: boolean; job: JobState },
): JsonObject {
  switch (to) {
    case "QUEUED":
      return queuedPayload(state, node, { fact, isNamed })
    case "RUNNING":
      return fact.type === "node_started" ? { worker: fact.worker, started_at: state.startedAt[node]! } : {}
    case "WAITING":
      if (state.lists.has(node)) return { items: state.lists.get(node)!.items.length }
      return fact.type === "node_waiting"
        ? { waiting: fact.waiting as unknown as Json, ...reportedPayload(state, node, fact) }
        : {}
    case "COMPLETED":
      return completedPayload(state, node, fact)
    case "SKIPPED":
      return { output: skippedOutput }
    case "FAILED":
      return { ...failedPayload(state, node, fact), ...(isNamed ? reportedPayload(state, node, fact) : {}) }
    case "CANCELLED":
      return {
        reason: fact.type === "node_failed" || fact.type === "item_failed" ? "job_failed" : fact.type,
        message: abortReason(job),
      }
    case "PENDING":
      return { reason: "job_retried" }
  }
}

function queuedPayload(
  state: JobState,
  node: number,
  { fact, isNamed }: { fact: facts.Fact; isNamed: boolean },
): JsonObject {
  if (isNamed && fact.type === "node_failed") {
    const { fault, postponed, at, retry_at = at } = fact
    const place = executionsFullIn(fault)
    const why =
      place === null
        ? { reason: postponed === true ? "postponed" : "retry", fault: faultJson(fault) }
        : { reason: "executions", ...place }
    return {
      ...why,
      retry_at,
      ...reportedPayload(state, node, fact),
      ...viaField(fact),
    }
  }
  if (fact.type === "tasks_lost") return { reason: fact.handed_over ? "handed_over" : "lost" }
  return { reason: fact.type === "job_retried" ? "job_retried" : "dependencies_done" }
}

function completedPayload(state: JobState, node: number, fact: facts.Fact): JsonObject {
  return {
    output: shownOutput(state.outputs[node] ?? null),
    ...reusedField(state, node),
    ...reportedPayload(state, node, fact),
    ...viaField(fact),
  }
}

/** The worker's report with the end of its attempt: how long it ran, how long it had been queued, its usage. */
function reportedPayload(state: JobState, node: number, fact: facts.Fact): JsonObject {
  switch (fact.type) {
    case "node_completed":
    case "node_failed":
    case "node_waiting": {
      const { ran_ms, usage, log_lines, log_run, attempt: fence } = fact
      const { queued_ms } = attemptFields(state, node, fact.at)
      return {
        ...(ran_ms === undefined ? {} : { duration_ms: ran_ms }),
        ...(ran_ms === undefined || queued_ms === null ? {} : { queued_ms }),
        ...(usage === undefined ? {} : { usage }),
        // Its lines are stored by the fence: attempts that were postponed show the same number.
        ...(log_lines === undefined ? {} : { logged: loggedField(log_lines, log_run, fence) }),
      }
    }
    default:
      return {}
  }
}

function loggedField(lines: number, run: number | undefined, fence: number): JsonObject {
  return run === undefined ? { lines, fence } : { lines, fence, run }
}

/** How the end of an operation at a provider was reported: by webhook, or by poll. */
function viaField(fact: facts.Fact): { readonly via?: string } {
  return "via" in fact && fact.via !== undefined ? { via: fact.via } : {}
}

function failedPayload(state: JobState, node: number, fact: facts.Fact): JsonObject {
  const failed = state.faults.get(node)
  if (failed === undefined) return {}
  const cause = failed.cause === undefined ? {} : { cause: state.graph.nodes[failed.cause]!.id }
  const item = failed.item === undefined ? {} : { item: failed.item }
  const via = failed.cause === undefined && failed.item === undefined ? viaField(fact) : {}
  return { fault: faultJson(failed.fault), ...cause, ...item, ...via }
}

/** `state`: after the fact. */
export function jobPayload(state: JobState, fact: facts.Fact, to: JobStatus): JsonObject {
  switch (to) {
    case "PENDING":
      return fact.type === "job_submitted" ? submittedPayload(fact) : {}
    case "QUEUED":
      if (fact.type === "job_started") return { reason: "job_started", expires_at: fact.expires_at }
      return fact.type === "job_retried" ? { reason: "job_retried", expires_at: fact.expires_at } : {}
    case "PREVIEW":
      return fact.type === "preview_published"
        ? {
            node: state.graph.nodes[fact.node]!.id,
            ...(fact.item === undefined ? {} : { item: fact.item }),
            data: fact.data,
          }
        : {}
    case "COMPLETED":
      return state.output === undefined ? {} : { output: state.output }
    case "FAILED":
      return jobFailedPayload(state)
    case "CANCELLED":
    case "EXPIRED":
      return { reason: state.endReason }
    default:
      return {}
  }
}

function submittedPayload(fact: facts.JobSubmitted): JsonObject {
  const { owner, workflow, workflow_version, input, expires_at, priority, labels } = fact
  const parent = fact.parent === undefined ? {} : { parent_id: fact.parent.job_id }
  const by = fact.submitted_by === undefined ? {} : { submitted_by: fact.submitted_by }
  const paused = fact.paused === undefined ? {} : { paused: fact.paused }
  const from = fact.fork === undefined ? {} : { forked_from: fact.fork.job_id }
  const own = fact.definition === undefined ? {} : { definition: fact.definition }
  const start = fact.start_at === undefined ? {} : { start_at: fact.start_at }
  const schedule = fact.schedule === undefined ? {} : { schedule: { ...fact.schedule } }
  const shown = { owner, workflow, workflow_version, input, expires_at, priority, labels: labels ?? {} }
  return { ...shown, ...parent, ...by, ...from, ...own, ...start, ...paused, ...schedule }
}

function jobFailedPayload({ fault, graph }: JobState): JsonObject {
  if (fault === null) return {}
  const node = fault.node === undefined ? {} : { node: graph.nodes[fault.node]!.id }
  return { fault: faultJson(fault.fault), ...node }
}

function faultJson(fault: Fault): JsonObject {
  return { ...fault } as unknown as JsonObject
}
