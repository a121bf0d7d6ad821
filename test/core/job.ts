/** One job driven by hand, nodes by id: what the unit tests talk to. */

import { addJobResult, apply } from "../../src/core/apply/apply.ts"
import type {
  Command,
  DecisionContext,
  External,
  JobResult,
  OperationResult,
  RefusalReason,
} from "../../src/core/commands.ts"
import { decide } from "../../src/core/decide/decide.ts"
import type { Effect } from "../../src/core/effects.ts"
import type { Fact, ParentLink, RunningAttempt } from "../../src/core/facts.ts"
import type { Fault } from "../../src/core/faults.ts"
import type { Json } from "../../src/core/json.ts"
import type { PollPolicy } from "../../src/core/plan.ts"
import { type JobState, newJobState, readNodeStatus } from "../../src/core/state.ts"
import type { NodeStatus } from "../../src/core/states.ts"
import { resetEarliestTimer, takeDuePolls, takeDueRetries } from "../../src/core/timers.ts"
import { graphOf, type NodeSpec } from "./graphs.ts"

/** X3 */
export const usualPolls: PollPolicy = { seconds: [30, 60, 120], jitter: 0, maxErrors: null }
export const passing: Fault = { code: "E401", message: "try again", retryable: true }
export const final: Fault = { code: "E403", message: "never", retryable: false }

export class Job {
  readonly specs: readonly NodeSpec[]
  readonly state: JobState
  readonly facts: Fact[] = []
  /** `id#attempt`, in order. */
  readonly dispatched: string[] = []
  readonly aborted: string[] = []
  /** `id:external id`, in order. */
  readonly abandoned: string[] = []
  /** `id#attempt`: a submission of theirs may have had no answer. */
  readonly unanswered: string[] = []
  /** Nodes whose operation was to be looked at. */
  readonly polled: string[] = []
  ends = 0
  now = 1_000_000
  /** What a handler runs for when a command is decided. */
  running: () => readonly RunningAttempt[] = () => []
  random = 0

  constructor(
    specs: readonly NodeSpec[],
    options: { ttlSeconds?: number; parent?: ParentLink; expiresBy?: number } = {},
  ) {
    this.specs = specs
    this.state = newJobState(graphOf(specs))
    this.send({
      type: "submit",
      owner: "ada",
      workflow: "flow",
      workflowVersion: 3,
      input: { n: 1 },
      ttlSeconds: options.ttlSeconds ?? null,
      priority: 0,
      labels: { team: "core" },
      ...(options.parent === undefined ? {} : { parent: options.parent }),
      ...(options.expiresBy === undefined ? {} : { expiresBy: options.expiresBy }),
    })
  }

  /** The reason of a refusal; null: accepted. */
  send(
    command: Command,
    { result, ...more }: Partial<DecisionContext> & { result?: JobResult } = {},
  ): RefusalReason | null {
    const { now, random, running } = this
    const given = { now, random, lossLimit: 3, running, ...more }
    const decided = decide(this.state, command, given)
    if ("refused" in decided) return decided.refused
    for (const fact of decided) {
      const effects: Effect[] = []
      apply(this.state, fact, effects)
      for (const effect of effects) this.#note(effect)
      const hasResult = result !== undefined && this.state.status === "COMPLETED"
      this.facts.push(hasResult ? addJobResult(this.state, fact, result) : fact)
    }
    return null
  }

  #note(effect: Effect): void {
    if (effect.type === "end") this.ends++
    else if (effect.type === "dispatch") this.dispatched.push(`${this.idOf(effect.node)}#${effect.attempt}`)
    else if (effect.type === "abort") this.aborted.push(`${this.idOf(effect.node)}#${effect.attempt}`)
    else if (effect.type === "unanswered") this.unanswered.push(`${this.idOf(effect.node)}#${effect.attempt}`)
    else if (effect.type === "abandon")
      this.abandoned.push(`${this.idOf(effect.node)}:${effect.operation.external_id}`)
  }

  complete(id: string, output: Json = `${id} done`, attempt = this.attemptOf(id)): RefusalReason | null {
    return this.send({ type: "completed", node: this.node(id), attempt, output })
  }

  fail(id: string, fault: Fault = passing, attempt = this.attemptOf(id)): RefusalReason | null {
    return this.send({ type: "failed", node: this.node(id), attempt, fault })
  }

  start(id: string): RefusalReason | null {
    return this.send({ type: "started", ...this.task(id), worker: "w1" })
  }

  skip(id: string): RefusalReason | null {
    return this.send({ type: "skip", ...this.task(id) })
  }

  preview(id: string, data: Json): RefusalReason | null {
    return this.send({ type: "preview", ...this.task(id), data })
  }

  sleep(id: string, seconds: number, output: Json = null): RefusalReason | null {
    const until = this.now + seconds * 1000
    return this.send({ type: "waiting", ...this.task(id), waiting: { kind: "timer", until, output } })
  }

  awaitSignal(id: string, name: string, seconds?: number): RefusalReason | null {
    const until = seconds === undefined ? {} : { until: this.now + seconds * 1000 }
    return this.send({ type: "waiting", ...this.task(id), waiting: { kind: "signal", name, ...until } })
  }

  submitted(id: string, externalId: string, more: { ttlSeconds?: number; poll?: PollPolicy | null } = {}) {
    const { ttlSeconds = null, poll = usualPolls } = more
    return this.send({ type: "submitted", ...this.task(id), provider: "acme", externalId, poll, ttlSeconds })
  }

  news(
    id: string,
    externalId: string,
    result: OperationResult,
    more: Partial<Pick<External, "source" | "resumeToken" | "poll">> = {},
  ): RefusalReason | null {
    const node = this.node(id)
    const rest = { source: "poll" as const, poll: usualPolls, ...more }
    return this.send({ type: "external", node, externalId, result, ...rest })
  }

  /** As the owner does when an alarm rings. */
  pass(seconds: number): void {
    this.now += seconds * 1000
    this.send({ type: "wake" })
    for (const node of takeDueRetries(this.state, this.now))
      this.dispatched.push(`${this.idOf(node)}#${this.state.attempt[node]!}`)
    this.polled.push(...takeDuePolls(this.state, this.now).map(node => this.idOf(node)))
    resetEarliestTimer(this.state)
  }

  status(id: string): NodeStatus {
    return readNodeStatus(this.state, this.node(id))
  }

  statuses(): Record<string, NodeStatus> {
    return Object.fromEntries(this.specs.map(({ id }) => [id, this.status(id)]))
  }

  node(id: string): number {
    return this.specs.findIndex(spec => spec.id === id)
  }

  attemptOf(id: string): number {
    return this.state.attempt[this.node(id)]!
  }

  task(id: string): { node: number; attempt: number } {
    return { node: this.node(id), attempt: this.attemptOf(id) }
  }

  private idOf(node: number): string {
    return this.specs[node]!.id
  }
}
