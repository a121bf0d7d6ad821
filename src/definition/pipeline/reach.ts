/** Which routes messages can reach. `targets[i]` are the routes that route `i` writes to. O(routes + edges). */

export type Targets = readonly (readonly number[])[]

/** Adds all routes that can be reached from these, including themselves. Known routes are not visited again. */
export function reach(starts: Iterable<number>, targets: Targets, found = new Set<number>()): Set<number> {
  const open = [...starts]
  for (let route = open.pop(); route !== undefined; route = open.pop()) {
    if (found.has(route)) continue
    found.add(route)
    for (const target of targets[route]!) open.push(target)
  }
  return found
}

/**
 * One route of each group of `routes` that no route outside of the group writes to: together they reach all routes. A
 * group is one route, or routes that write to each other in a cycle; its first route represents it.
 */
export function beginnings(routes: ReadonlySet<number>, targets: Targets): number[] {
  const covered = new Set<number>()
  const found: number[] = []
  // The route that was finished last cannot be reached from any other group (Kosaraju).
  for (const route of finishingOrder(routes, targets).reverse()) {
    if (covered.has(route)) continue
    found.push(route)
    reach([route], targets, covered)
  }
  return found.sort((a, b) => a - b)
}

/** Depth first, with an explicit stack; each route comes after all that were first found through it. */
function finishingOrder(routes: ReadonlySet<number>, targets: Targets): number[] {
  const seen = new Set<number>()
  const finished: number[] = []
  for (const root of [...routes].sort((a, b) => a - b)) {
    const open = seen.has(root) ? [] : [{ route: root, next: 0 }]
    seen.add(root)
    for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
      const target = targets[top.route]![top.next++]
      if (target === undefined) {
        finished.push(top.route)
        open.pop()
      } else if (routes.has(target) && !seen.has(target)) {
        seen.add(target)
        open.push({ route: target, next: 0 })
      }
    }
  }
  return finished
}
