/** Where the routes of a pipeline are drawn: left to right by the longest way from a route that nothing writes to. */
import type { Route } from "../model/source.ts"

export const CARD_WIDTH = 216
export const CARD_HEIGHT = 172
const TUBE_WIDTH = 108
const ROW_GAP = 28
const PADDING = 24

export interface PlacedRoute {
  readonly route: Route
  /** The left edge of its card; its queue is in front of it. */
  readonly x: number
  readonly y: number
  readonly tubeX: number
}

export interface FlowEdge {
  readonly from: number
  readonly to: number
  /** Kinds of messages other than the default. */
  readonly kinds: readonly string[]
  /** It leads to an earlier route: drawn below all cards. */
  readonly isBack: boolean
  readonly path: string
  /** Where a loop is named. */
  readonly label: { readonly x: number; readonly y: number }
}

export interface Flow {
  readonly routes: readonly PlacedRoute[]
  readonly edges: readonly FlowEdge[]
  readonly width: number
  readonly height: number
}

export function layoutFlow(routes: readonly Route[]): Flow {
  const byQueue = new Map(routes.map(({ inbound }, place) => [inbound, place]))
  const targets = routes.map(({ outbound }) => {
    const kinds = new Map<number, string[]>()
    for (const [kind, queue] of Object.entries(outbound)) {
      const to = byQueue.get(queue)
      if (to !== undefined) kinds.set(to, [...(kinds.get(to) ?? []), ...(kind === "default" ? [] : [kind])])
    }
    return kinds
  })
  const back = backEdges(targets)
  const ranks = longestWays(targets, back)
  const rows = new Map<number, number>()
  const placed = routes.map((route, place): PlacedRoute => {
    const rank = ranks[place]!
    const row = rows.get(rank) ?? 0
    rows.set(rank, row + 1)
    const tubeX = PADDING + rank * (TUBE_WIDTH + CARD_WIDTH)
    return { route, tubeX, x: tubeX + TUBE_WIDTH, y: PADDING + row * (CARD_HEIGHT + ROW_GAP) }
  })
  const bottom = Math.max(...placed.map(({ y }) => y + CARD_HEIGHT), 0)
  let loops = 0
  const edges = targets.flatMap((kinds, from) =>
    [...kinds].map(([to, names]): FlowEdge => {
      const isBack = back.has(`${from} ${to}`)
      const y = bottom + 16 + 18 * (isBack ? loops++ : 0)
      const [start, end] = [placed[from]!, placed[to]!]
      const path = isBack ? loopPath(start, end, y) : edgePath(start, end)
      const label = { x: (start.x + CARD_WIDTH / 2 + end.tubeX + 54) / 2, y: y - 8 }
      return { from, to, kinds: names, isBack, path, label }
    }),
  )
  const right = Math.max(...placed.map(({ x }) => x + CARD_WIDTH), 0)
  return {
    routes: placed,
    edges,
    width: right + PADDING,
    height: bottom + (loops === 0 ? PADDING : 30 + 18 * loops),
  }
}

/** Edges that lead back to a route that is still being visited. Without recursion: there may be 1,000 routes. */
function backEdges(targets: readonly ReadonlyMap<number, unknown>[]): ReadonlySet<string> {
  const found = new Set<string>()
  const state = new Uint8Array(targets.length)
  for (let start = 0; start < targets.length; start++) {
    if (state[start] !== 0) continue
    const stack: { place: number; rest: number[] }[] = [{ place: start, rest: [...targets[start]!.keys()] }]
    state[start] = 1
    while (stack.length > 0) {
      const { place, rest } = stack.at(-1)!
      const next = rest.shift()
      if (next === undefined) {
        state[place] = 2
        stack.pop()
      } else if (state[next] === 1) found.add(`${place} ${next}`)
      else if (state[next] === 0) {
        state[next] = 1
        stack.push({ place: next, rest: [...targets[next]!.keys()] })
      }
    }
  }
  return found
}

function longestWays(
  targets: readonly ReadonlyMap<number, unknown>[],
  back: ReadonlySet<string>,
): readonly number[] {
  const ranks = targets.map(() => 0)
  const left = targets.map(() => 0)
  const forward = (from: number) => [...targets[from]!.keys()].filter(to => !back.has(`${from} ${to}`))
  for (let from = 0; from < targets.length; from++) for (const to of forward(from)) left[to]!++
  const ready = targets.flatMap((_, place) => (left[place] === 0 ? [place] : []))
  for (const from of ready)
    for (const to of forward(from)) {
      ranks[to] = Math.max(ranks[to]!, ranks[from]! + 1)
      if (--left[to]! === 0) ready.push(to)
    }
  return ranks
}

const middle = ({ y }: PlacedRoute) => y + CARD_HEIGHT / 2

/** From a card to the queue of the next. */
function edgePath(from: PlacedRoute, to: PlacedRoute): string {
  const [x1, y1, x2, y2] = [from.x + CARD_WIDTH, middle(from), to.tubeX + 40, middle(to)]
  if (y1 === y2) return `M${x1} ${y1}H${x2}`
  const turn = x2 - 20
  const step = Math.sign(y2 - y1) * 8
  return `M${x1} ${y1}H${turn - 8}q8 0 8 ${step}V${y2 - step}q0 ${step} 8 ${step}H${x2}`
}

function loopPath(from: PlacedRoute, to: PlacedRoute, y: number): string {
  const [x1, x2] = [from.x + CARD_WIDTH / 2, to.tubeX + 54]
  return `M${x1} ${from.y + CARD_HEIGHT}V${y - 8}q0 8 ${-8} 8H${x2 + 8}q-8 0 -8 -8V${middle(to) + 44}`
}
