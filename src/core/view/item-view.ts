import { isRunningAt } from "../attempt-times.ts"
import type { ItemList } from "../item-list.ts"
import type { Json } from "../json.ts"
import { type JobState, nodeStatuses, QUEUED, RUNNING } from "../state.ts"
import type { NodeStatus } from "../states.ts"
import { attemptFields } from "./attempt-view.ts"
import { reasonField } from "./reasons.ts"
import {
  type NodeView,
  nodeError,
  reusedField,
  shownTaskStatus,
  type TaskView,
  type WaitingOn,
  waitingOn,
} from "./view.ts"

/** How many items are in each state; states without items are left out. */
export type ItemCounts = { readonly total: number } & { readonly [S in Lowercase<NodeStatus>]?: number }

export interface ItemView extends TaskView {
  /** From 0. */
  readonly index: number
  readonly item: Json
}

export function itemCounts({ items, state }: ItemList, now: number): ItemCounts {
  const counts = new Array<number>(nodeStatuses.length).fill(0)
  for (const status of state.nodeStatus) counts[status]!++
  for (const item of state.started.keys())
    if (state.nodeStatus[item] === RUNNING && !isRunningAt(state, item, now)) {
      counts[RUNNING]!--
      counts[QUEUED]!++
    }
  const named = nodeStatuses.flatMap((status, code) =>
    counts[code] === 0 ? [] : [[status.toLowerCase(), counts[code]!] as const],
  )
  return { total: items.length, ...Object.fromEntries(named) }
}

/** Items after index `after`, at most `limit`, read from the facts alone. */
export function itemViews(
  job: JobState,
  node: number,
  { after, limit, now }: { readonly after: number; readonly limit: number; readonly now: number },
): ItemView[] {
  const views: ItemView[] = []
  const list = job.lists.get(node)
  if (list === undefined) return views
  const { items, state } = list
  for (let index = after + 1; index < Math.min(items.length, after + 1 + limit); index++) {
    const child = state.children.get(index)
    const preview = state.previews.get(index)
    const status = shownTaskStatus(state, index, now)
    views.push({
      index,
      item: items[index]!,
      status,
      ...reasonField(job, status),
      ...attemptFields(state, index, now),
      waiting_on: itemWait(waitingOn(state, index, now)),
      error: nodeError(state, index),
      progress: null,
      ...(preview === undefined ? {} : { preview }),
      ...(child === undefined ? {} : { child_job_id: child }),
      ...reusedField(state, index),
    })
  }
  return views
}

/** One item in the form of a node: all fields describe the item. */
export function itemAsNode(job: JobState, node: number, item: number, now: number): NodeView {
  const { id, handler } = job.graph.nodes[node]!
  const [view] = itemViews(job, node, { after: item - 1, limit: 1, now })
  const { index: _index, item: _item, ...task } = view!
  return { id, handler, incoming: 0, ...task }
}

/** An item has no dependencies: a PENDING item waits for a place (`max_parallel`). */
function itemWait(waiting: WaitingOn | null): WaitingOn | null {
  return waiting?.kind === "dependencies" ? null : waiting
}
