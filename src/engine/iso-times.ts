/** Views as programs read them, over HTTP and with `--json`: times are ISO 8601 text, as those of a job are. */
import type { JobEvent } from "../core/events.ts"
import type { ItemView } from "../core/item-view.ts"
import type { Json, JsonObject } from "../core/json.ts"
import type { GraphView, NodeView, WaitingOn } from "../core/view.ts"

let last = { ms: Number.NaN, text: "" }

/** The times of a job, and of jobs answered together, are often the same one. */
export function isoTime(ms: number): string {
  if (ms !== last.ms) last = { ms, text: new Date(ms).toISOString() }
  return last.text
}

export function isoGraph(graph: GraphView) {
  return {
    ...graph,
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

export function isoNode<N extends NodeView>(node: N) {
  const { queued_at, started_at, finished_at, waiting_on } = node
  return {
    ...node,
    queued_at: maybeTime(queued_at),
    started_at: maybeTime(started_at),
    finished_at: maybeTime(finished_at),
    waiting_on: waiting_on === null ? null : isoWaiting(waiting_on),
  }
}

export function isoItem(item: ItemView) {
  const { finished_at, waiting_on } = item
  return {
    ...item,
    finished_at: maybeTime(finished_at),
    waiting_on: waiting_on === null ? null : isoWaiting(waiting_on),
  }
}

export function isoEvent(event: JobEvent) {
  return { ...event, at: isoTime(event.at), payload: isoPayload(event.payload) }
}

function isoWaiting(waiting: WaitingOn) {
  if (waiting.kind === "retry") return { ...waiting, at: isoTime(waiting.at) }
  if (waiting.kind === "external") {
    const { next_poll_at, until } = waiting
    return { ...waiting, next_poll_at: maybeTime(next_poll_at), until: maybeTime(until) }
  }
  return "until" in waiting ? { ...waiting, until: maybeTime(waiting.until) } : waiting
}

/** What is a user's own (an output, a signal's data) stays as it is: only what the engine calls a time is one. */
function isoPayload(payload: JsonObject): JsonObject {
  const told = isoFields(payload, ["expires_at", "retry_at", "started_at", "next_poll_at"])
  const { waiting } = told
  return waiting === undefined
    ? told
    : { ...told, waiting: isoFields(waiting as JsonObject, ["until", "next_poll_at"]) }
}

function isoFields(values: JsonObject, names: readonly string[]): JsonObject {
  const told: Record<string, Json> = { ...values }
  for (const name of names) if (typeof told[name] === "number") told[name] = isoTime(told[name])
  return told
}

function maybeTime(ms: number | null): string | null {
  return ms === null ? null : isoTime(ms)
}
