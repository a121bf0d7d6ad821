/**
 * Edges as one path for each kind in each cell of a grid: their number in the page depends on what is visible, not on the
 * graph, and a change of one edge lets the browser draw its cell again, not the whole view.
 */
import type { Box, Layout } from "../../model/layout/layout.ts"

export type EdgeKind = "done" | "ahead" | "skipped" | "live" | "failed" | "run" | "lit"
/** By the positions of its ends. */
export type ToEdgeKind = (from: number, to: number) => EdgeKind

/** Later ones are drawn above. */
const kinds: readonly EdgeKind[] = ["done", "ahead", "skipped", "failed", "live", "run", "lit"]
const RADIUS = 8
/** Of a cell, in pixels of the screen, at least. */
const CELL = 256

export interface EdgePath {
  readonly key: string
  readonly kind: EdgeKind
  readonly path: string
}

/** `scale`: of the view. Edges belong to the cell of their target; a cell stays where it is while the view moves. */
export function edgePaths(
  { boxes, edges, lanes }: Layout,
  toEdgeKind: ToEdgeKind,
  selected: number | null,
  { view, scale }: { readonly view: Box; readonly scale: number },
): EdgePath[] {
  const cell = 2 ** Math.ceil(Math.log2(CELL / scale))
  const paths = new Map<string, { readonly kind: EdgeKind; readonly parts: string[] }>()
  for (const [edge, [from, to]] of edges.entries()) {
    const [a, b] = [boxes[from]!, boxes[to]!]
    if (!isInView(a, b, view)) continue
    const kind = from === selected || to === selected ? "lit" : toEdgeKind(from, to)
    const key = `${kind} ${Math.floor(b.x / cell)} ${Math.floor(b.y / cell)}`
    const path = lanes[edge] == null ? route(a, b) : laneRoute(a, b, lanes[edge])
    const known = paths.get(key)
    if (known === undefined) paths.set(key, { kind, parts: [path] })
    else known.parts.push(path)
  }
  return [...paths]
    .map(([key, { kind, parts }]) => ({ key, kind, path: parts.join("") }))
    .sort((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind))
}

function isInView(a: Box, b: Box, { x, y, w, h }: Box): boolean {
  const [top, bottom] = [Math.min(a.y, b.y), Math.max(a.y + a.h, b.y + b.h)]
  return a.x < x + w && b.x + b.w > x && top < y + h && bottom > y
}

/** Over several ranks: through a lane between the cards. */
function laneRoute(a: Box, b: Box, lane: number): string {
  const [x1, y1] = [a.x + a.w, a.y + a.h / 2]
  const [x2, y2] = [b.x, b.y + b.h / 2]
  return `M${x1} ${y1}${bendTo(x1 + 22, y1, lane)}${bendTo(x2 - 18, lane, y2)}H${x2}`
}

/** Along the line to x, then up or down to another line. */
function bendTo(x: number, from: number, to: number): string {
  if (Math.abs(from - to) < 1) return `H${x}`
  const r = Math.min(RADIUS, Math.abs(to - from) / 2)
  const d = to > from ? 1 : -1
  return `H${x - r}Q${x} ${from} ${x} ${from + d * r}V${to - d * r}Q${x} ${to} ${x + r} ${to}`
}

/** From the right side of `a` to the left side of `b`, with right angles: it bends before the target, so that edges to the same target are visibly joined. */
function route(a: Box, b: Box): string {
  const [x1, y1] = [a.x + a.w, a.y + a.h / 2]
  const [x2, y2] = [b.x, b.y + b.h / 2]
  if (Math.abs(y1 - y2) < 1) return `M${x1} ${y1}H${x2}`
  const bend = x2 - Math.min(18, (x2 - x1) / 2)
  const r = Math.min(RADIUS, Math.abs(y2 - y1) / 2)
  const d = y2 > y1 ? 1 : -1
  return `M${x1} ${y1}H${bend - r}Q${bend} ${y1} ${bend} ${y1 + d * r}V${y2 - d * r}Q${bend} ${y2} ${bend + r} ${y2}H${x2}`
}
