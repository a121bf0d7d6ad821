/**
 * A job whose one node has `for_each` over n items, kept beside a job of n nodes without edges: whatever happens to a
 * node of the one happens to the item of the other. Items follow the rules of nodes exactly if the two never differ.
 */
import { isDeepStrictEqual } from "node:util"
import { addJobResult, apply, fold } from "../../src/core/apply/apply.ts"
import type { Command } from "../../src/core/commands.ts"
import { decide } from "../../src/core/decide/decide.ts"
import type { Effect } from "../../src/core/effects.ts"
import type { Fact, RunningAttempt } from "../../src/core/facts.ts"
import { toOuter } from "../../src/core/item-list.ts"
import {
  type JobState,
  type ListOutput,
  newJobState,
  readNodeStatus,
  resumeToken,
} from "../../src/core/state.ts"
import { jobHasEnded } from "../../src/core/states.ts"
import {
  isBusy,
  nextTimer,
  resetEarliestTimer,
  takeDueItemPolls,
  takeDueItemRetries,
  takeDuePolls,
  takeDueRetries,
  wakeAt,
} from "../../src/core/timers.ts"
import { graphOf } from "./graphs.ts"
import { mustHold } from "./invariants.ts"
import type { Core } from "./simulation.ts"

export class Mirror implements Core {
  readonly #size: number
  readonly #graph = graphOf([{ id: "each", dependencies: [] }])
  readonly journal: Fact[] = []
  #list = newJobState(this.#graph)

  constructor(size: number) {
    this.#size = size
  }

  get graph() {
    return this.#graph
  }

  readonly decide: Core["decide"] = (state, command, given) => {
    const decided = decide(state, command, given)
    if (command.type === "submit") return decided
    // A crash: memory is gone, the journal is not.
    if (command.type === "recover" && command.only === undefined) this.#list = fold(this.#graph, this.journal)
    const running = () => (given.running?.() ?? []).map(mirrorRunning)
    const mirrored = decide(this.#list, mirrorCommand(command), { ...given, running })
    const expected = "refused" in decided ? decided : decided.map(mirrorFact)
    same(mirrored, expected, `decided on ${JSON.stringify(command)}`)
    return decided
  }

  readonly apply: Core["apply"] = (state, fact, effects) => {
    const own: Effect[] = []
    apply(state, fact, own)
    effects?.push(...own)
    let mirrored = this.#apply(mirrorFact(fact))
    if (fact.type === "job_submitted") {
      const items = new Array<null>(this.#size).fill(null)
      mirrored = this.#apply({ type: "node_expanded", at: fact.at, node: 0, attempt: 1, items })
    }
    same(mirrored, own.map(mirrorEffect), `effects of ${JSON.stringify(fact)}`)
    this.#compare(state, fact)
  }

  readonly addJobResult: Core["addJobResult"] = (state, fact, result) => {
    const recorded = addJobResult(state, fact, result)
    const mirrored = addJobResult(this.#list, mirrorFact(fact), result)
    same(mirrored, mirrorFact(recorded), `result of ${JSON.stringify(fact)}`)
    this.journal[this.journal.length - 1] = JSON.parse(JSON.stringify(mirrored)) as Fact
    this.#compare(state, recorded)
    return recorded
  }

  readonly takeDueRetries: Core["takeDueRetries"] = (state, now) => {
    const due = takeDueRetries(state, now)
    same(
      takeDueItemRetries(this.#list, now).map(({ item }) => item),
      due,
      "retries that are due",
    )
    return due
  }

  readonly takeDuePolls: Core["takeDuePolls"] = (state, now) => {
    const due = takeDuePolls(state, now)
    same(
      takeDueItemPolls(this.#list, now).map(({ item }) => item),
      due,
      "looks that are due",
    )
    return due
  }

  readonly resetEarliestTimer: Core["resetEarliestTimer"] = state => {
    resetEarliestTimer(state)
    resetEarliestTimer(this.#list)
    same([nextTimer(this.#list), wakeAt(this.#list)], [nextTimer(state), wakeAt(state)], "timers")
  }

  #apply(fact: Fact): Effect[] {
    const effects: Effect[] = []
    apply(this.#list, fact, effects)
    this.journal.push(JSON.parse(JSON.stringify(fact)) as Fact)
    return effects.filter(effect => effect.type === "end" || effect.item !== undefined)
  }

  #compare(flat: JobState, fact: Fact): void {
    const outer = this.#list
    const items = outer.lists.get(0)!.state
    const what = `after ${JSON.stringify(fact)}`
    same(items.nodeStatus, flat.nodeStatus, `states ${what}`)
    same(
      [items.attempt, items.tries, items.losses],
      [flat.attempt, flat.tries, flat.losses],
      `counts ${what}`,
    )
    same(items.outputs, flat.outputs, `outputs ${what}`)
    same(
      [items.startedAt, items.workers, items.lastAttempts, items.nodeUsage, items.abortedRuns],
      [flat.startedAt, flat.workers, flat.lastAttempts, flat.nodeUsage, flat.abortedRuns],
      `attempts ${what}`,
    )
    same(
      [items.waiting, items.started, items.suspects],
      [flat.waiting, flat.started, flat.suspects],
      `waits ${what}`,
    )
    same(
      [
        items.held,
        items.awaitingSlot,
        items.pollAt,
        items.polls,
        items.polling,
        items.operations,
        items.previews,
      ],
      [flat.held, flat.awaitingSlot, flat.pollAt, flat.polls, flat.polling, flat.operations, flat.previews],
      `operations ${what}`,
    )
    same([outer.active, outer.status], [flat.active, flat.status], `the job ${what}`)
    same([isBusy(outer), resumeToken(outer)], [isBusy(flat), resumeToken(flat)], `its rest ${what}`)
    same([outer.usage, outer.signals, outer.output], [flat.usage, flat.signals, flat.output], `sums ${what}`)
    same([outer.orphans, outer.unsettled], [flat.orphans, flat.unsettled], `relatives ${what}`)
    same(outer.fault?.item, flat.fault?.node, `the cause ${what}`)
    const isDone = flat.unfinished === 0
    mustHold(
      (readNodeStatus(outer, 0) === "COMPLETED") === isDone,
      `the node is ${readNodeStatus(outer, 0)} ${what}`,
    )
    if (isDone) same((outer.outputs[0] as ListOutput).outputs, flat.outputs, `the node's output ${what}`)
    mustHold(
      jobHasEnded(outer.status) || !jobHasEnded(items.status),
      `the list has ended, its job has not ${what}`,
    )
    same(
      comparable(fold(this.#graph, this.journal)),
      comparable(outer),
      `the journal folds to another list ${what}`,
    )
  }
}

/** Retry times and looks whose time has come are the one difference between live and folded: no fact says so. */
function comparable({ lists, retryAt: _, active: _active, earliestTimer: _timer, ...job }: JobState) {
  return {
    ...job,
    lists: [...lists].map(([node, { items, state }]) => {
      const { retryAt: _retry, active: _count, earliestTimer: _earliest, ...rest } = state
      const { lists: _none, polling: _looks, ...list } = rest
      return { node, items, list }
    }),
  }
}

function mirrorCommand(command: Command): Command {
  if ("only" in command && command.only !== undefined)
    return { ...command, only: command.only.map(({ node, attempt }) => ({ node: 0, item: node, attempt })) }
  if (command.type === "pause") return { ...command, kept: mirrorKept(command.kept ?? []) }
  return "node" in command ? ({ ...command, node: 0, item: command.node } as Command) : command
}

function mirrorFact(fact: Fact): Fact {
  if (fact.type === "signal_received" && fact.node !== undefined) return { ...fact, node: 0, item: fact.node }
  if (fact.type === "attempt_aborted") return { ...fact, node: 0, item: fact.node }
  if (fact.type === "job_paused" && fact.kept !== undefined) return { ...fact, kept: mirrorKept(fact.kept) }
  const outer =
    fact.type === "job_expired" && fact.node === undefined
      ? fact
      : "node" in fact || fact.type === "tasks_lost"
        ? toOuter(0, fact)
        : fact
  if (!("running" in fact)) return outer
  return { ...outer, running: fact.running!.map(mirrorRunning) } as Fact
}

const mirrorKept = (kept: readonly { readonly node: number }[]) =>
  kept.map(({ node }) => ({ node: 0, item: node }))

const mirrorRunning = ({ node, ...rest }: RunningAttempt): RunningAttempt => ({
  node: 0,
  item: node,
  ...rest,
})

function mirrorEffect(effect: Effect): Effect {
  return effect.type === "end" ? effect : { ...effect, node: 0, item: effect.node }
}

function same(found: unknown, expected: unknown, what: string): void {
  mustHold(
    isDeepStrictEqual(found, expected),
    `${what}: of nodes ${JSON.stringify(expected)}, of items ${JSON.stringify(found)}`,
  )
}
