/**
 * Problems of the queues of a pipeline: one that two routes read (E104), that no route reads (E113), that no message ever
 * reaches (E109), and cycles in which messages could circulate for ever (E107).
 */

import type { ShapeContext } from "../document/issues.ts"
import { cycleText, findCycles } from "../graph/cycles.ts"
import { RowBuilder } from "../graph/graph.ts"
import { type DocumentPath, firstPositions } from "../problem.ts"

export interface QueueUse {
  /** By route; `undefined` where it cannot be parsed. */
  readonly routes: readonly { readonly name: string; readonly inbound: string | undefined }[]
  readonly writes: readonly Write[]
  /** Is `writes` complete? Otherwise some could not be parsed. */
  readonly isComplete: boolean
  /** `undefined`: it cannot be parsed. */
  readonly maxHops: number | null | undefined
}

export interface Write {
  /** The route; null: an initial message. */
  readonly from: number | null
  readonly queue: string
  readonly path: DocumentPath
}

/** Returns the route that reads each queue. */
export function checkQueues(use: QueueUse, context: ShapeContext): ReadonlyMap<string, number> {
  const queues = use.routes.map(({ inbound }) => inbound)
  const readers = firstPositions(queues, (queue, position, first) => {
    const message = `Route "${use.routes[first]!.name}" already reads the queue "${queue}", and only one route may read a queue. Give this route its own queue, and let the route that writes to it emit to both.`
    context.problems.add("E104", ["routes", position, "inbound"], message)
  })
  const readersKnown = use.routes.every(({ inbound }) => inbound !== undefined)
  const meant = readersKnown ? reportUnread(use, readers, context) : new Map<string, number>()
  if (use.isComplete && readersKnown) reportUnreached(use, new Map([...readers, ...meant]), context)
  const isWhole = readersKnown && use.isComplete && meant.size === 0
  checkCycles(use, { targets: collectTargets(use, readers), isWhole }, context)
  return readers
}

/** Returns the queues that misspelt names were probably meant to be: that they get no messages is a consequence. */
function reportUnread(
  { writes }: QueueUse,
  readers: ReadonlyMap<string, number>,
  { problems, suggest }: ShapeContext,
): Map<string, number> {
  const meant = new Map<string, number>()
  const reported = new Set<string>()
  for (const { queue, path } of writes) {
    if (readers.has(queue) || reported.has(queue)) continue
    reported.add(queue)
    const nearest = suggest.nearest(queue, readers.keys())
    const reader = nearest === undefined ? undefined : readers.get(nearest)
    if (reader !== undefined) meant.set(queue, reader)
    const advice =
      nearest === undefined ? 'Add a route that has it as "inbound".' : `Did you mean "${nearest}"?`
    problems.add("E113", path, `No route reads the queue "${queue}". ${advice}`)
  }
  return meant
}

function reportUnreached(
  use: QueueUse,
  readers: ReadonlyMap<string, number>,
  { problems }: ShapeContext,
): void {
  const targets = collectTargets(use, readers)
  const starts = use.writes.flatMap(({ from, queue }) => (from === null ? (readers.get(queue) ?? []) : []))
  const reached = reach(starts, targets)
  // A route that reads another route's queue is reported for that.
  const isReader = ({ inbound }: { inbound: string | undefined }, route: number) =>
    readers.get(inbound!) === route
  const unreached = new Set(
    use.routes.flatMap((route, position) =>
      isReader(route, position) && !reached.has(position) ? position : [],
    ),
  )
  const written = new Set(targets.flatMap((to, from) => to.filter(route => route !== from)))
  for (const route of beginnings(unreached, targets)) {
    const { name, inbound } = use.routes[route]!
    const message = written.has(route)
      ? `No message ever reaches route "${name}": only routes after it write to its queue "${inbound}". Add an initial message ("init"), or write to the queue from another route.`
      : `No route writes to the queue "${inbound}", so route "${name}" would never run. Write to it from another route ("outbound"), or add an initial message ("init").`
    problems.add("E109", ["routes", route, "inbound"], message)
  }
}

function collectTargets({ routes, writes }: QueueUse, readers: ReadonlyMap<string, number>): Targets {
  const targets = routes.map(() => new Set<number>())
  for (const { from, queue } of writes) {
    const to = readers.get(queue)
    if (from !== null && to !== undefined) targets[from]!.add(to)
  }
  return targets.map(of => [...of].sort((a, b) => a - b))
}

/** `isWhole`: otherwise a cycle may be hidden by a problem that is already reported. */
function checkCycles(
  use: QueueUse,
  { targets, isWhole }: { readonly targets: Targets; readonly isWhole: boolean },
  { problems }: ShapeContext,
): void {
  const [cycle, ...others] = findRouteCycles(targets)
  if (cycle === undefined) {
    if (use.maxHops == null || !isWhole) return
    const message = '"max_hops" has no meaning here: the routes form no cycle. Remove it.'
    problems.add("E101", ["max_hops"], message, { key: true })
    return
  }
  if (use.maxHops !== null) return
  const [from, to = from] = cycle
  const closing = use.writes.find(write => write.from === from && write.queue === use.routes[to!]!.inbound)
  const names = cycleText(cycle.map(route => use.routes[route]!.name))
  const more = others.length === 0 ? "" : ` (and ${others.length} more)`
  const message = `Routes write to each other in a cycle: ${names}${more}. Add "max_hops" to the pipeline: the number of routes that a message may pass.`
  problems.add("E107", closing?.path ?? ["routes", from!], message)
}

/** Each starts with its earliest route, and they are in that order. */
function findRouteCycles(targets: Targets): number[][] {
  const rows = new RowBuilder(targets.length)
  for (const [from, to] of targets.entries()) rows.add(to.filter(route => route !== from))
  const toItself = targets.flatMap((to, from) => (to.includes(from) ? [[from]] : []))
  const cycles = findCycles(rows.build(), new Int32Array(targets.length).fill(1))
  return [...toItself, ...cycles].sort(([a], [b]) => a! - b!)
}

/** Which routes messages can reach: `targets[i]` are the routes that route `i` writes to. O(routes + edges). */
type Targets = readonly (readonly number[])[]

/** Adds all routes that can be reached from these, including themselves. Known routes are not visited again. */
function reach(starts: Iterable<number>, targets: Targets, found = new Set<number>()): Set<number> {
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
function beginnings(routes: ReadonlySet<number>, targets: Targets): number[] {
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
