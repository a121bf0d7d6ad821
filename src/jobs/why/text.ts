/** The sentences of `why`, and what would help. */

import type { NodeView, PauseView, WaitingOn } from "../../core/view/view.ts"
import { isoTime } from "../../engine/clock.ts"
import type { JobRow } from "../../journal/port/journal.ts"
import type { ReasonGroup, ReasonKind } from "./reasons.ts"

/** What only the store knows about a group. */
export interface GroupFacts {
  /** Of the provider whose slots are waited for. */
  readonly slots?: SlotFacts
  /** Of the operation at a provider. */
  readonly operation?: OperationFacts
  /** The sentence of the child job that is waited for. */
  readonly child?: string | undefined
  readonly error?: string | undefined
}

export interface SlotFacts {
  readonly held: number
  /** null: only the share of each owner is limited. */
  readonly limit: number | null
  readonly waiting: number
  /** The jobs of this owner that hold most. */
  readonly holders: readonly { readonly job_id: string; readonly slots: number; readonly since: number }[]
  readonly other_owners: number
  /** From the rate of the latest grants; null: too few are known. */
  readonly expected_ms: number | null
}

export interface OperationFacts {
  /** null: not known, because the latest webhooks of the provider do not reach back far enough. */
  readonly webhook_seen: boolean | null
  /** When the last webhook of the operation arrived; null: none did, or this is not known. */
  readonly webhook_at: number | null
}

export interface Said {
  readonly sentence: string
  readonly action: string | null
}

/** Of a paused job whose nodes wait for something else, or run. */
export function pauseText(
  pause: PauseView,
  { job, past }: { readonly job: AskedJob; readonly past: boolean },
): Said {
  const text = pausedText(pause)
  return {
    sentence: `${text[0]!.toUpperCase()}${text.slice(1)}.`,
    action: past ? null : resumeText(pause, job),
  }
}

/** Adds the pause of a job to the sentence about its nodes: the job makes no progress before both have ended. */
export function withPause({ sentence, action }: Said, pause: Said): Said {
  const isOver = action === null || pause.action === null || action.startsWith("Nothing")
  return {
    sentence: `${sentence} ${pause.sentence}`,
    action: isOver ? pause.action : `${action.replace(/\.$/, "")}; then: ${pause.action}`,
  }
}

type AskedJob = Pick<JobRow, "id" | "workflow">

/** `waiting`: how many nodes wait for something other than nodes of the job. */
export function groupText(
  group: ReasonGroup,
  facts: GroupFacts,
  { job, waiting, past }: { readonly job: AskedJob; readonly waiting: number; readonly past: boolean },
): Said {
  const [first] = group.nodes
  const count = group.nodes.length
  const isCause = group.kind !== "running" && group.kind !== "dependency"
  const several = isCause ? `${count} of ${Math.max(waiting, count)} waiting nodes` : `${count} nodes`
  const said = what(group, facts, first!)
  const one = `Node ${first!.id}${verbs[group.kind] ?? ":"} ${said}.`
  return {
    sentence: count === 1 ? one : `${several}: ${said}.`,
    action: past ? null : action(group.kind, group.subject, { job, node: first! }),
  }
}

/** Between a node and what it waits for; other kinds are clauses of their own, after a colon. */
const verbs: { readonly [kind in ReasonKind]?: string } = {
  running: " is",
  dependency: " waits for",
  slot: " waits for",
  rate: " waits for",
  retry: " waits for",
  timer: " waits for",
  signal: " waits for",
  provider: " waits for",
  child: " waits for",
  start_time: " waits for",
}

type Wait<Kind extends WaitingOn["kind"]> = Extract<WaitingOn, { kind: Kind }>

function what({ kind, subject, nodes }: ReasonGroup, facts: GroupFacts, node: NodeView): string {
  const wait = node.waiting_on
  const one = nodes.length === 1
  switch (kind) {
    case "running":
      return one && node.worker != null ? `running on ${node.worker}` : "running"
    case "dependency":
      return one ? names((wait as Wait<"dependencies">).nodes) : "wait for other nodes"
    case "slot":
      return `slot ${subject}${slotText(facts.slots, one ? (wait as Wait<"slot">).position : null)}`
    case "rate": {
      const { until } = wait as Wait<"rate">
      return `the rate of provider ${subject}${until === null ? "" : `, not before ${isoTime(until)}`}`
    }
    case "retry":
      return `attempt ${node.attempt} of ${node.max_attempts} ${one ? "" : "and others "}at ${isoTime((wait as Wait<"retry">).at)}${lastError(node)}`
    case "timer":
      return `a timer until ${isoTime((wait as Wait<"timer">).until)}${one ? "" : " and later"}`
    case "signal": {
      const { until } = wait as Wait<"signal">
      return `signal ${subject}${until === null ? "" : ` until ${isoTime(until)}`}`
    }
    case "provider":
      return `operation ${one ? `${(wait as Wait<"external">).external_id} ` : ""}at provider ${subject}${one ? operationText(wait as Wait<"external">, facts.operation) : ""}`
    case "child": {
      const { job_id, workflow } = wait as Wait<"child">
      return `child job ${job_id} of ${workflow}${facts.child === undefined ? "" : `. ${facts.child.replace(/\.$/, "")}`}`
    }
    case "items":
      return itemsText(node)
    case "no_worker":
      return noWorkerText(wait as Wait<"worker">)
    case "worker_busy": {
      const { position, queued } = wait as Wait<"worker">
      const place = position === undefined ? "" : `, position ${position} of ${queued}`
      return `all workers with handler ${subject} are busy${place}`
    }
    case "worker_refused":
      return `a worker rejected the task: ${(wait as Wait<"worker">).cause}`
    case "worker_isolated":
      return "its process died during an earlier attempt, so it waits to run alone"
    case "worker":
      return `ready for a worker with handler ${subject}; why no worker had taken it is not recorded`
    case "start_time":
      return `the start time of the job, ${isoTime((wait as Wait<"start_time">).until)}`
    case "paused":
      return pausedText(wait as Wait<"paused">)
    case "executions":
      return `${(wait as Wait<"executions">).limit} executions are running (max_executions)`
    case "job_queue": {
      const { position, position_is_minimum } = wait as Wait<"worker">
      const place =
        position === undefined
          ? ""
          : `, position ${position}${position_is_minimum === true ? " or later" : ""}`
      return `the job waits in the store for its turn${place}: jobs before it come first`
    }
    case "dispatching":
      return "it is being dispatched to a worker, or its result is being stored"
    case "owner_away":
      return `no live engine owns the job: ${(wait as Wait<"worker"> | null)?.cause ?? "its engine does not answer"}`
    case "starting":
      return "the engine is taking the job over"
    case "store_away":
      return "the database does not answer"
    case "quarantined":
      return `the job is quarantined after an internal error: ${facts.error}`
    case "unexplained":
      return "the engine found no reason, which is a defect of the engine"
    default:
      return kind
  }
}

function names(nodes: readonly string[]): string {
  const shown = nodes.slice(0, 5).join(", ")
  return nodes.length > 5 ? `${shown} and ${nodes.length - 5} more` : shown
}

function slotText(slots: SlotFacts | undefined, position: number | null): string {
  const place = position === null ? "" : `, position ${position}`
  if (slots === undefined) return place
  const { held, limit, holders, other_owners, expected_ms } = slots
  const of = limit === null ? `${held} held` : `${held} of ${limit} held`
  const [most] = holders
  const by = most === undefined ? "" : `, ${most.slots} by job ${most.job_id}`
  const others = other_owners === 0 ? "" : `, ${other_owners} by other owners`
  const soon = expected_ms === null ? "" : `, about ${Math.ceil(expected_ms / 1000)} s at the recent rate`
  return `, ${of}${by}${others}${place}${soon}`
}

function lastError({ error }: NodeView): string {
  return error === null ? "" : `; the last error: ${error.code} ${error.message.replace(/\.$/, "")}`
}

function operationText(wait: Wait<"external">, facts: OperationFacts | undefined): string {
  const { polls, last_poll_at, next_poll_at, poll_error } = wait
  const next = next_poll_at === null ? "" : `, next poll at ${isoTime(next_poll_at)}`
  const failed = poll_error === null ? "" : `, the last poll failed: ${poll_error.message.replace(/\.$/, "")}`
  const polled =
    last_poll_at === null
      ? next_poll_at === null
        ? ""
        : ", not polled yet"
      : `, polled ${polls === 1 ? "once" : `${polls} times`}, last at ${isoTime(last_poll_at)}`
  return `${webhookText(facts)}${polled}${next}${failed}`
}

function webhookText(facts: OperationFacts | undefined): string {
  if (facts === undefined) return ""
  const { webhook_seen, webhook_at } = facts
  if (webhook_at !== null) return `, last webhook at ${isoTime(webhook_at)}`
  return webhook_seen === null ? ", not known whether a webhook arrived" : ", no webhook yet"
}

function itemsText({ items, waiting_on }: NodeView): string {
  const { waits = {} } = waiting_on as Wait<"items">
  const kinds = Object.entries(waits).map(([kind, count]) => `${count} ${kind}`)
  const done = items === undefined ? "" : `${items.completed ?? 0} of ${items.total} items done`
  return [done, kinds.length === 0 ? "" : `waiting: ${kinds.join(", ")}`].filter(Boolean).join(", ")
}

function noWorkerText({
  handler,
  provider,
  last_worker,
  last_seen_at,
  cause,
  adapters,
  redis,
}: Wait<"worker">): string {
  if (adapters !== undefined) return `no engine has the adapters ${adapters.join(", ")}`
  if (redis === true) return "the engine has no Redis to reach workers"
  const last = last_worker == null ? "" : `; the last was ${last_worker}`
  const seen = last_worker == null || last_seen_at == null ? "" : `, seen at ${isoTime(last_seen_at)}`
  const known = provider === undefined ? "" : ` and provider ${provider}`
  return `${cause ?? `no live worker has handler ${handler}${known}`}${last}${seen}`
}

function resumeText({ of_workflow }: PauseView, { id, workflow }: AskedJob): string {
  return of_workflow === true
    ? `umbra workflows resume ${workflow}, or only this job: umbra jobs resume ${id}`
    : `umbra jobs resume ${id}`
}

function pausedText({ at, by, reason }: PauseView): string {
  const author = by === null ? "" : ` by ${by}`
  return `the job has been paused since ${isoTime(at)}${author}${reason === null ? "" : `: ${reason}`}`
}

function action(
  kind: ReasonKind,
  subject: string,
  { job, node }: { readonly job: AskedJob; readonly node: NodeView },
): string | null {
  const { id: jobId } = job
  switch (kind) {
    case "slot":
      return `Raise the concurrency of provider ${subject}, or cancel jobs that hold its slots.`
    case "rate":
      return `Raise the rate of provider ${subject}, or wait.`
    case "retry":
      return `Nothing: it is retried automatically. To end it: umbra jobs cancel ${jobId}`
    case "timer":
      return "Nothing: it continues automatically."
    case "signal":
      return `Send it: umbra jobs signal ${jobId} ${subject}`
    case "provider":
      return `Check the operation at provider ${subject}: GET /providers shows its failures.`
    case "child":
      return `umbra why ${(node.waiting_on as Wait<"child">).job_id}`
    case "items":
      return `umbra jobs show ${jobId} ${node.id}`
    case "no_worker":
      return `Start an engine that has handler ${subject}: umbra serve --handlers FILE; in a fleet with Redis a worker: umbra worker --handlers FILE`
    case "worker_busy":
      return "Add workers, or raise their concurrency."
    case "worker_refused":
      return "Correct the worker's configuration as its message says."
    case "worker_isolated":
      return "Add workers: each runs one such task at a time."
    case "start_time":
      return `Nothing: it starts automatically. To start it now: umbra jobs reschedule ${jobId} --delay 0s`
    case "paused":
      return resumeText(node.waiting_on as Wait<"paused">, job)
    case "executions":
      return "Wait until an execution ends, or raise max_executions."
    case "job_queue":
      return "Add workers, or give the job a higher priority when it is submitted."
    case "owner_away":
      return "Start an engine on this store: umbra serve"
    case "store_away":
      return "Check the database."
    case "quarantined":
      return `Restart its engine, or send the job a command. The engine's log has the error.`
    case "unexplained":
      return `Report it with the engine's log, and restart the engine: it loads the job again.`
    case "dependency":
      return `umbra why ${jobId} ${(node.waiting_on as Wait<"dependencies">).nodes[0]}`
    default:
      return null
  }
}
