import { addNodeUsage } from "../attempt-times.ts"
import type { Effects } from "../effects.ts"
import type { Fact, ItemFact, JobRetried, NodeExpanded, SignalReceived } from "../facts.ts"
import { newItemList, readList, toInner } from "../item-list.ts"
import { COMPLETED, isDone, type JobState, ListOutput, ownMap, WAITING } from "../state.ts"
import { jobHasEnded } from "../states.ts"
import { apply, done, end, progressed, setJobResult, startAll } from "./apply.ts"
import { failFast } from "./fail-fast.ts"
import { retried } from "./restart.ts"

/** Applies facts of the items of a node with `for_each`, and their consequences for the node: see item-list.ts. */

type At = { readonly at: number }

/** The node has left flight; from here on its items are in flight, not the node. */
export function expanded(state: JobState, fact: NodeExpanded & At, effects: Effects): void {
  const { node, at } = fact
  const items = readList(state, fact)
  state.nodeStatus[node] = WAITING
  ownMap(state, "waitingSince").set(node, at)
  const list = newItemList(state, node, items)
  ownMap(state, "lists").set(node, list)
  progressed(state)
  within(state, node, effects, inner => startAll(inner, at, effects))
  if (items.length > 0) return
  setJobResult(state, fact)
  done(state, node, { status: COMPLETED, output: new ListOutput([]), at }, effects)
}

export function itemHappened(state: JobState, fact: ItemFact, effects: Effects): void {
  const inner = toInner(fact)
  if ("usage" in fact) addNodeUsage(state, fact.node, fact.usage)
  within(state, fact.node, effects, list => apply(list, inner, effects))
  if (isOwnEvent(fact)) progressed(state)
  conclude(state, fact, effects)
}

/** An event of the item, and so of its node, as opposed to information about it. */
function isOwnEvent({ type }: ItemFact): boolean {
  return (
    type === "item_started" || type === "item_completed" || type === "item_failed" || type === "item_waiting"
  )
}

export function itemSignalled(
  state: JobState,
  { item, ...fact }: SignalReceived & At & { readonly node: number; readonly item: number },
  effects: Effects,
): void {
  const { job_output: _output, job_fault: _fault, ...inner } = fact
  within(state, fact.node, effects, list => apply(list, { ...inner, node: item }, effects))
  progressed(state)
  conclude(state, fact, effects)
}

export function itemPreviewed(
  state: JobState,
  fact: Extract<Fact, { type: "preview_published" }> & { readonly item: number },
): void {
  const { item, ...inner } = fact
  within(state, fact.node, undefined, list => apply(list, { ...inner, node: item }))
}

/** Ends the node if this fact ended its list. */
function conclude(
  state: JobState,
  fact: (ItemFact | SignalReceived) & At & { readonly node?: number },
  effects: Effects,
): void {
  const node = fact.node!
  const list = state.lists.get(node)!.state
  if (!jobHasEnded(list.status)) return
  const { at } = fact
  if (list.status === "COMPLETED") {
    if ("job_output" in fact || "job_fault" in fact) setJobResult(state, fact)
    done(state, node, { status: COMPLETED, output: new ListOutput(list.outputs), at }, effects)
  } else if (list.fault !== null) {
    const { fault, node: item } = list.fault
    state.faults.set(node, { fault, item: item! })
    failFast(state, { node, fault, item: item! }, at, effects)
  }
}

/** Exactly the items that are not done run again. Only a node with all its dependencies done was ever expanded. */
export function retryItems(
  state: JobState,
  node: number,
  { fact, effects }: { fact: JobRetried & At; effects: Effects },
): void {
  state.nodeStatus[node] = WAITING
  ownMap(state, "waitingSince").set(node, fact.at)
  const inner = { ...fact, expires_at: null }
  within(state, node, effects, list => retried(list, inner, fact.at, effects))
}

/** The job ends, and its lists with it. Returns the child jobs that their items waited for. */
export function endItems(state: JobState, at: number, effects: Effects): readonly string[] {
  const orphans: string[] = []
  for (const [node, { state: list }] of state.lists) {
    if (isDone(state, node)) continue
    if (!jobHasEnded(list.status)) ofItems(node, effects, () => end(list, "CANCELLED", at, effects))
    orphans.push(...list.orphans)
  }
  return orphans
}

/** Items in flight in the list are in flight in the job. */
export function within(
  state: JobState,
  node: number,
  effects: Effects,
  change: (list: JobState) => void,
): void {
  const list = state.lists.get(node)!.state
  const before = list.active
  ofItems(node, effects, () => change(list))
  state.active += list.active - before
  state.earliestTimer = Math.min(state.earliestTimer, list.earliestTimer)
}

/** Effects on the list's own nodes become effects on the items of the job's node. That a list ended has none. */
function ofItems(node: number, effects: Effects, change: () => void): void {
  const from = effects?.length ?? 0
  change()
  if (effects === undefined) return
  if (effects.length > from && effects.at(-1)!.type === "end") effects.pop()
  for (let i = from; i < effects.length; i++) {
    const effect = effects[i]!
    if (effect.type === "end") continue
    effect.item = effect.node
    effect.node = node
  }
}
