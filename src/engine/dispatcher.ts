import type { Broker } from "../broker/port.ts"
import type { Command, JobResult } from "../core/commands.ts"
import type { Json } from "../core/json.ts"
import { isInFlight } from "../core/state.ts"
import type { PlanNode } from "../definition/plan.ts"
import { failpoint } from "../failpoints.ts"
import { JournalUnavailableError } from "../journal/errors.ts"
import type { Journal } from "../journal/port.ts"
import type { Clock } from "./clock.ts"
import type { ExternalWork } from "./external-work.ts"
import type { LiveJob } from "./live-job.ts"
import { readOutput } from "./load.ts"
import {
  type LargeInput,
  largeInputs,
  largeInputsOfOutput,
  leavingInputs,
  renderJobOutput,
  renderNode,
} from "./render.ts"
import type { Fetched } from "./scope.ts"

/** Takes a ready node to a worker: fetches what is large, renders, and hands the task to the broker. */
export class Dispatcher {
  readonly #broker: Broker
  readonly #journal: Journal
  readonly #clock: Clock
  readonly #command: (job: LiveJob, command: Command) => void
  readonly #failed: (job: LiveJob, error: unknown) => void
  readonly #external: ExternalWork

  constructor(parts: {
    broker: Broker
    journal: Journal
    clock: Clock
    command: (job: LiveJob, command: Command) => void
    /** Something that should not happen: the job cannot go on. */
    failed: (job: LiveJob, error: unknown) => void
    external: ExternalWork
  }) {
    this.#broker = parts.broker
    this.#journal = parts.journal
    this.#clock = parts.clock
    this.#command = parts.command
    this.#failed = parts.failed
    this.#external = parts.external
  }

  dispatch(job: LiveJob, node: number, attempt: number): void {
    if (!isWanted(job, node, attempt)) return
    if (!this.#isServed(job.plan.nodes[node]!)) {
      job.unserved ??= new Set()
      job.unserved.add(node)
      return
    }
    failpoint("dispatch.before")
    const large =
      job.plan.nodes[node]!.reads.length === 0 && job.plan.inDegrees[node] === 0 ? [] : largeInputs(job, node)
    if (large.length === 0) this.#hand(job, node, leavingInputs(job))
    else
      this.#fetchThen(job, large, fetched => isWanted(job, node, attempt) && this.#hand(job, node, fetched))
    failpoint("dispatch.after")
  }

  /** Somebody here can run it, and knows its provider. */
  #isServed({ handler, provider }: PlanNode): boolean {
    return (
      this.#broker.runs(handler) &&
      (provider === null || this.#external.providers.terms(provider) !== undefined)
    )
  }

  /** `use` with the job's output, rendered for the case that this node is the last; at once unless something must be fetched. */
  withJobOutput<T>(
    job: LiveJob,
    last: { node: number; output: Json },
    use: (result: JobResult) => T,
  ): T | Promise<T> {
    const large = largeInputsOfOutput(job)
    if (large.length === 0) return use(renderJobOutput(job, last, leavingInputs(job)))
    return this.#fetch(job, large).then(fetched => use(renderJobOutput(job, last, fetched)))
  }

  #hand(job: LiveJob, node: number, fetched: Fetched): void {
    try {
      this.#render(job, node, fetched)
    } catch (error) {
      this.#failed(job, error)
    }
  }

  #render(job: LiveJob, node: number, fetched: Fetched): void {
    const attempt = job.state.attempt[node]!
    const rendered = renderNode(job, node, fetched)
    if ("task" in rendered) {
      job.running.add(node)
      const { task } = rendered
      const terms = task.provider === undefined ? undefined : this.#external.providers.terms(task.provider)
      if (terms === undefined) this.#broker.dispatch(task)
      else this.#external.capacity.admit(job, task, terms)
      return
    }
    this.#command(
      job,
      "fault" in rendered
        ? { type: "failed", node, attempt, fault: rendered.fault }
        : { type: "skip", node, attempt },
    )
  }

  #fetchThen(job: LiveJob, large: readonly LargeInput[], use: (fetched: Fetched) => void): void {
    this.#fetch(job, large)
      .then(fetched => job.gone || use(fetched))
      .catch(error => this.#failed(job, error))
  }

  async #fetch(job: LiveJob, large: readonly LargeInput[]): Promise<Fetched> {
    const fetched = new Map<number, Json>(leavingInputs(job))
    for (const { node, seq } of large) {
      fetched.set(node, await this.#readOutput(job, seq))
    }
    return fetched
  }

  /** As long as the store is away the job waits: nothing is wrong with it. */
  async #readOutput(job: LiveJob, seq: number): Promise<Json> {
    for (;;) {
      try {
        return await readOutput(this.#journal, job.id, seq)
      } catch (error) {
        if (!(error instanceof JournalUnavailableError) || error.final || job.gone) throw error
        await new Promise<void>(resolve => this.#clock.after(AGAIN_MS, resolve))
      }
    }
  }
}

const AGAIN_MS = 1000

/** The world may have moved on while the fact that asked for this was being written. */
function isWanted(job: LiveJob, node: number, attempt: number): boolean {
  return (
    !job.gone && isInFlight(job.state, node) && job.state.attempt[node] === attempt && !job.running.has(node)
  )
}
