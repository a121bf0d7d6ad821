import type { Broker } from "../../broker/port.ts"
import type { OperationResult } from "../../core/commands.ts"
import type { Fault } from "../../core/faults.ts"
import type { PollPolicy } from "../../core/plan.ts"
import { findTask, parseTaskKey, type TaskRef, taskKey } from "../../core/state.ts"
import { JournalUnavailableError } from "../../journal/errors.ts"
import type { Clock } from "../clock.ts"
import type { JobArtifacts } from "../owner/job-artifacts.ts"
import type { JobOwner, LiveJob } from "../owner/live-job.ts"
import type { Capacity } from "./capacity.ts"
import { PollPlaces } from "./poll-places.ts"
import type { Operation, Providers, ProviderTerms } from "./providers.ts"
import type { RateRequest } from "./rate.ts"

export interface PollsParts {
  readonly clock: Clock
  readonly providers: Providers
  readonly broker: Pick<Broker, "remote">
  readonly capacity: Capacity
  readonly owner: JobOwner
  readonly artifacts: Pick<JobArtifacts, "result">
  /** Polls that run at the same time. */
  readonly concurrency: number
  /** A poll whose place in the rate is further away is postponed, and its job may leave memory. */
  readonly maxWaitMs: number
}

/**
 * Polls operations that are due (X3): with limited concurrency, in which owners take turns, at the provider's rate, and aborted when
 * a webhook arrives first. Results are stored with places of their own, because a download takes longer than a poll.
 */
export class Polls {
  readonly #parts: PollsParts
  readonly #places: PollPlaces
  readonly #storePlaces: PollPlaces

  constructor(parts: PollsParts) {
    this.#parts = parts
    this.#places = new PollPlaces(parts.concurrency)
    this.#storePlaces = new PollPlaces(parts.concurrency)
  }

  /** Polls the operation of a node, or of one of its items. */
  start(job: LiveJob, of: TaskRef): void {
    const abort = new AbortController()
    job.activePolls ??= new Map()
    job.activePolls.set(taskKey(of), abort)
    const { owner, workflow } = job.state
    const begin = (release: () => void) => {
      this.#run({ job, of, abort, release })
        .catch(error => this.#parts.owner.quarantine(job, error))
        .finally(release)
    }
    this.#places.take({ owner, workflow, signal: abort.signal, begin })
  }

  /** X4, second layer: an operation that the job no longer waits for is not polled any longer. */
  drop(job: LiveJob): void {
    for (const [key, abort] of job.activePolls ?? []) {
      const place = findTask(job.state, parseTaskKey(key))
      if (!job.evicted && place?.state.polling.has(place.position)) continue
      job.activePolls!.delete(key)
      abort.abort()
    }
  }

  async #run(poll: RunningPoll): Promise<void> {
    const { job, of, abort } = poll
    const operation = waitingOperation(job, of)
    if (operation === null) return
    const terms = this.#parts.providers.terms(operation.provider)
    const result =
      terms?.poll == null
        ? ({ type: "error", fault: unknownProvider(operation.provider) } as const)
        : await this.#ask(operation, { owner: job.state.owner, ...terms }, poll)
    if (abort.signal.aborted || job.evicted) return
    job.activePolls?.delete(taskKey(of))
    const { externalId } = operation
    const policy = terms?.poll ?? rarely
    const command = { type: "external", ...of, externalId, source: "poll", poll: policy, result } as const
    this.#parts.owner.command(job, command)
  }

  /** While the store is unavailable no provider is polled: the job itself has no fault. */
  async #postponement(request: RateRequest): Promise<number | null> {
    const { capacity, maxWaitMs, clock } = this.#parts
    try {
      return await capacity.rate.tryPlace(request, maxWaitMs)
    } catch (error) {
      if (!(error instanceof JournalUnavailableError)) throw error
      return clock.now() + RETRY_MS
    }
  }

  /** S1: polls through a worker that accepts such polls, if there is one; otherwise from this process. */
  async #poll(operation: Operation, request: PollTerms, signal: AbortSignal): Promise<OperationResult> {
    const { providers, broker, clock, capacity } = this.#parts
    const { provider, externalId, jobId, nodeId } = operation
    const handler = pollQueue(provider)
    const { remote } = broker
    if (remote?.answers(handler) !== true)
      return providers.poll(operation, { signal, place: () => capacity.rate.waitForPlace(request) })
    const { timeoutSeconds } = request
    const of = { jobId, nodeId, handler, owner: "", workflow: "", config: { external_id: externalId } }
    const limit = AbortSignal.timeout(timeoutSeconds * 1000 + WORKER_MS)
    const outcome = await remote.call(of, { signal: AbortSignal.any([signal, limit]) })
    if (outcome === null || outcome === "lost") return { type: "postponed", until: clock.now() }
    if (outcome.type === "completed") return outcome.output as unknown as OperationResult
    if (outcome.type !== "failed") return { type: "error", fault: unknownProvider(provider) }
    const { fault } = outcome
    return fault.code === OUTPUT_TOO_LARGE ? { type: "failed", fault } : { type: "error", fault }
  }

  async #ask(
    operation: Operation,
    terms: Omit<PollTerms, "provider">,
    poll: RunningPoll,
  ): Promise<OperationResult> {
    const { capacity } = this.#parts
    const { signal } = poll.abort
    const request = { ...terms, provider: operation.provider }
    const later = await this.#postponement(request)
    if (later !== null) return { type: "postponed", until: later }
    if (signal.aborted) return { type: "hint" }
    const polled = await this.#poll(operation, request, signal)
    const { provider } = operation
    const place = () => this.#placeToStore(poll)
    const result = await this.#parts.providers.keep(polled, { provider, owner: terms.owner, signal, place })
    if (result.type === "error" && !signal.aborted)
      capacity.reportFailure(operation.provider, "poll", result.fault)
    return this.#withArtifacts(terms.owner, result)
  }

  /** The poll itself is over: its place is free for another one. */
  async #placeToStore({ job, abort: { signal }, release }: RunningPoll): Promise<(() => void) | null> {
    const { owner, workflow } = job.state
    release()
    if (this.#storePlaces.isFull(owner)) return null
    return new Promise(resolve =>
      this.#storePlaces.take({ owner, workflow, signal, begin: resolve, abandoned: () => resolve(null) }),
    )
  }

  async #withArtifacts(owner: string, result: OperationResult): Promise<OperationResult> {
    const { artifacts, clock } = this.#parts
    try {
      return await artifacts.result(owner, result)
    } catch (error) {
      if (!(error instanceof JournalUnavailableError)) throw error
      return { type: "postponed", until: clock.now() + RETRY_MS }
    }
  }
}

const RETRY_MS = 5000
/** A worker answers within the provider's time limit, unless the poll waits there, or the worker is lost. */
const WORKER_MS = 5000
/** Error of a poll by a worker: the result itself fits, but not with the few fields around it. */
const OUTPUT_TOO_LARGE = "E405"

/** The queue of polls of a provider's operations: workers that know the provider read it. */
export function pollQueue(provider: string): string {
  return `poll:${provider}`
}

interface RunningPoll {
  readonly job: LiveJob
  readonly of: TaskRef
  readonly abort: AbortController
  /** Frees its place. */
  readonly release: () => void
}

type PollTerms = RateRequest & Pick<ProviderTerms, "timeoutSeconds">

/** For a provider that this process does not know, or cannot poll any more: a process with another release may. */
const rarely: PollPolicy = { seconds: [120], jitter: 0.1, maxErrors: null }

function unknownProvider(provider: string): Fault {
  return {
    code: "E423",
    message: `This engine does not know provider "${provider}" and cannot poll it. Start the engine with --providers.`,
    retryable: true,
  }
}

function waitingOperation(job: LiveJob, of: TaskRef): Operation | null {
  const place = findTask(job.state, of)
  const waiting = place?.state.waiting.get(place.position)
  if (waiting?.kind !== "external") return null
  const { provider, external_id: externalId } = waiting
  return { provider, externalId, jobId: job.id, nodeId: job.plan.nodes[of.node]!.id }
}
