/** Views for programs, over HTTP and with `--json`: times are ISO 8601 text, as in the snapshot of a job. */

import type { Json, JsonObject } from "../core/json.ts"
import type { AttemptView } from "../core/view/attempt-history.ts"
import type { AttemptFields } from "../core/view/attempt-view.ts"
import type { JobEvent } from "../core/view/events.ts"
import type { ItemView } from "../core/view/item-view.ts"
import type { LiveGraph, LiveItems, LiveTask } from "../core/view/live-view.ts"
import type { GraphView, NodeView, WaitingOn } from "../core/view/view.ts"
import { isoTime, maybeTime } from "../engine/clock.ts"
import type { JobDurations } from "../journal/job-durations.ts"
import type { Compared } from "./compare/compare.ts"
import type { GraphAt, ItemsAt } from "./facts.ts"
import type { Place } from "./history.ts"
import type { LogLine, LogPage } from "./logs/logs.ts"
import type { ItemPage, NodeDetails } from "./queries.ts"

export function isoGraph({ live, ...graph }: GraphView) {
  return {
    ...graph,
    paused: graph.paused === undefined ? undefined : { ...graph.paused, at: isoTime(graph.paused.at) },
    live: live === undefined ? undefined : live === null ? null : isoLiveNodes(live),
    nodes: graph.nodes.map(node => isoNode(node)),
    waiting_for: graph.waiting_for.map(({ node, ...waiting }) => ({ node, ...isoWaiting(waiting) })),
    ...(graph.unseen_operations === undefined
      ? {}
      : {
          unseen_operations: graph.unseen_operations.map(({ since, held_until, ...of }) => {
            return { ...of, since: isoTime(since), held_until: isoTime(held_until) }
          }),
        }),
  }
}

/** `GET /jobs/{job}/graph?at=` */
export function isoGraphAt({ moment, routes, ...graph }: GraphAt) {
  const { seq, index, at } = moment
  return {
    moment: { seq, index, at: isoTime(at) },
    ...isoGraph(graph),
    routes,
  }
}

/** `GET /jobs/{job}/logs` */
export function isoLogLine({ at, ...line }: LogLine) {
  return { ...line, at: isoTime(at) }
}

export function isoLogPage({ lines, ...page }: LogPage) {
  return { lines: lines.map(isoLogLine), ...page }
}

/** `GET /jobs/compare` */
export function isoCompared({ moments: { a, b }, ...compared }: Compared) {
  const written = (place: Place) => ({ ...place, at: isoTime(place.at) })
  return { ...compared, moments: { a: written(a), b: written(b) } }
}

function isoNode(node: NodeView) {
  return { ...node, ...isoAttempt(node) }
}

/** `GET /jobs/{job}/nodes/{node}` */
export function isoNodeDetails({ live, ...node }: NodeDetails) {
  return {
    ...node,
    ...isoAttempt(node),
    attempts: node.attempts.map(isoAttemptView),
    live: live === undefined ? undefined : live === null ? null : isoLiveNodes(live),
  }
}

function isoItem(item: ItemView) {
  return { ...item, ...isoAttempt(item) }
}

function isoAttempt(node: AttemptFields & Pick<NodeView, "waiting_on">) {
  const { queued_at, started_at, finished_at, last_attempt, waiting_on } = node
  return {
    queued_at: maybeTime(queued_at),
    started_at: maybeTime(started_at),
    finished_at: maybeTime(finished_at),
    waiting_on: waiting_on === null ? null : isoWaiting(waiting_on),
    ...(last_attempt === undefined
      ? {}
      : {
          last_attempt: {
            ...last_attempt,
            started_at: maybeTime(last_attempt.started_at),
            ended_at: isoTime(last_attempt.ended_at),
          },
        }),
  }
}

export function isoItems({ items, next, live }: ItemPage) {
  return {
    items: items.map(isoItem),
    next,
    live: live === undefined ? undefined : live === null ? null : isoLiveItems(live),
  }
}

export function isoItemsAt({ items, next, moment }: ItemsAt) {
  return { items: items.map(isoItem), next, moment: { ...moment, at: isoTime(moment.at) } }
}

function isoLiveNodes({ nodes, ...live }: LiveGraph) {
  return { ...live, at: isoTime(live.at), nodes: nodes.map(isoTask) }
}

function isoLiveItems({ at, items }: LiveItems) {
  return { at: isoTime(at), items: items.map(isoTask) }
}

function isoTask<T extends LiveTask>(task: T) {
  const { started_at, waiting_on } = task
  return {
    ...task,
    started_at: maybeTime(started_at),
    waiting_on: waiting_on === null ? null : isoWaiting(waiting_on),
  }
}

function isoAttemptView(attempt: AttemptView) {
  const { queued_at, started_at, ended_at, waits } = attempt
  return {
    ...attempt,
    queued_at: isoTime(queued_at),
    started_at: maybeTime(started_at),
    ended_at: maybeTime(ended_at),
    waits: waits.map(wait => ({ ...wait, from: isoTime(wait.from), until: maybeTime(wait.until) })),
  }
}

export function isoEvent(event: JobEvent) {
  return { ...event, at: isoTime(event.at), payload: isoPayload(event.payload) }
}

export function isoWaiting(waiting: WaitingOn) {
  if (waiting.kind === "retry" || waiting.kind === "paused") return { ...waiting, at: isoTime(waiting.at) }
  if (waiting.kind === "external") {
    const { last_poll_at, next_poll_at, until } = waiting
    const polls = { last_poll_at: maybeTime(last_poll_at), next_poll_at: maybeTime(next_poll_at) }
    return { ...waiting, ...polls, until: maybeTime(until) }
  }
  if (waiting.kind === "worker") {
    const { last_seen_at, ...rest } = waiting
    return last_seen_at === undefined ? rest : { ...rest, last_seen_at: maybeTime(last_seen_at) }
  }
  return "until" in waiting ? { ...waiting, until: maybeTime(waiting.until) } : waiting
}

/** Data of the user (an output, a signal's data) is unchanged: only fields that the engine defines as times are formatted. */
function isoPayload(payload: JsonObject): JsonObject {
  const times = isoFields(payload, ["start_at", "expires_at", "retry_at", "started_at", "next_poll_at"])
  const { waiting, schedule } = times
  return {
    ...times,
    ...(waiting === undefined
      ? {}
      : { waiting: isoFields(waiting as JsonObject, ["until", "next_poll_at"]) }),
    ...(schedule === undefined ? {} : { schedule: isoFields(schedule as JsonObject, ["tick"]) }),
  }
}

function isoFields(values: JsonObject, names: readonly string[]): JsonObject {
  const formatted: Record<string, Json> = { ...values }
  for (const name of names)
    if (typeof formatted[name] === "number") formatted[name] = isoTime(formatted[name])
  return formatted
}

/** Points of a chart, with times as text. */
export function isoDurations({ from, before, points, jobs, complete }: JobDurations) {
  return {
    from: isoTime(from),
    before: isoTime(before),
    points: points.map(({ at, durationMs: duration_ms, status, count, jobId: job_id }) => ({
      at: isoTime(at),
      duration_ms,
      status,
      count,
      job_id,
    })),
    jobs,
    complete,
  }
}
