/**
 * What can be wrong with the queues of a pipeline: one that two routes read (E104), that none reads (E113), that nothing
 * ever comes to (E109), and circles in which messages could go round for ever (E107).
 */

import type { ShapeContext } from "../document/issues.ts"
import { cycleText, findCycles } from "../graph/cycles.ts"
import { RowBuilder } from "../graph/graph.ts"
import type { DocumentPath } from "../problem.ts"
import { beginnings, reach, type Targets } from "./reach.ts"

export interface QueueUse {
  /** By route; `undefined` where it cannot be read. */
  readonly routes: readonly { readonly name: string; readonly inbound: string | undefined }[]
  readonly writes: readonly Write[]
  /** Are `writes` all that there are? Otherwise some could not be read. */
  readonly isComplete: boolean
  /** `undefined`: it cannot be read. */
  readonly maxHops: number | null | undefined
}

export interface Write {
  /** The route; null: an initial message. */
  readonly from: number | null
  readonly queue: string
  readonly path: DocumentPath
}

/** Answers with the routes that read each queue. */
export function checkQueues(use: QueueUse, context: ShapeContext): ReadonlyMap<string, number> {
  const readers = readersOf(use, context)
  const readersKnown = use.routes.every(({ inbound }) => inbound !== undefined)
  const meant = readersKnown ? reportUnread(use, readers, context) : new Map<string, number>()
  if (use.isComplete && readersKnown) reportUnreached(use, new Map([...readers, ...meant]), context)
  const isWhole = readersKnown && use.isComplete && meant.size === 0
  checkCycles(use, { targets: targetsOf(use, readers), isWhole }, context)
  return readers
}

function readersOf({ routes }: QueueUse, { problems }: ShapeContext): Map<string, number> {
  const readers = new Map<string, number>()
  for (const [position, { inbound }] of routes.entries()) {
    if (inbound === undefined) continue
    const first = readers.get(inbound)
    if (first === undefined) {
      readers.set(inbound, position)
      continue
    }
    const message = `The queue "${inbound}" is read by route "${routes[first]!.name}" already, and one route reads a queue. Give this route a queue of its own, and have who writes emit to both kinds.`
    problems.add("E104", ["routes", position, "inbound"], message)
  }
  return readers
}

/** Answers with what misspelt names were probably meant to be: that nothing comes there follows from the misspelling. */
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
  const targets = targetsOf(use, readers)
  const starts = use.writes.flatMap(({ from, queue }) => (from === null ? (readers.get(queue) ?? []) : []))
  const reached = reach(starts, targets)
  // Who reads another's queue is reported for that.
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
      ? `No message ever comes to route "${name}": only routes behind it write to its queue "${inbound}". Begin with one ("init"), or write to it from another route.`
      : `Nothing is written to the queue "${inbound}", so route "${name}" would never run. Write to it from another route ("outbound"), or begin with a message for it ("init").`
    problems.add("E109", ["routes", route, "inbound"], message)
  }
}

function targetsOf({ routes, writes }: QueueUse, readers: ReadonlyMap<string, number>): Targets {
  const targets = routes.map(() => new Set<number>())
  for (const { from, queue } of writes) {
    const to = readers.get(queue)
    if (from !== null && to !== undefined) targets[from]!.add(to)
  }
  return targets.map(of => [...of].sort((a, b) => a - b))
}

/** `isWhole`: otherwise a cycle may not be seen because of something that is reported already. */
function checkCycles(
  use: QueueUse,
  { targets, isWhole }: { readonly targets: Targets; readonly isWhole: boolean },
  { problems }: ShapeContext,
): void {
  const [cycle, ...others] = cyclesOf(targets)
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
  const message = `Routes write to each other in a cycle: ${names}${more}. Add "max_hops" to the pipeline: how many times a message may go on to a route.`
  problems.add("E107", closing?.path ?? ["routes", from!], message)
}

/** Beginning with the earliest route each, and in that order. */
function cyclesOf(targets: Targets): number[][] {
  const rows = new RowBuilder(targets.length)
  for (const [from, to] of targets.entries()) rows.add(to.filter(route => route !== from))
  const toItself = targets.flatMap((to, from) => (to.includes(from) ? [[from]] : []))
  const cycles = findCycles(rows.build(), new Int32Array(targets.length).fill(1))
  return [...toItself, ...cycles].sort(([a], [b]) => a! - b!)
}
