/** `max_dead_letters` of a pipeline: when an execution fails because too many of its messages failed. */
import type { Fault } from "../../core/faults.ts"
import type { PipelineProgress } from "../../core/pipeline/progress.ts"
import type { PipelinePlan } from "../../definition/pipeline/plan.ts"

/**
 * null: the limit is kept. A share can be evaluated only when the execution has drained: the very first
 * message may fail.
 */
export function deadLetterFault(
  { maxDeadLetters: limit, routes }: PipelinePlan,
  progress: PipelineProgress,
  isDrained: boolean,
): Fault | null {
  if (limit === null) return null
  if (limit > 0 && limit < 1) return isDrained ? shareFault(limit, routes, progress) : null
  const dead = progress.routes.reduce((sum, route) => sum + route.dead, 0)
  return dead > limit
    ? fault(`${messages(dead)} failed permanently, and max_dead_letters allows ${limit}.`)
    : null
}

function shareFault(limit: number, routes: PipelinePlan["routes"], progress: PipelineProgress): Fault | null {
  const position = progress.routes.findIndex(({ dead, tail }) => dead > limit * tail)
  if (position < 0) return null
  const { dead, tail } = progress.routes[position]!
  const { name } = routes[position]!
  return fault(
    `${dead} of ${messages(tail)} of route "${name}" failed permanently, and max_dead_letters allows a share of ${limit}.`,
  )
}

const messages = (n: number): string => (n === 1 ? "1 message" : `${n} messages`)

function fault(message: string): Fault {
  return {
    code: "E712",
    message: `${message} See the causes with \`umbra dead-letters\`; a retry of the job tries them again.`,
    retryable: false,
  }
}
