/**
 * After the crash of a process: which messages may have been the cause, and which have been it often enough.
 */
import type { Fault } from "../../core/faults.ts"
import type { PipelineProgress, RouteProgress, Suspicion } from "../../core/pipeline/progress.ts"
import type { RunParts } from "./run.ts"
import type { Suspects } from "./suspects.ts"

type CrashContext = Pick<RunParts, "plan" | "settings" | "adapters" | "lossLimit" | "context">

/**
 * The process had messages in flight: announced ones, or any that it may have begun among the unsettled ones,
 * which are the first of each queue and those that were due for a retry. Returns the messages that are not
 * tried again.
 */
export function suspectAll(
  suspects: Suspects,
  progress: PipelineProgress,
  of: CrashContext,
): readonly Suspicion[] {
  for (const [route, each] of progress.routes.entries())
    for (const seq of firstUnsettled(each, mostBegun(route, of))) suspects.add({ route, seq }, 0)
  suspects.addParked(of.context.now())
  for (const suspect of progress.suspects) suspects.add(suspect, suspect.losses + 1)
  return progress.suspects.filter(({ losses }) => losses + 1 >= of.lossLimit)
}

/** The maximum number of messages of a route that can have been begun without being durable. */
function mostBegun(route: number, { plan, settings, adapters }: CrashContext): number {
  const { concurrency, adapters: own } = plan.routes[route]!
  const gathers = own.some(({ type }) => adapters.get(type)?.gather !== undefined)
  return (
    concurrency + settings.maxUncommitted + settings.commitMessages + (gathers ? settings.maxGathered : 0)
  )
}

function* firstUnsettled({ settled, tail }: RouteProgress, most: number): Generator<number> {
  let seq = settled.nextUnsettled(0)
  for (let left = most; seq <= tail && left > 0; left--) {
    yield seq
    seq = settled.nextUnsettled(seq)
  }
}

export function lostTooOften(times: number): Fault {
  const message = `The process died ${times} times while this message was in flight; it is not tried again.`
  return { code: "E709", message, retryable: false }
}
