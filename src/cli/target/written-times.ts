/** Converts views of a server: times become milliseconds since 1970, as in the core. */
import type { RemoteEvent, RemoteGraph, RemoteNode, RemoteNodeDetails } from "../../client/index.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import type { AttemptView } from "../../core/view/attempt-history.ts"
import type { JobEvent } from "../../core/view/events.ts"
import type { LiveGraph, LiveNode } from "../../core/view/live-view.ts"
import type { GraphView, NodeView, UnseenOperation, WaitingOn } from "../../core/view/view.ts"
import type { NodeDetails } from "../../jobs/queries.ts"

export function graphFrom({ live, unseen_operations, ...graph }: RemoteGraph): GraphView {
  const unseen = unseen_operations?.map(each => timed(each, ["since", "held_until"]) as UnseenOperation)
  return {
    ...graph,
    ...(live === undefined ? {} : { live: live === null ? null : liveFrom(live) }),
    ...(unseen === undefined ? {} : { unseen_operations: unseen }),
    nodes: graph.nodes.map(nodeFrom),
    waiting_for: graph.waiting_for.map(waiting => timed(waiting, waits)) as GraphView["waiting_for"],
  }
}

function liveFrom({ at, nodes }: NonNullable<RemoteGraph["live"]>): LiveGraph {
  return {
    at: Date.parse(at),
    nodes: nodes.map(node => {
      const { waiting_on } = node
      const waiting = waiting_on === null ? null : timed(waiting_on, waits)
      return { ...timed(node, ["started_at"]), waiting_on: waiting } as LiveNode
    }),
  }
}

function nodeFrom(node: RemoteNode): NodeView {
  const { waiting_on, last_attempt } = node
  return {
    ...timed(node, ["queued_at", "started_at", "finished_at"]),
    waiting_on: waiting_on === null ? null : (timed(waiting_on, waits) as WaitingOn),
    ...(last_attempt === undefined ? {} : { last_attempt: timed(last_attempt, ["started_at", "ended_at"]) }),
  } as NodeView
}

export function nodeDetailsFrom(node: RemoteNodeDetails): NodeDetails {
  const attempts = node.attempts.map(attempt => ({
    ...timed(attempt, ["queued_at", "started_at", "ended_at"]),
    waits: attempt.waits.map(wait => timed(wait, ["from", "until"])),
  })) as unknown as AttemptView[]
  const { live, ...details } = node
  return {
    ...details,
    ...nodeFrom(node),
    attempts,
    ...(live === undefined ? {} : { live: live === null ? null : liveFrom(live) }),
  } as unknown as NodeDetails
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

/** The names of times in the details of a wait. */
const waits = ["at", "until", "next_poll_at", "last_seen_at"]

/** Only fields with these names are converted: an output may contain any text. */
function timed(value: object, names: readonly string[]): object {
  const told = { ...value } as Record<string, unknown>
  for (const name of names) if (typeof told[name] === "string") told[name] = Date.parse(told[name])
  return told
}
