import type { AttemptRef } from "./commands.ts"
import type { Fact, ItemFact, NodeCompleted, NodeExpanded } from "./facts.ts"
import type { Json } from "./json.ts"
import { readItems } from "./payloads.ts"
import type { Graph, RuleNode } from "./plan.ts"
import {
  findTask,
  isDone,
  isInFlight,
  type JobState,
  newJobState,
  type TaskRef,
  wholeOutput,
} from "./state.ts"

/**
 * The items of a node with `for_each` (J21): a job in the job. Its graph has one node per item and no edge, so attempts,
 * retries, waiting, fail-fast and partial retry of items follow the rules of jobs; no rule is written twice.
 * `max_parallel` is the number of its places.
 *
 * 1. The list is that of the first evaluation and never changes.
 * 2. An event of an item is one fact of the job (`item_…`); inside the list it is the fact of the same name of a node.
 * 3. Signals and usage belong to the job: the maps are shared.
 * 4. Each item has its own slot, operation and polls: facts about them name the item.
 */
export interface ItemList {
  readonly items: readonly Json[]
  /** A job state in which each node is an item. */
  readonly state: JobState
}

export function newItemList(job: JobState, node: number, items: readonly Json[]): ItemList {
  const rule = job.graph.nodes[node]!
  const { signals, usage, retryDefaults, paused } = job
  const shared = { signals, usage, retryDefaults, paused }
  const places = rule.maxParallel ?? Number.POSITIVE_INFINITY
  const continuesOnFailure = rule.failFast === false
  return {
    items,
    state: { ...newJobState(flatGraph(rule, items.length), { places, continuesOnFailure }), ...shared },
  }
}

/** The list of a node, wherever it is stored. Code that folds a job without its data still knows the length. */
export function readList(state: JobState, { items, items_of: source }: NodeExpanded): readonly Json[] {
  if (items !== undefined) return readItems(items)
  const { count } = source!
  const found =
    "node" in source!
      ? wholeOutput(state.outputs[source.node] ?? null, () => null)
      : valueAt(state.input, source!.input)
  return Array.isArray(found) ? found : new Array<null>(count).fill(null)
}

/** undefined: there is no such value. */
export function valueAt(value: Json, path: readonly (string | number)[]): Json | undefined {
  let found: Json | undefined = value
  for (const key of path) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) return undefined
    found = (found as { readonly [key: string | number]: Json })[key]
  }
  return found
}

function flatGraph(rule: RuleNode, size: number): Graph {
  const none = { starts: new Int32Array(size + 1), items: new Int32Array(0) }
  return {
    nodes: new Array<RuleNode>(size).fill(rule),
    inDegrees: new Int32Array(size),
    successors: none,
    dependencies: none,
    order: Int32Array.from({ length: size }, (_, item) => item),
  }
}

/** With a worker, on its way there, or waiting: at its provider, or for what its handler returned. Not if it is held. */
export function needsSlot(state: JobState, of: TaskRef): boolean {
  const place = findTask(state, of)
  if (place === null || place.state.held.has(place.position)) return false
  return isInFlight(place.state, place.position) || place.state.waiting.has(place.position)
}

/** The tasks that a worker has, or should have: attempts at nodes and at items that are not postponed. */
export function tasksInFlight(state: JobState, now: number): AttemptRef[] {
  const tasks: AttemptRef[] = positionsInFlight(state, now).map(node => ({
    node,
    attempt: state.attempt[node]!,
  }))
  for (const [node, list] of state.lists)
    if (!isDone(state, node))
      for (const item of positionsInFlight(list.state, now))
        tasks.push({ node, item, attempt: list.state.attempt[item]! })
  return tasks
}

function positionsInFlight(state: JobState, now: number): number[] {
  const found: number[] = []
  for (let position = 0; position < state.nodeStatus.length; position++) {
    if (!isInFlight(state, position) || state.awaitingSlot.has(position)) continue
    if (state.held.has(position)) continue
    const retryAt = state.retryAt.get(position)
    if (retryAt === undefined || (retryAt <= now && state.paused === null)) found.push(position)
  }
  return found
}

type Writable<T> = { -readonly [K in keyof T]: T[K] }

/** The fact as the list's own job state has it. Fields of the whole job stay outside. */
export function toInner(fact: ItemFact): Fact {
  switch (fact.type) {
    case "item_started": {
      const { item, type: _, ...rest } = fact
      return { ...rest, type: "node_started", node: item }
    }
    case "item_completed": {
      const { at, item, attempt, output, usage, overtaken } = fact
      const inner: Writable<NodeCompleted & { at: number }> = {
        type: "node_completed",
        at,
        node: item,
        attempt,
        output,
      }
      if (fact.ran_ms !== undefined) inner.ran_ms = fact.ran_ms
      if (fact.held_ms !== undefined) inner.held_ms = fact.held_ms
      if (fact.log_lines !== undefined) inner.log_lines = fact.log_lines
      if (fact.log_run !== undefined) inner.log_run = fact.log_run
      if (fact.worker !== undefined) inner.worker = fact.worker
      if (usage !== undefined) inner.usage = usage
      if (overtaken !== undefined) inner.overtaken = overtaken
      return inner
    }
    case "item_failed": {
      const { item, type: _, running: _running, ...rest } = fact
      return { ...rest, type: "node_failed", node: item }
    }
    case "item_waiting": {
      const { item, ...rest } = fact
      return { ...rest, type: "node_waiting", node: item }
    }
    case "items_lost":
      return { type: "tasks_lost", at: fact.at, nodes: fact.items, ...handedOver(fact) }
    case "slot_awaited":
    case "slot_granted":
    case "poll_scheduled": {
      const { item, ...rest } = fact
      return { ...rest, node: item }
    }
  }
}

/** The fact as the job that contains the list has it. */
export function toOuter(node: number, fact: Fact): Fact {
  switch (fact.type) {
    case "node_started":
      return { ...fact, type: "item_started", node, item: fact.node }
    case "node_completed":
      return { ...fact, type: "item_completed", node, item: fact.node }
    case "node_failed":
      return { ...fact, type: "item_failed", node, item: fact.node }
    case "node_waiting":
      return { ...fact, type: "item_waiting", node, item: fact.node }
    case "tasks_lost":
      return { type: "items_lost", at: fact.at, node, items: fact.nodes, ...handedOver(fact) }
    case "preview_published":
    case "slot_awaited":
    case "slot_granted":
    case "poll_scheduled":
      return { ...fact, node, item: fact.node }
    // An operation that exceeds its provider's time limit ends the whole job.
    case "job_expired":
      return fact.node === undefined ? fact : { ...fact, node, item: fact.node }
    default:
      throw new TypeError(`${fact.type} does not happen to an item`)
  }
}

function handedOver(fact: { readonly handed_over?: true }): { readonly handed_over?: true } {
  return fact.handed_over === true ? { handed_over: true } : {}
}
