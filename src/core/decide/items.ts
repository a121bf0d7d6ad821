import type { AttemptRef, Command, DecisionContext, Refusal } from "../commands.ts"
import type { Fact, RunningAttempt, Waiting } from "../facts.ts"
import { type ItemList, toOuter } from "../item-list.ts"
import { isDone, type JobState, resumeToken } from "../state.ts"
import { decideFacts, type ItemCommand } from "./decide.ts"

/** The rules of a job, applied to the items of a node with `for_each`. */

export function decideItem(
  state: JobState,
  command: ItemCommand,
  context: DecisionContext,
): readonly Fact[] | Refusal {
  const { item, ...rest } = command
  const list = state.lists.get(command.node)
  if (list === undefined) return { refused: "no_such_node" }
  const inner = { ...rest, ...listToken(state, list, command), node: item } as Command
  const decided = decideFacts(list.state, inner, context)
  return "refused" in decided ? decided : outerFacts(command.node, decided)
}

/** The token belongs to the whole job; within the list it is valid if the job's is. */
function listToken(state: JobState, list: ItemList, command: ItemCommand): { readonly resumeToken?: string } {
  if (command.type !== "external" || command.resumeToken === undefined) return {}
  return { resumeToken: command.resumeToken === resumeToken(state) ? resumeToken(list.state) : "stale" }
}

/** Handles due items of one list at a time: the last item of a job is then alone. */
export function wakeItems(state: JobState, context: DecisionContext): readonly Fact[] {
  for (const [node, list] of openLists(state)) {
    const decided = decideFacts(list.state, { type: "wake" }, context)
    if (!("refused" in decided)) return outerFacts(node, decided)
  }
  return []
}

/** A blamed item comes last, and alone if it ends the job. At most one is blamed: the others get another chance. */
export function recoverItems(
  state: JobState,
  only: readonly AttemptRef[] | undefined,
  context: DecisionContext,
): readonly Fact[] {
  const lost: Fact[] = []
  const failed: Fact[] = []
  for (const [node, list] of openLists(state)) {
    const lossLimit = failed.length === 0 ? context.lossLimit : Number.POSITIVE_INFINITY
    const decided = decideFacts(
      list.state,
      { type: "recover", ...innerAttempts(only, node) },
      { ...context, lossLimit },
    )
    if ("refused" in decided) continue
    const facts = outerFacts(node, decided)
    if (facts.at(-1)!.type === "item_failed") {
      if (!list.state.continuesOnFailure) return facts
      failed.push(facts.pop()!)
    }
    lost.push(...facts)
  }
  return [...lost, ...failed]
}

/** The items that are known to run. */
export function handOverItems(
  state: JobState,
  only: readonly AttemptRef[] | undefined,
  context: DecisionContext,
): readonly Fact[] {
  const facts: Fact[] = []
  for (const [node, list] of openLists(state)) {
    const running = () => innerRunning(context.running?.() ?? [], node)
    const decided = decideFacts(
      list.state,
      { type: "hand_over", ...innerAttempts(only, node) },
      { ...context, running },
    )
    if (!("refused" in decided)) facts.push(...outerFacts(node, decided))
  }
  return facts
}

/** The attempts as the list's own job state names them. */
function innerAttempts(
  only: readonly AttemptRef[] | undefined,
  of: number,
): { only?: readonly AttemptRef[] } {
  if (only === undefined) return {}
  const items: AttemptRef[] = []
  for (const { node, item, attempt } of only)
    if (node === of && item !== undefined) items.push({ node: item, attempt })
  return { only: items }
}

function innerRunning(running: readonly RunningAttempt[], of: number): RunningAttempt[] {
  return running.flatMap(({ node, item, ...ran }) =>
    node === of && item !== undefined ? [{ ...ran, node: item }] : [],
  )
}

type SignalWaiting = Extract<Waiting, { readonly kind: "signal" }>

/** What takes a signal of this name: the first node that waits for it, or else the first item. */
export function waiterFor(
  state: JobState,
  name: string,
): { node: number; item?: number; waiting: SignalWaiting } | null {
  for (const [node, waiting] of state.waiting)
    if (waiting.kind === "signal" && waiting.name === name) return { node, waiting }
  for (const [node, list] of openLists(state))
    for (const [item, waiting] of list.state.waiting)
      if (waiting.kind === "signal" && waiting.name === name) return { node, item, waiting }
  return null
}

function* openLists(state: JobState): Generator<[number, ItemList]> {
  for (const [node, list] of state.lists) if (!isDone(state, node)) yield [node, list]
}

function outerFacts(node: number, decided: readonly Fact[]): Fact[] {
  return decided.map(fact => toOuter(node, fact))
}
