/** A job's state as plain JSON by node ids: what the model, the live state, a fold and a fixture are compared by. */

import type { ItemList } from "../../src/core/item-list.ts"
import type { Json } from "../../src/core/json.ts"
import { isInFlight, type JobState, readNodeStatus, shownOutput } from "../../src/core/state.ts"
import type { NodeStatus } from "../../src/core/states.ts"

export interface NodeSummary {
  readonly status: NodeStatus
  readonly remaining: number
  readonly attempt: number
  readonly tries: number
  readonly losses: number
  readonly output: Json
  readonly fault: { readonly code: string; readonly cause: string | null } | null
  readonly preview: Json
  readonly started: boolean
  readonly suspect: { readonly isolated: boolean; readonly deaths: number; readonly streak: number } | null
  readonly retry_at: number | null
  readonly waiting: unknown
  readonly awaits_slot: string | null
  readonly held?: boolean
  readonly poll_at: number | null
  readonly poll_errors: number
  readonly operations: number
  readonly items?: readonly NodeSummary[]
}

export interface JobSummary {
  readonly status: string
  readonly fault: { readonly code: string; readonly node: string | null } | null
  readonly output: Json
  readonly expires_at: number | null
  /** Of a delayed job. */
  readonly start_at?: number
  readonly finished_at: number | null
  readonly unfinished: number
  readonly in_flight: number
  readonly usage: { readonly [key: string]: number }
  readonly signals: { readonly [name: string]: readonly Json[] }
  readonly resumes: number
  /** It has ended and its relatives do not know: the children among them. */
  readonly untold?: readonly string[]
  /** By whom. */
  readonly paused?: string | null
  readonly labels?: { readonly [key: string]: string }
  readonly note?: string
  readonly nodes: { readonly [id: string]: NodeSummary }
}

/** A retry time that has come by `now` is the same as none: no fact says when its node was handed out. */
export function summaryOf(state: JobState, now: number): JobSummary {
  const due = [...state.retryAt].filter(([, at]) => at <= now).length
  const idOf = (node: number | undefined) => (node === undefined ? null : state.graph.nodes[node]!.id)
  return {
    status: state.status,
    fault: state.fault === null ? null : { code: state.fault.fault.code, node: idOf(state.fault.node) },
    output: state.output ?? null,
    expires_at: state.expiresAt,
    ...(state.startAt === null ? {} : { start_at: state.startAt }),
    finished_at: state.finishedAt,
    unfinished: state.unfinished,
    in_flight: state.active + due,
    usage: Object.fromEntries(state.usage),
    resumes: state.resumes,
    signals: Object.fromEntries([...state.signals].filter(([, kept]) => kept.length > 0)),
    ...(state.unsettled ? { untold: state.orphans } : {}),
    ...(state.paused === null ? {} : { paused: state.paused.by }),
    ...(Object.keys(state.labels).length === 0 ? {} : { labels: state.labels }),
    ...(state.note === null ? {} : { note: state.note.text }),
    nodes: Object.fromEntries(
      state.graph.nodes.map(({ id }, node) => [id, nodeSummary(state, node, { now, idOf })]),
    ),
  }
}

function nodeSummary(
  state: JobState,
  node: number,
  { now, idOf }: { now: number; idOf: (node: number | undefined) => string | null },
): NodeSummary {
  const fault = state.faults.get(node)
  const retryAt = state.retryAt.get(node)
  const suspect = state.suspects.get(node)
  return {
    status: readNodeStatus(state, node),
    remaining: state.remaining[node]!,
    attempt: state.attempt[node]!,
    tries: state.tries[node]!,
    losses: state.losses[node]!,
    output: shownOutput(state.outputs[node] ?? null),
    fault: fault === undefined ? null : { code: fault.fault.code, cause: idOf(fault.cause) },
    preview: state.previews.get(node) ?? null,
    started: isInFlight(state, node) && state.started.has(node),
    suspect:
      suspect === undefined
        ? null
        : { isolated: suspect.isolated, deaths: suspect.deaths, streak: suspect.streak },
    retry_at: retryAt !== undefined && retryAt > now ? retryAt : null,
    waiting: state.waiting.get(node) ?? null,
    awaits_slot: state.awaitingSlot.get(node) ?? null,
    ...(state.held.has(node) ? { held: true } : {}),
    poll_at: state.pollAt.get(node) ?? null,
    poll_errors: state.polls.get(node)?.errors ?? 0,
    operations: state.operations.get(node) ?? 0,
    ...(state.lists.has(node) ? { items: itemSummaries(state.lists.get(node)!, now) } : {}),
  }
}

/** By index; what is said of a node, for each item. */
function itemSummaries({ state }: ItemList, now: number): readonly NodeSummary[] {
  return state.graph.nodes.map((_, item) => nodeSummary(state, item, { now, idOf: () => null }))
}
