/**
 * The progress of an execution: the messages that its routes have received and settled. Written whole with every commit;
 * a new owner needs nothing else to continue.
 */
import type { JsonObject } from "../json.ts"
import { Settled } from "./settled.ts"

export interface RouteProgress {
  /** Seq of the last message of its queue. */
  tail: number
  /** Messages that need no delivery from the queue: acknowledged, parked, or dead. */
  readonly settled: Settled
  /** Acknowledged. */
  done: number
  /** Deliveries that failed, those of messages that were retried included. */
  failedTries: number
  /** Messages that wait for their next try, in the store or in memory. */
  waiting: number
  /**
   * Of the waiting messages, those that failed permanently and failed the job (`dead_letter: false`). They are retried only
   * if the job is retried, which resets this to 0.
   */
  fatal: number
  dead: number
}

export interface PipelineProgress {
  readonly routes: readonly RouteProgress[]
  /** Initial messages so far: each is the root of a tree. */
  roots: number
  /** All initial messages are stored. */
  isBegun: boolean
  /** A process runs it. A process that shuts down cleanly resets this. */
  isOpen: boolean
  /** It failed on `max_dead_letters`: when its job is retried, its dead letters are retried first. */
  isOverLimit: boolean
  /** Messages that are retried after the process that was processing them died. */
  suspects: readonly Suspicion[]
}

/** A message, and how many processes are known to have died while it was tried. */
export interface Suspicion {
  readonly route: number
  readonly seq: number
  readonly losses: number
  /** Deliveries of it that failed; absent: none. */
  readonly attempts?: number
}

export function newProgress(routes: number): PipelineProgress {
  return {
    roots: 0,
    isBegun: false,
    isOpen: false,
    isOverLimit: false,
    suspects: [],
    routes: Array.from({ length: routes }, () => ({
      tail: 0,
      settled: new Settled(),
      ...{ done: 0, failedTries: 0, waiting: 0, fatal: 0, dead: 0 },
    })),
  }
}

/** Nothing is queued, in flight or waiting for another try. */
export function isDrained({ routes, isBegun }: PipelineProgress): boolean {
  return isBegun && routes.every(({ tail, settled, waiting }) => settled.upTo === tail && waiting === 0)
}

/** Messages of the queue that are not settled, those in flight included. */
export function unsettled({ tail, settled: { upTo, beyond } }: RouteProgress): number {
  let count = tail - upTo
  for (let i = 0; i < beyond.length; i += 2) count -= beyond[i + 1]! - beyond[i]! + 1
  return count
}

/** As text; `live` is further information of the owner, for display. */
export function encodeProgress(progress: PipelineProgress, live: JsonObject | null): string {
  const { roots, isBegun, isOpen, isOverLimit, suspects, routes } = progress
  return JSON.stringify({
    roots,
    begun: isBegun,
    open: isOpen,
    over_limit: isOverLimit ? true : undefined,
    suspects: suspects.length === 0 ? undefined : suspects,
    routes: routes.map(({ settled, failedTries: failed, fatal, ...counts }) => ({
      ...counts,
      failed,
      fatal: fatal === 0 ? undefined : fatal,
      up_to: settled.upTo,
      beyond: settled.beyond.length === 0 ? undefined : settled.beyond,
    })),
    live: live ?? undefined,
  })
}

export function decodeProgress(text: string): PipelineProgress & { readonly live: JsonObject | null } {
  const { roots, begun, open, over_limit, suspects, routes, live } = JSON.parse(text) as Encoded
  return {
    roots,
    isBegun: begun,
    isOpen: open,
    isOverLimit: over_limit ?? false,
    suspects: suspects ?? [],
    live: live ?? null,
    routes: routes.map(({ up_to, beyond, failed: failedTries, fatal, ...counts }) => ({
      ...counts,
      failedTries,
      fatal: fatal ?? 0,
      settled: new Settled(up_to, beyond),
    })),
  }
}

interface Encoded {
  readonly roots: number
  readonly begun: boolean
  readonly open: boolean
  readonly over_limit?: boolean
  readonly suspects?: readonly Suspicion[]
  readonly live?: JsonObject
  readonly routes: readonly (Omit<RouteProgress, "settled" | "failedTries" | "fatal"> & {
    /** Deliveries. */
    readonly failed: number
    /** Absent: none. */
    readonly fatal?: number
    readonly up_to: number
    readonly beyond?: readonly number[]
  })[]
}
