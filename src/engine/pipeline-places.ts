/** Places among the pipeline executions that may run at once (P1, `max_executions`). */

import type { AttemptRef } from "../core/commands.ts"
import { executionsFull, type Fault } from "../core/faults.ts"
import { findTask, taskKey } from "../core/state.ts"
import { jobHasEnded } from "../core/states.ts"
import { UmbraError } from "../errors.ts"
import type { Log } from "../log.ts"
import type { Clock } from "./clock.ts"
import { jobPartition } from "./ids.ts"
import type { LiveJob } from "./owner/live-job.ts"
import type { PartitionOwner } from "./owner/owner.ts"

/**
 * Claims a place for the execution of a job; rejects with E702 if there is none. `endedAt`: the job ended then and is
 * about to be retried. Resolves with a function that releases the place.
 */
export type ClaimExecution = (jobId: string, endedAt?: number | null) => Promise<() => Promise<void>>

/** For engines that run no pipelines. */
export const anyExecution: ClaimExecution = async () => async () => {}

/** A retry of an execution needs a place again. Resolves with a function that releases it; null: the job needs none. */
export async function placeForRetry(
  { id, plan, state }: LiveJob,
  claim: ClaimExecution,
): Promise<(() => Promise<void>) | null> {
  const isToRun = jobHasEnded(state.status) && state.status !== "COMPLETED" && state.status !== "DELETED"
  return plan.pipeline === null || !isToRun ? null : claim(id, state.finishedAt)
}

export const isFull = (error: unknown): error is UmbraError =>
  error instanceof UmbraError && error.code === executionsFull

/** There is no place for the child job of a node: the node waits for one. */
export class NoPlaceError extends UmbraError {
  readonly childId: string
  readonly endedAt: number | null
  readonly pipeline: string

  constructor(cause: UmbraError, child: { childId: string; endedAt: number | null; pipeline: string }) {
    super(executionsFull, cause.message, { cause, details: cause.details })
    this.childId = child.childId
    this.endedAt = child.endedAt
    this.pipeline = child.pipeline
  }

  get fault(): Fault {
    const details = { pipeline: this.pipeline, limit: Number(this.details.limit) }
    const { code, message } = this
    return { code, message, details, retryable: true }
  }
}

/** Executions that end in other processes are found by polling: one query a second while a node waits. */
const ASK_MS = 1000

interface Waiter {
  readonly jobId: string
  readonly at: AttemptRef
  readonly childId: string
  readonly endedAt: number | null
}

export interface ExecutionQueueParts {
  readonly claim: ClaimExecution
  readonly partitionOwner: PartitionOwner
  readonly clock: Clock
  readonly log: Log
}

/**
 * Nodes of this process that wait for a place for their execution, in order of arrival.
 *
 * 1. That a node waits is a fact, with a time for its next dispatch. This queue dispatches it sooner and may be lost.
 * 2. A place is claimed for the first waiting node before the node is dispatched, which then finds it held.
 */
export class ExecutionQueue {
  readonly #parts: ExecutionQueueParts
  readonly #waiting = new Map<string, Waiter>()
  #isServing = false
  #isAskedAgain = false
  #cancelTimer: (() => void) | null = null

  constructor(parts: ExecutionQueueParts) {
    this.#parts = parts
  }

  add(jobId: string, at: AttemptRef, { childId, endedAt }: NoPlaceError): void {
    const key = `${jobId}/${taskKey(at)}`
    this.#waiting.delete(key)
    this.#waiting.set(key, { jobId, at, childId, endedAt })
    this.#arm()
  }

  /** An execution has ended here. */
  freed(): void {
    if (this.#waiting.size > 0) void this.#serve()
  }

  stop(): void {
    this.#waiting.clear()
    this.#cancelTimer?.()
  }

  #arm(): void {
    if (this.#waiting.size === 0 || this.#cancelTimer !== null) return
    this.#cancelTimer = this.#parts.clock.after(ASK_MS, () => {
      this.#cancelTimer = null
      void this.#serve()
    })
  }

  /** Dispatches as many nodes as there are places for. */
  async #serve(): Promise<void> {
    if (this.#isServing) {
      this.#isAskedAgain = true
      return
    }
    this.#isServing = true
    try {
      do {
        this.#isAskedAgain = false
        while (await this.#serveFirst());
      } while (this.#isAskedAgain)
    } catch (error) {
      if (!isFull(error))
        this.#parts.log.warn({ error: String(error) }, "could not query free executions; retrying")
    } finally {
      this.#isServing = false
      this.#arm()
    }
  }

  async #serveFirst(): Promise<boolean> {
    const [first] = this.#waiting
    if (first === undefined) return false
    const [key, waiter] = first
    const { claim, partitionOwner, clock } = this.#parts
    const releasePlace = await claim(waiter.childId, waiter.endedAt)
    if (this.#waiting.get(key) === waiter) this.#waiting.delete(key)
    const isHere = partitionOwner.owned.has(jobPartition(waiter.jobId))
    const isDispatched = isHere
      ? await partitionOwner.withJob(waiter.jobId, job => {
          if (!waits(job, waiter.at)) return false
          partitionOwner.dispatchNow(job, waiter.at, clock.now())
          return true
        })
      : false
    if (!isDispatched) await releasePlace()
    return true
  }
}

function waits({ state }: LiveJob, at: AttemptRef): boolean {
  const place = findTask(state, at)
  if (place === null || !place.state.retryAt.has(place.position)) return false
  return place.state.faults.get(place.position)?.fault.code === executionsFull
}
