import { type AttemptFields, attemptFields } from "./attempt-view.ts"
import type { ItemList } from "./item-list.ts"
import type { Json } from "./json.ts"
import { isDone, nodeStatuses, nodeStatusOf, QUEUED, RUNNING } from "./state.ts"
import type { NodeStatus } from "./states.ts"
import { type ErrorView, nodeError, type Progress, type WaitingOn, waitingOn } from "./view.ts"

/** How many items are in each state; states that none is in are left out. */
export type ItemCounts = { readonly total: number } & { readonly [S in Lowercase<NodeStatus>]?: number }

export interface ItemView extends AttemptFields {
  /** From 0. */
  readonly index: number
  readonly item: Json
  readonly status: NodeStatus
  readonly waiting_on: WaitingOn | null
  readonly error: ErrorView | null
  readonly progress: Progress | null
  readonly preview?: Json
  readonly child_job_id?: string
}

interface ItemPageOptions {
  readonly after: number
  readonly limit: number
  readonly isRunning?: (item: number) => boolean
  readonly progress?: (item: number) => Progress | undefined
  /** Where items stand in the queue for a slot of their provider, from 1. */
  readonly places?: ReadonlyMap<number, number | null>
}

export function itemCounts({ items, state }: ItemList): ItemCounts {
  const counts = new Array<number>(nodeStatuses.length).fill(0)
  for (const status of state.nodeStatus) counts[status]!++
  const named = nodeStatuses.flatMap((status, code) =>
    counts[code] === 0 ? [] : [[status.toLowerCase(), counts[code]!] as const],
  )
  return { total: items.length, ...Object.fromEntries(named) }
}

/** Items behind index `after`, at most `limit`. */
export function itemViews(
  { items, state }: ItemList,
  { after, limit, isRunning, progress, places }: ItemPageOptions,
): ItemView[] {
  const views: ItemView[] = []
  for (let index = after + 1; index < Math.min(items.length, after + 1 + limit); index++) {
    const runs =
      state.nodeStatus[index] === RUNNING ||
      (state.nodeStatus[index] === QUEUED && isRunning?.(index) === true)
    const child = state.children.get(index)
    const preview = state.previews.get(index)
    views.push({
      index,
      item: items[index]!,
      status: runs ? "RUNNING" : nodeStatusOf(state, index),
      ...attemptFields(state, index),
      waiting_on: runs ? null : waitOf(waitingOn(state, index, places?.get(index) ?? null)),
      error: nodeError(state, index),
      progress: (isDone(state, index) ? undefined : progress?.(index)) ?? null,
      ...(preview === undefined ? {} : { preview }),
      ...(child === undefined ? {} : { child_job_id: child }),
    })
  }
  return views
}

/** An item has no dependencies: what is PENDING waits for a place (`max_parallel`). */
function waitOf(waiting: WaitingOn | null): WaitingOn | null {
  return waiting?.kind === "dependencies" ? null : waiting
}
