/** Views as a server writes them, with the times that core reckons with: milliseconds since 1970. */
import type { RemoteEvent, RemoteGraph, RemoteNode } from "../../client/index.ts"
import type { JobEvent } from "../../core/events.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import type { GraphView, NodeView, UnseenOperation, WaitingOn } from "../../core/view.ts"

export function graphFrom({ unseen_operations, ...graph }: RemoteGraph): GraphView {
  const unseen = unseen_operations?.map(each => timed(each, ["since", "held_until"]) as UnseenOperation)
  return {
    ...graph,
    ...(unseen === undefined ? {} : { unseen_operations: unseen }),
    nodes: graph.nodes.map(nodeFrom),
    waiting_for: graph.waiting_for.map(waiting => timed(waiting, waits)) as GraphView["waiting_for"],
  }
}

function nodeFrom(node: RemoteNode): NodeView {
  const { waiting_on } = node
  return {
    ...timed(node, ["queued_at", "started_at", "finished_at"]),
    waiting_on: waiting_on === null ? null : (timed(waiting_on, waits) as WaitingOn),
  } as NodeView
}

export function eventFrom(event: RemoteEvent): JobEvent {
  const payload = timed(event.payload, ["expires_at", "retry_at", "started_at", "next_poll_at"]) as JsonObject
  const { waiting } = payload
  return {
    ...timed(event, ["at"]),
    payload:
      waiting === undefined ? payload : { ...payload, waiting: timed(waiting as JsonObject, waits) as Json },
  } as JobEvent
}

/** What the particulars of a wait call times. */
const waits = ["at", "until", "next_poll_at"]

/** Only what is called a time is one: an output may hold any text. */
function timed(value: object, names: readonly string[]): object {
  const told = { ...value } as Record<string, unknown>
  for (const name of names) if (typeof told[name] === "string") told[name] = Date.parse(told[name])
  return told
}
