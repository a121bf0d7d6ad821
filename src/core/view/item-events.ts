import { shownAttempt } from "../attempt-times.ts"
import type { Fact } from "../facts.ts"
import { toInner } from "../item-list.ts"
import { isDone, type JobState, nodeStatuses, readNodeStatus } from "../state.ts"
import type { NodeStatus } from "../states.ts"

/** One item whose state a fact may have changed. */
export interface ItemChange {
  readonly node: number
  readonly item: number
  readonly was: NodeStatus
  /** The number of the attempt before, as people see it. */
  readonly attempt: number
  /** Named by the fact itself; otherwise the change is a consequence. */
  readonly isNamed: boolean
  /** The fact as the list's own job state has it. */
  readonly fact: Fact
}

/** The changes of a fact among the items of lists: created before the fact is applied, read after. O(changes), as for nodes. */
export class ItemChanges {
  readonly #fact: Fact
  readonly #inner: Fact
  readonly #changes: Omit<ItemChange, "fact">[] = []
  readonly #lists: { node: number; statuses: Uint8Array }[] = []
  readonly #dispatched: { node: number; item: number }[] = []

  constructor(state: JobState, fact: Fact) {
    this.#fact = fact
    this.#inner = innerFact(fact)
    if (state.lists.size === 0) return
    for (const { node, item } of namedItems(fact)) {
      const list = state.lists.get(node)!.state
      const attempt = shownAttempt(list, item)
      this.#changes.push({ node, item, was: readNodeStatus(list, item), attempt, isNamed: true })
    }
    if (changesAll(fact))
      for (const [node, { state: list }] of state.lists)
        if (!isDone(state, node)) this.#lists.push({ node, statuses: list.nodeStatus.slice() })
  }

  dispatched(node: number, item: number): void {
    this.#dispatched.push({ node, item })
  }

  /** The items that the fact names. */
  emitNamed(tell: (change: ItemChange) => void): void {
    for (const change of this.#changes) tell({ ...change, fact: this.#inner })
  }

  /** The consequences for other items. `state`: after the fact. */
  emitOthers(state: JobState, tell: (change: ItemChange) => void): void {
    const fact = this.#inner
    const named = new Set(this.#changes.map(({ node, item }) => `${node}/${item}`))
    for (const { node, statuses } of this.#lists)
      for (let item = 0; item < statuses.length; item++) {
        if (named.has(`${node}/${item}`)) continue
        tell({
          node,
          item,
          was: nodeStatuses[statuses[item]!]!,
          attempt: shownAttempt(state.lists.get(node)!.state, item),
          isNamed: false,
          fact,
        })
      }
    const { type } = this.#fact
    if (this.#lists.length > 0 || type === "items_lost" || type === "slot_granted" || type === "job_resumed")
      return
    for (const { node, item } of this.#dispatched) {
      const attempt = shownAttempt(state.lists.get(node)!.state, item)
      tell({ node, item, was: "PENDING", attempt, isNamed: false, fact })
    }
  }
}

function innerFact(fact: Fact): Fact {
  switch (fact.type) {
    case "item_started":
    case "item_completed":
    case "item_failed":
    case "item_waiting":
    case "items_lost":
      return toInner(fact)
    case "slot_awaited":
    case "slot_granted":
    case "poll_scheduled":
      return fact.item === undefined ? fact : toInner({ ...fact, item: fact.item })
    default:
      return fact
  }
}

function namedItems(fact: Fact): { node: number; item: number }[] {
  if (fact.type === "items_lost") return fact.items.map(item => ({ node: fact.node, item }))
  if (fact.type === "job_expired") return []
  if (!("item" in fact) || fact.item === undefined || fact.node === undefined) return []
  return [{ node: fact.node, item: fact.item }]
}

/** Ends or restarts the whole job. The last completion ends it too, but then nothing is left to change. */
export function changesAll(fact: Fact): boolean {
  switch (fact.type) {
    case "job_failed":
    case "job_cancelled":
    case "job_expired":
    case "job_retried":
      return true
    case "job_submitted":
      return fact.fork !== undefined
    case "node_failed":
    case "item_failed":
      return fact.retry_at === undefined
    default:
      return false
  }
}
