import { describe, expect, it } from "vitest"
import type { RefusalReason } from "../../src/core/commands.ts"
import type { Effect } from "../../src/core/effects.ts"
import type { Fact, FactType } from "../../src/core/facts.ts"
import { COMPLETED, QUEUED, RUNNING, readNodeStatus } from "../../src/core/state.ts"
import { expandJobFacts } from "../../src/core/view/events.ts"
import fc from "../support/property.ts"
import { actions } from "./actions.ts"
import { follow } from "./event-story.ts"
import { dags } from "./graphs.ts"
import { mustHold } from "./invariants.ts"
import { type Core, core, Simulation } from "./simulation.ts"

/** What happens to items is compared with what happens to nodes: items.test.ts. */
const everyFact = Object.keys({
  job_submitted: true,
  node_started: true,
  node_completed: true,
  node_failed: true,
  node_waiting: true,
  node_skipped: true,
  tasks_lost: true,
  attempt_aborted: true,
  preview_published: true,
  signal_received: true,
  slot_awaited: true,
  slot_granted: true,
  poll_scheduled: true,
  job_failed: true,
  job_cancelled: true,
  job_expired: true,
  job_retried: true,
  job_deleted: true,
  job_settled: true,
  job_paused: true,
  job_resumed: true,
  job_described: true,
  job_started: true,
  job_rescheduled: true,
} satisfies Record<Exclude<FactType, `item${string}` | "node_expanded">, true>)

/** All but `job_exists`: a simulated job is submitted once. `job_changed`: test/core/bulk.test.ts. */
const everyRefusal = Object.keys({
  duplicate: true,
  stale_attempt: true,
  job_ended: true,
  job_not_ended: true,
  job_final: true,
  nothing_to_retry: true,
  no_such_node: true,
  node_running: true,
  nothing_due: true,
  stale_operation: true,
  stale_token: true,
  settled: true,
  unchanged: true,
  already_started: true,
} satisfies Record<Exclude<RefusalReason, "job_exists" | "job_changed" | "other_schema">, true>)

const ttls = fc.constantFrom(null, null, 100, 600)

const histories = fc.record({
  specs: dags(7),
  ttlSeconds: ttls,
  isChild: fc.boolean(),
  /** In seconds; null: the job starts at once. */
  delay: fc.constantFrom(null, null, null, 1, 40),
  script: fc.array(actions, { minLength: 5, maxLength: 60, size: "max" }),
})

const plays = (mutant: Core = core) =>
  fc.property(histories, ({ specs, ttlSeconds, isChild, delay, script }) => {
    const simulation = new Simulation(specs, { ttlSeconds, isChild, delay, core: mutant })
    for (const action of script) simulation.act(action)
    simulation.finish()
    verifyStory(simulation)
    for (const { type } of simulation.journal) reached.add(type)
    for (const reason of simulation.refusals) reached.add(reason)
  })

/** J18: read as events, the same history is legal step by step and ends where the job is. */
function verifyStory({ graph, journal, state }: Simulation): void {
  const facts = journal.map((fact, index) => ({ seq: index + 1, fact }))
  const { job, nodes } = follow(
    [...expandJobFacts("job", graph, facts)],
    graph.nodes.map(({ id }) => id),
  )
  mustHold(job === state.status, `the events end in ${job}, the job is ${state.status}`)
  for (const [node, { id }] of graph.nodes.entries())
    mustHold(nodes.get(id) === readNodeStatus(state, node), `the events leave ${id} in ${nodes.get(id)}`)
}

/** Facts and refusals the histories led to. */
const reached = new Set<string>()

describe("the core and the naive model agree, and the invariants hold after every step", () => {
  it("J1 J2 J6–J10 J12 J13 J15–J18 X1 X3–X5 for random graphs and interleavings", () => {
    reached.clear()
    fc.assert(plays(), { numRuns: 3000 })
    expect([...reached].sort()).toEqual([...everyFact, ...everyRefusal].sort())
  })
})

/** `apply` that forgets effects of this type. */
function without(type: Effect["type"]): Core["apply"] {
  return (state, fact, effects) => {
    const all: Effect[] = []
    core.apply(state, fact, all)
    effects!.push(...all.filter(effect => effect.type !== type))
  }
}

/** The suite must be able to fail: each of these has one rule taken away, and a counterexample has to be found. */
const mutants: Record<string, Partial<Core>> = {
  "a successor is dispatched twice": {
    apply(state, fact, effects) {
      core.apply(state, fact, effects)
      if (fact.type === "node_completed") effects!.push(...effects!.filter(({ type }) => type === "dispatch"))
    },
  },
  "stale attempts are let through": {
    decide: (state, command, given) =>
      core.decide(
        state,
        "attempt" in command ? { ...command, attempt: state.attempt[command.node] ?? 0 } : command,
        given,
      ),
  },
  "late results of an ended job are let through": {
    decide(state, command, given) {
      if (command.type !== "completed" || command.attempt !== state.attempt[command.node])
        return core.decide(state, command, given)
      const { node, attempt, output } = command
      return [{ type: "node_completed", at: given.now, node, attempt, output }]
    },
  },
  "all that is due happens although the job has failed": {
    decide(state, command, given) {
      const decided = core.decide(state, command, given)
      if (command.type !== "wake" || "refused" in decided || decided.at(-1)?.type !== "node_failed")
        return decided
      const others = [...state.waiting].filter(([, { until }]) => until !== undefined && until <= given.now)
      return [
        ...decided,
        ...others.flatMap(([node, waiting]): Fact[] =>
          waiting.kind !== "timer" || decided.some(fact => "node" in fact && fact.node === node)
            ? []
            : [
                {
                  type: "node_completed",
                  at: given.now,
                  node,
                  attempt: state.attempt[node]!,
                  output: waiting.output,
                },
              ],
        ),
      ]
    },
  },
  "a running node is skipped": {
    decide: (state, command, given) =>
      core.decide(
        command.type === "skip"
          ? { ...state, nodeStatus: state.nodeStatus.map(s => (s === RUNNING ? QUEUED : s)) }
          : state,
        command,
        given,
      ),
  },
  "fan-in fires with the first parent": {
    apply(state, fact, effects) {
      core.apply(state, fact, effects)
      if (fact.type !== "node_completed" || state.finishedAt !== null) return
      const { starts, items } = state.graph.successors
      for (const node of items.subarray(starts[fact.node], starts[fact.node + 1]))
        if (state.nodeStatus[node] === 0) {
          state.nodeStatus[node] = QUEUED
          state.active++
          effects?.push({ type: "dispatch", node, item: undefined, attempt: state.attempt[node]! })
        }
    },
  },
  "an aborted worker is not told": {
    apply: without("abort"),
  },
  "a retry runs completed nodes again": {
    apply(state, fact, effects) {
      if (fact.type === "job_retried")
        for (const [node, status] of state.nodeStatus.entries())
          if (status === COMPLETED) {
            state.nodeStatus[node] = 0
            state.unfinished++
          }
      core.apply(state, fact, effects)
    },
  },
  "a retry keeps attempt numbers": {
    apply(state, fact, effects) {
      const attempts = state.attempt.slice()
      core.apply(state, fact, effects)
      if (fact.type === "job_retried") state.attempt.set(attempts)
    },
  },
  "news of another operation are let through": {
    decide(state, command, given) {
      const waiting = command.type === "external" ? state.waiting.get(command.node) : undefined
      return waiting?.kind === "external" && command.type === "external"
        ? core.decide(state, { ...command, externalId: waiting.external_id }, given)
        : core.decide(state, command, given)
    },
  },
  "a stale resume token is let through": {
    decide(state, command, given) {
      if (command.type !== "external") return core.decide(state, command, given)
      const { resumeToken: _, ...rest } = command
      return core.decide(state, rest, given)
    },
  },
  "an abandoned operation is not told": {
    apply: without("abandon"),
  },
  "a slot that is granted starts nothing": {
    apply: (state, fact, effects) =>
      (fact.type === "slot_granted" ? without("dispatch") : core.apply)(state, fact, effects),
  },
  "what waits for a slot counts as lost": {
    decide: (state, command, given) =>
      core.decide(command.type === "recover" ? { ...state, awaitingSlot: new Map() } : state, command, given),
  },
  "operations are not looked at": { takeDuePolls: () => [] },
  "children that nobody waits for any more are forgotten": {
    apply(state, fact, effects) {
      core.apply(state, fact, effects)
      state.orphans = []
    },
  },
  "a delayed job starts before its time": {
    decide: (state, command, given) =>
      core.decide(
        command.type === "wake" && state.startAt !== null
          ? { ...state, startAt: state.startAt - 5000 }
          : state,
        command,
        given,
      ),
  },
  "the time to live of a delayed job counts from its submission": {
    apply(state, fact, effects) {
      const expires_at = fact.type === "job_started" && state.ttlSeconds ? state.createdAt + 1000 : null
      core.apply(state, expires_at === null ? fact : ({ ...fact, expires_at } as Fact), effects)
    },
  },
  "a paused job starts": {
    decide: (state, command, given) =>
      core.decide(
        command.type === "wake" && state.status === "PENDING" ? { ...state, paused: null } : state,
        command,
        given,
      ),
  },
  "retry times are forgotten": { takeDueRetries: () => [] },
  "with one worker all the job's tasks are lost": {
    decide: (state, command, given) =>
      core.decide(state, command.type === "recover" ? { type: "recover" } : command, given),
  },
  "lost tasks are not handed out again": {
    decide: (state, command, given) =>
      command.type === "recover" ? { refused: "nothing_due" } : core.decide(state, command, given),
  },
  "the live state knows more than its facts": {
    apply(state, fact, effects) {
      core.apply(state, { ...fact, at: fact.at + 1 } as Fact, effects)
    },
  },
}

describe("the property finds a counterexample when", () => {
  it.each(Object.entries(mutants))("%s", (_, mutant) => {
    const found = fc.check(plays({ ...core, ...mutant }), { numRuns: 20_000, endOnFailure: true })
    expect(found.failed).toBe(true)
  })
})
