import type { PipelinePlan } from "../definition/pipeline/plan.ts"

/**
 * By route: the routes it writes to and has to wait for when they have too much queued. One that can write back to it,
 * however far round, is not among them: each would wait for the other.
 */
export function writersThatWait({ routes }: PipelinePlan): readonly (readonly number[])[] {
  const reach = routes.map((_, start) => reachable(routes, start))
  return routes.map(({ outbound }, route) =>
    [...new Set(outbound.values())].filter(target => !reach[target]!.has(route)),
  )
}

function reachable(routes: PipelinePlan["routes"], start: number): ReadonlySet<number> {
  const found = new Set([start])
  for (const route of found) for (const target of routes[route]!.outbound.values()) found.add(target)
  return found
}
