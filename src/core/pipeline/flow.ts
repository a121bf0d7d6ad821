/** Which routes of a pipeline a route waits for. */

interface FlowRoute {
  readonly outbound: ReadonlyMap<string, number>
}

/**
 * By route: the routes it writes to and waits for while they have too many queued messages. A route that can write back
 * to it, over any number of routes, is not included: each would wait for the other.
 */
export function routesBehind(routes: readonly FlowRoute[]): readonly (readonly number[])[] {
  const reach = routes.map((_, start) => reachable(routes, start))
  return routes.map(({ outbound }, route) =>
    [...new Set(outbound.values())].filter(target => !reach[target]!.has(route)),
  )
}

function reachable(routes: readonly FlowRoute[], start: number): ReadonlySet<number> {
  const found = new Set([start])
  for (const route of found) for (const target of routes[route]!.outbound.values()) found.add(target)
  return found
}
