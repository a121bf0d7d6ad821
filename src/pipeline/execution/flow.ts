/** The flow of messages between routes: which route waits for which. */
import { type PipelineProgress, unsettled } from "../../core/pipeline/progress.ts"
import type { PipelinePlan } from "../../definition/pipeline/plan.ts"

export class Flow {
  readonly #plan: PipelinePlan
  readonly #progress: PipelineProgress
  /**
   * By route: the routes it writes to and waits for while they have too many queued messages. A route that
   * can write back to it, over any number of routes, is not included: each would wait for the other.
   */
  readonly #behind: readonly (readonly number[])[]

  constructor(plan: PipelinePlan, progress: PipelineProgress) {
    this.#plan = plan
    this.#progress = progress
    const { routes } = plan
    const reach = routes.map((_, start) => reachable(routes, start))
    this.#behind = routes.map(({ outbound }, route) =>
      [...new Set(outbound.values())].filter(target => !reach[target]!.has(route)),
    )
  }

  hasRoomBehind(route: number): boolean {
    return this.#behind[route]!.every(target => {
      const { maxQueued } = this.#plan.routes[target]!.backpressure
      const progress = this.#progress.routes[target]!
      // The exact number is computed only where it can matter.
      return progress.tail - progress.settled.upTo < maxQueued || unsettled(progress) < maxQueued
    })
  }
}

function reachable(routes: PipelinePlan["routes"], start: number): ReadonlySet<number> {
  const found = new Set([start])
  for (const route of found) for (const target of routes[route]!.outbound.values()) found.add(target)
  return found
}
