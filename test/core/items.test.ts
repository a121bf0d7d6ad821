import { isDeepStrictEqual } from "node:util"
import { describe, expect, it } from "vitest"
import { apply, fold } from "../../src/core/apply/apply.ts"
import type { Command } from "../../src/core/commands.ts"
import { decide } from "../../src/core/decide/decide.ts"
import type { Fact } from "../../src/core/facts.ts"
import { newJobState } from "../../src/core/state.ts"
import { jobHasEnded, type NodeStatus, nodeMayBecome } from "../../src/core/states.ts"
import { expandJobFacts } from "../../src/core/view/events.ts"
import { itemCounts } from "../../src/core/view/item-view.ts"
import { graphView } from "../../src/core/view/view.ts"
import fc from "../support/property.ts"
import { type Action, actions } from "./actions.ts"
import { graphOf } from "./graphs.ts"
import { mustHold } from "./invariants.ts"
import { Mirror } from "./mirror.ts"
import { Simulation } from "./simulation.ts"

/** An item is never skipped by itself: `when` is about the node. */
const isOfItems = (action: Action) => action.do !== "answer" || action.result.kind !== "skip"

const histories = fc.record({
  size: fc.integer({ min: 1, max: 6 }),
  ttlSeconds: fc.constantFrom(null, null, 100),
  isChild: fc.boolean(),
  script: fc.array(actions.filter(isOfItems), { minLength: 5, maxLength: 50, size: "max" }),
})

describe("J21 the items of a list follow the rules of nodes", () => {
  it("J8 J9 J10 J13 J14 in every random history, fact by fact", () => {
    const reached = new Set<string>()
    fc.assert(
      fc.property(histories, ({ size, ttlSeconds, isChild, script }) => {
        const specs = Array.from({ length: size }, (_, n) => ({ id: `n${n}`, dependencies: [] }))
        const mirror = new Mirror(size)
        const simulation = new Simulation(specs, { ttlSeconds, isChild, core: mirror })
        for (const action of script) simulation.act(action)
        simulation.finish()
        for (const fact of mirror.journal) if ("item" in fact || "items" in fact) reached.add(fact.type)
        followItems(mirror, size)
      }),
      { numRuns: 400 },
    )
    const ofItems = ["item_started", "item_completed", "item_failed", "item_waiting", "items_lost"]
    const ofProviders = ["slot_awaited", "slot_granted", "poll_scheduled", "preview_published"]
    for (const type of [...ofItems, ...ofProviders]) expect(reached).toContain(type)
  })
})

/** J18: each item's events are a way through the table of states, and end where the item is. */
function followItems({ graph, journal }: Mirror, size: number): void {
  const facts = journal.map((fact, index) => ({ seq: index + 1, fact }))
  const at = new Array<string>(size).fill("PENDING")
  for (const event of expandJobFacts("job", graph, facts)) {
    if (event.item === undefined || event.to === undefined) continue
    mustHold(
      event.from === at[event.item],
      `${event.type} from ${event.from}, but item was ${at[event.item]}`,
    )
    const [from, to] = [event.from, event.to] as [NodeStatus, NodeStatus]
    mustHold(nodeMayBecome(from, to), `${event.type} from ${from} is not in the table`)
    at[event.item] = to
  }
  const list = fold(graph, journal).lists.get(0)!
  const { items } = graphView(fold(graph, journal), { now: 0 }).nodes[0]!
  for (const status of new Set(at)) {
    const count = at.filter(other => other === status).length
    mustHold(
      (items as unknown as Record<string, number>)[status.toLowerCase()] === count,
      `${count} items are ${status}, the view says ${JSON.stringify(items)}`,
    )
  }
  mustHold(list.items.length === size, "the list has another length")
}

const steps = fc.array(
  fc.record({
    pick: fc.nat(99),
    what: fc.constantFrom(
      "complete",
      "complete",
      "fail",
      "retry later",
      "wait",
      "start",
      "crash",
      "hand over",
    ),
  }),
  { minLength: 1, maxLength: 60 },
)

describe("J21 max_parallel", () => {
  it("never more are begun than there are places, and no place is left empty while an item waits for one", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 1, max: 5 }),
        fc.boolean(),
        steps,
        (size, places, failFast, script) => {
          const windowed = new Windowed(size, places, failFast)
          for (const step of script) windowed.step(step)
          windowed.finish()
        },
      ),
      { numRuns: 500 },
    )
  })
})

/** One node with `for_each`, and workers that answer in any order. */
class Windowed {
  readonly #graph
  readonly #places: number
  readonly #journal: Fact[] = []
  #state
  #now = 1_000

  constructor(size: number, places: number, failFast: boolean) {
    const graph = graphOf([{ id: "each", dependencies: [], retry: { maxAttempts: 2 } }])
    this.#graph = { ...graph, nodes: graph.nodes.map(node => ({ ...node, maxParallel: places, failFast })) }
    this.#places = places
    this.#state = newJobState(this.#graph)
    this.#do({
      type: "submit",
      owner: "a",
      workflow: "w",
      workflowVersion: 1,
      input: null,
      ttlSeconds: null,
      priority: 0,
    })
    this.#do({ type: "expand", node: 0, attempt: 1, items: new Array<null>(size).fill(null) })
  }

  step({ pick, what }: { pick: number; what: string }): void {
    const list = this.#list
    const begun = this.#begun()
    if (jobHasEnded(this.#state.status)) this.#do({ type: "retry" })
    else if (what === "crash") {
      this.#state = fold(this.#graph, this.#journal)
      this.#do({ type: "recover" })
    } else if (what === "hand over") this.#do({ type: "hand_over" })
    else if (begun.length > 0) {
      const item = begun[pick % begun.length]!
      const at = { node: 0, item, attempt: list.attempt[item]! }
      const fault = { code: "E401", message: "no", retryable: what !== "fail" }
      if (what === "complete") this.#do({ type: "completed", ...at, output: item })
      else if (what === "start") this.#do({ type: "started", ...at, worker: "w" })
      else if (what === "wait") this.#do({ type: "waiting", ...at, waiting: { kind: "signal", name: "s" } })
      else this.#do({ type: "failed", ...at, fault })
    }
  }

  finish(): void {
    for (let turn = 0; !jobHasEnded(this.#state.status); turn++) {
      mustHold(turn < 500, "the list goes on for ever")
      this.#now += 1_000_000
      for (const item of this.#begun()) {
        this.#list.retryAt.delete(item)
        this.#do({ type: "completed", node: 0, item, attempt: this.#list.attempt[item]!, output: item })
      }
    }
  }

  get #list() {
    return this.#state.lists.get(0)!.state
  }

  /** QUEUED, RUNNING or WAITING. */
  #begun(): number[] {
    return [...this.#list.nodeStatus.entries()].flatMap(([item, status]) =>
      status >= 1 && status <= 3 ? [item] : [],
    )
  }

  #do(command: Command): void {
    const decided = decide(this.#state, command, { now: this.#now, random: 0.5, lossLimit: 99 })
    if ("refused" in decided) return
    for (const fact of decided) {
      apply(this.#state, fact)
      this.#journal.push(JSON.parse(JSON.stringify(fact)))
    }
    if (!this.#state.lists.has(0)) return
    const folded = fold(this.#graph, this.#journal).lists.get(0)!.state
    mustHold(isDeepStrictEqual(folded.nodeStatus, this.#list.nodeStatus), "the journal folds to other items")
    mustHold(folded.room === this.#list.room, "the journal folds to other places")
    if (jobHasEnded(this.#state.status)) {
      this.#verifyEnd()
      return
    }
    const begun = this.#begun().length
    const held = [...this.#list.nodeStatus].filter(status => status === 0).length
    mustHold(begun <= this.#places, `${begun} of ${this.#places} places are taken`)
    mustHold(
      held === 0 || begun === this.#places,
      `${held} items wait, ${begun} of ${this.#places} places are taken`,
    )
  }

  /** With `fail_fast: false` every item has come to an end of its own; and only what failed fails the job. */
  #verifyEnd(): void {
    const counts = itemCounts(this.#state.lists.get(0)!, Number.POSITIVE_INFINITY)
    const { total, completed = 0, failed = 0, cancelled = 0 } = counts
    mustHold(completed + failed + cancelled === total, `a list has ended with ${JSON.stringify(counts)}`)
    mustHold(failed > 0 === (this.#state.status === "FAILED"), `${failed} failed: ${this.#state.status}`)
    if (this.#graph.nodes[0]!.failFast) mustHold(failed <= 1, `${failed} items failed, not the first alone`)
    else mustHold(cancelled === 0, `${cancelled} items were given up`)
  }
}
