/** What runs attempts, as a pool of tasks sees it. */
import type { ArtifactAnswer, ArtifactQuestion } from "../core/artifacts.ts"
import type { Json, JsonObject } from "../core/json.ts"
import type { Progress } from "../core/view/view.ts"
import type { LoggedEnd, LoggedLines } from "../log.ts"
import type { Limit } from "./fair-queue.ts"
import type { Outcome, Task } from "./port.ts"

/** The events of a running attempt. None of these methods throws. */
export interface AttemptEvents {
  /** The handler begins only now, because its dependencies had to be loaded first. */
  begun(): void
  started(): void
  /** Resolves when the attempt may send another request within the rate limit of its provider. */
  place(): Promise<void>
  /** As `asked` of `TaskEvents`. */
  ask?(question: ArtifactQuestion): Promise<ArtifactAnswer>
  progress(progress: Progress): void
  preview(data: Json): void
  /**
   * Called exactly once, as the last event. `null`: the attempt was aborted and its outcome is not needed.
   * `at`: the time of the end by `performance.now`; absent: now. `logged`: absent: nothing.
   */
  ended(outcome: Outcome | null, at?: number, logged?: LoggedEnd): void
  /** Instead of `ended`: the attempt has stopped and is dispatched again; this counts as no try. Absent: not possible. */
  returned?(): void
}

export interface RunningAttempt {
  /** The handler has not begun: `begun` follows, unless the attempt ends first. */
  readonly isLoading?: boolean
  /** `ended(null)` follows, at the latest when the grace period has passed. */
  abort(reason: string): void
  /** The usage that the handler has reported so far; undefined: none. */
  used?(): JsonObject | undefined
}

/** Runs attempts (src/worker/runner.ts). */
export interface Runner {
  runs(handler: string): boolean
  /** True if the handler only computes. */
  isPure(handler: string): boolean
  /**
   * The limits on attempts of this handler in addition to the pool's; limits with the same name are one
   * limit.
   */
  limits(handler: string): readonly Limit[]
  start(task: Task, events: AttemptEvents): RunningAttempt
  /** The time by the clock that the rate limits of providers use. */
  now?(): number
  /** Takes log lines that another process has packed. Absent: they are not stored. */
  logged?(rows: readonly LoggedLines[]): void
  /** Terminates attempts that `abort` could not end: they report nothing more. */
  close(): Promise<void>
}
