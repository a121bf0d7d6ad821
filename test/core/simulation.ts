/**
 * One job played against the core and the model side by side, with an imaginary pool of workers that takes
 * dispatches and aborts, answers in any order, and may answer long after its process was declared lost.
 * Everything that must hold is checked after every step; the list is in invariants.ts.
 */
import { addJobResult, apply, fold } from "../../src/core/apply/apply.ts"
import { decide } from "../../src/core/decide/decide.ts"
import type { Effect } from "../../src/core/effects.ts"
import type { Fact, RunningAttempt } from "../../src/core/facts.ts"
import type { Graph } from "../../src/core/plan.ts"
import { type JobState, newJobState, RUNNING } from "../../src/core/state.ts"
import { nextTimer, resetEarliestTimer, takeDuePolls, takeDueRetries } from "../../src/core/timers.ts"
import type { Action } from "./actions.ts"
import { graphOf, type NodeSpec } from "./graphs.ts"
import { mustHold, type Observed, observe, verify, verifyApplied } from "./invariants.ts"
import { Model } from "./model.ts"
import type { JobResult } from "./model-node.ts"
import { answerOf, jobResultOf, lossLimit, type Move, moveOf } from "./moves.ts"
import { newsOf } from "./moves-external.ts"

/** The functions under test, so that a broken one can be put in their place. */
export const core = { decide, apply, addJobResult, takeDueRetries, takeDuePolls, resetEarliestTimer }
export type Core = typeof core

export class Simulation {
  readonly graph: Graph
  readonly model: Model
  /** As the journal gives them back: through JSON. */
  readonly journal: Fact[] = []
  /** `id#attempt` of what a worker has now, and of all there ever was. */
  readonly pool = new Set<string>()
  readonly everDispatched = new Set<string>()
  readonly operations: string[] = []
  readonly refusals = new Set<string>()
  state: JobState
  now = 1_000_000
  readonly random = 0.5
  private made = 0
  private readonly core: Core
  private effects = noneYet()

  constructor(
    specs: readonly NodeSpec[],
    options: { ttlSeconds?: number | null; isChild?: boolean; delay?: number | null; core?: Core } = {},
  ) {
    const ttlSeconds = options.ttlSeconds ?? null
    this.core = options.core ?? core
    this.graph = graphOf(specs)
    this.state = newJobState(this.graph)
    const { isChild = false, delay = null } = options
    const startAt = delay === null ? null : this.now + delay * 1000
    this.model = new Model(specs, { ttlSeconds, now: this.now, isChild, startAt })
    const parent = isChild ? { parent: { job_id: "outer", node: 0, path: ["outer"] } } : {}
    const start = startAt === null ? {} : { startAt }
    this.step({
      command: { type: "submit", ...origin, ttlSeconds, ...parent, ...start },
      inModel: () => true,
    })
  }

  act(action: Action): void {
    if (action.do === "pass") {
      this.now += action.seconds * 1000
      if (action.wakes) this.wake()
      else verify(this)
    } else if (action.do === "crash") this.crash()
    else if (action.do === "answer") {
      const move = answerOf(this, action)
      if (move !== null) this.step(move)
    } else if (action.do === "news") {
      const move = newsOf(this, action)
      if (move !== null) this.step(move)
    } else this.step(moveOf(this, action))
  }

  /** Answers whatever is asked until the job has ended: nothing may be stuck. */
  finish(): void {
    for (let turn = 0; !this.model.isOver(); turn++) {
      mustHold(turn < 500, "the job goes on for ever")
      if (this.state.paused !== null) this.act({ do: "resume" })
      const [task] = this.pool
      const signal = [...this.state.waiting.values()].find(waiting => waiting.kind === "signal")
      const child = [...this.state.waiting].find(([, waiting]) => waiting.kind === "child")
      const timer = nextTimer(this.state)
      if (task !== undefined)
        this.act({
          do: "answer",
          from: "live",
          pick: 0,
          result: { kind: "completed", usage: false, job: "plain" },
        })
      else if (signal?.kind === "signal") this.act({ do: "signal", name: signal.name })
      else if (this.state.awaitingSlot.size > 0)
        this.act({ do: "grant", pick: this.state.awaitingSlot.keys().next().value! })
      else if ([...this.state.waiting.values()].some(({ kind }) => kind === "external")) this.act(ended)
      else if (child !== undefined) this.endChild(child[0])
      else if (timer !== null)
        this.act({ do: "pass", seconds: Math.max(0, timer - this.now) / 1000, wakes: true })
      else mustHold(false, "nothing will ever wake the job")
    }
  }

  /** The family tells the node of its child's end. */
  private endChild(node: number): void {
    const attempt = this.state.attempt[node]!
    const output = this.fresh("child output")
    const extra = jobResultOf(this, "output")
    const { id } = this.graph.nodes[node]!
    this.step({
      command: { type: "completed", node, attempt, output },
      result: extra,
      inModel: () => {
        this.model.completed(id, output, extra)
        return true
      },
    })
  }

  /** As the owner does it: what is due becomes facts, then retries that are due are handed out. */
  private wake(): void {
    const before = this.model.inFlight()
    this.effects = noneYet()
    const extra = jobResultOf(this, "output")
    this.record({ command: { type: "wake" }, result: extra })
    for (const node of this.core.takeDueRetries(this.state, this.now))
      this.effects.dispatched.push(`${this.graph.nodes[node]!.id}#${this.state.attempt[node]!}`)
    const due = [...this.state.pollAt].filter(([, at]) => at <= this.now).length
    this.core.takeDuePolls(this.state, this.now)
    mustHold(this.state.polling.size >= due, "an operation that is due is not looked at")
    this.core.resetEarliestTimer(this.state)
    this.model.woke(this.now, extra)
    this.settle(before)
  }

  /** Memory is gone, the journal is not. Workers may live on: their answers come from `everDispatched`. */
  private crash(): void {
    this.pool.clear()
    this.state = fold(this.graph, this.journal)
    this.effects = noneYet()
    this.record({ command: { type: "recover" } })
    const before = new Set<string>()
    this.model.recovered(this.now, lossLimit)
    // Whether anybody is told to stop what died anyway is of no account.
    this.effects.aborted = []
    this.settle(before)
    this.wake()
  }

  private step(move: Move): void {
    const { command, inModel } = move
    const before = this.model.inFlight()
    this.effects = noneYet()
    const accepted = this.record(move)
    mustHold(
      inModel() === accepted,
      `${command.type} was ${accepted ? "accepted" : "refused"}, the model disagrees`,
    )
    // Who had it is dead, or has given it back.
    if (accepted && "only" in command)
      for (const { node, attempt } of command.only ?? [])
        this.pool.delete(`${this.graph.nodes[node]?.id}#${attempt}`)
    if (accepted && answers.includes(command.type)) {
      const { node, attempt } = command as { node: number; attempt: number }
      const task = `${this.graph.nodes[node]!.id}#${attempt}`
      this.pool.delete(task)
      // No worker ever had it: it is handed out when its slot has come.
      if (command.type === "await_slot") this.everDispatched.delete(task)
    }
    if (accepted && command.type === "pause") this.takeBack(command.kept ?? [])
    if (accepted && command.type === "submitted") this.operations.push(command.externalId)
    this.settle(before)
  }

  /** No worker has begun the others: they are handed out when the job is resumed. */
  private takeBack(kept: readonly { readonly node: number }[]): void {
    const ids = kept.map(({ node }) => this.graph.nodes[node]!.id)
    for (const task of [...this.pool]) {
      if (ids.includes(task.split("#")[0]!)) continue
      this.pool.delete(task)
      this.everDispatched.delete(task)
    }
  }

  private record({
    command,
    result = {},
    otherDiedAt = Number.NEGATIVE_INFINITY,
  }: Omit<Move, "inModel">): boolean {
    const decision = this.core.decide(this.state, command, { ...this.given(), otherDiedAt })
    if ("refused" in decision) {
      this.refusals.add(decision.refused)
      return false
    }
    for (const fact of decision) {
      const before = observe(this.state)
      const effects: Effect[] = []
      this.core.apply(this.state, fact, effects)
      for (const effect of effects) this.note(effect, before)
      const recorded = this.withResult(fact, result)
      this.journal.push(JSON.parse(JSON.stringify(recorded)) as Fact)
      verifyApplied(this, before, recorded)
    }
    return true
  }

  /** As the owner does it: the fact that completed the job carries the job's own result. */
  private withResult(fact: Fact, { jobOutput, jobFault }: JobResult): Fact {
    if (this.state.status !== "COMPLETED") return fact
    if (jobFault !== undefined) return this.core.addJobResult(this.state, fact, { job_fault: jobFault })
    return jobOutput === undefined
      ? fact
      : this.core.addJobResult(this.state, fact, { job_output: jobOutput })
  }

  private note(effect: Effect, before: Observed): void {
    const name = (node: number, attempt: number) => `${this.graph.nodes[node]!.id}#${attempt}`
    switch (effect.type) {
      case "dispatch": {
        const task = name(effect.node, effect.attempt)
        mustHold(before.nodes[effect.node] !== "COMPLETED", `${task} has completed and is dispatched`)
        this.effects.dispatched.push(task)
        break
      }
      case "abort":
        this.effects.aborted.push(name(effect.node, effect.attempt))
        break
      case "abandon":
        this.effects.abandoned.push(`${this.graph.nodes[effect.node]!.id}:${effect.operation.external_id}`)
        break
      case "end":
        this.effects.ends++
    }
  }

  /** What followed in the core and in the model must be the same; then the pool learns of it. */
  private settle(before: Set<string>): void {
    const wasOver = this.model.wasOver
    const wanted = this.model.settle(this.now, before)
    const { dispatched, aborted, abandoned, ends } = this.effects
    mustHold(abandoned.sort().join() === wanted.abandoned.join(), `abandoned ${abandoned}`)
    const remaining = dispatched.filter(task => !aborted.includes(task))
    mustHold(
      remaining.sort().join() === wanted.dispatched.join(),
      `dispatched ${remaining}, wanted ${wanted.dispatched}`,
    )
    const stopped = aborted.filter(task => before.has(task))
    mustHold(stopped.sort().join() === wanted.aborted.join(), `aborted ${stopped}, wanted ${wanted.aborted}`)
    mustHold(ends === (this.model.isOver() && !wasOver ? 1 : 0), `the end was told ${ends} times`)
    for (const task of dispatched) {
      mustHold(!this.everDispatched.has(task), `${task} is dispatched twice`)
      this.everDispatched.add(task)
      this.pool.add(task)
    }
    for (const task of aborted) this.pool.delete(task)
    const inFlight = this.model.inFlight()
    mustHold([...this.pool].sort().join() === [...inFlight].sort().join(), `workers have ${[...this.pool]}`)
    verify(this)
  }

  private given() {
    return { now: this.now, random: this.random, lossLimit, running: () => this.running() }
  }

  /** Every other task of the pool: its handler has begun, and nobody has recorded it. */
  private running(): RunningAttempt[] {
    return [...this.begun()].map(task => ({ node: this.nodeOf(task), ran_ms: 300, worker: "w9" }))
  }

  begun(): Set<string> {
    const isBegun = (task: string) => (this.nodeOf(task) + Number(task.split("#")[1])) % 2 === 0
    return new Set([...this.pool].filter(isBegun))
  }

  kept(): Set<string> {
    const begun = this.begun()
    return new Set(
      [...this.pool].filter(task => begun.has(task) || this.state.nodeStatus[this.nodeOf(task)] === RUNNING),
    )
  }

  private nodeOf(task: string): number {
    return this.graph.nodes.findIndex(({ id }) => id === task.split("#")[0])
  }

  fresh(what: string): string {
    return `${what} ${++this.made}`
  }
}

const origin = { owner: "ada", workflow: "flow", workflowVersion: 1, input: { n: 1 }, priority: 0 } as const
const noneYet = () => ({
  dispatched: [] as string[],
  aborted: [] as string[],
  abandoned: [] as string[],
  ends: 0,
})
/** What takes a task out of its worker's hands. */
const answers = ["completed", "failed", "waiting", "submitted", "await_slot", "skip"]
const ended: Action = {
  do: "news",
  of: "current",
  pick: 0,
  news: "completed",
  byPoll: false,
  token: undefined,
  maxErrors: null,
}
