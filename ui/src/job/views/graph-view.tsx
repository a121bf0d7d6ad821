/**
 * A graph: cards over one drawing of edges. Places come from the layout alone. Only what is visible is in the page: cards,
 * smaller cards, or rectangles on a canvas. What a card shows is up to the page.
 */
import { type KeyboardEvent, type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from "react"
import type { CompiledGraph } from "../../../../src/core/index.ts"
import type { Box, Layout } from "../../model/layout/layout.ts"
import { Icon } from "../../shell/icons.tsx"
import { useKeys } from "../../shell/keys.ts"
import { edgePaths, type ToEdgeKind } from "./edges.ts"
import { type FarNode, GraphCanvas } from "./graph-canvas.tsx"
import { fitted, type Size, showing, useGestures, useSize, type Viewport, whole, zoomed } from "./viewport.ts"

/** More cards than these are not put into the page, whatever the scale. */
const MOST_FULL = 200
const MOST_SMALL = 400

export interface GraphViewProps {
  readonly graph: CompiledGraph
  readonly layout: Layout
  readonly selected: number | null
  /** Nodes that match a query; null: there is none. */
  readonly matches?: ReadonlySet<number> | null
  /** Where a graph that does not fit begins; null: at its first node. */
  readonly start?: number | null
  readonly onSelect: (node: number) => void
  readonly card: (node: number, place: CardPlace) => ReactNode
  readonly edgeKind: ToEdgeKind
  /** What a rectangle of a graph too large for cards shows. */
  readonly far: (node: number) => FarNode
}

/** What a card gets from the graph around it. */
export interface CardPlace {
  readonly node: number
  readonly id: string
  readonly box: Box
  readonly isSmall: boolean
  readonly isList: boolean
  readonly isChild: boolean
  readonly isSelected: boolean
  readonly isFaded: boolean
  readonly isTabStop: boolean
  readonly onSelect: (node: number) => void
}

/** The button that every card is, at its place. */
export function CardFrame({
  place: { node, id, box, isSmall, isList, isChild, isSelected, isFaded, isTabStop, onSelect },
  look,
  data,
  children,
}: {
  place: CardPlace
  look?: "plan"
  data: { readonly [name: `data-${string}`]: string | undefined }
  children: ReactNode
}) {
  const parts = [look, isList ? "each" : isChild && "child", isSmall && "l2", isFaded && "faded"]
  return (
    <button
      className={["node", ...parts].filter(Boolean).join(" ")}
      type="button"
      data-node={node}
      data-id={id}
      {...data}
      aria-current={isSelected}
      tabIndex={isTabStop ? 0 : -1}
      style={{
        left: box.x,
        top: isSmall ? box.y + (box.h - 36) / 2 : box.y,
        width: box.w,
        height: isSmall ? 36 : box.h,
      }}
      onClick={() => onSelect(node)}
      title={id}
    >
      {children}
    </button>
  )
}

export function GraphView(props: GraphViewProps) {
  const { graph, layout, selected, matches = null, start = null, onSelect, card, edgeKind, far } = props
  const ref = useRef<HTMLDivElement>(null)
  const size = useSize(ref)
  const [viewport, setViewport] = useState<Viewport | null>(null)
  /** The node that a key selected: it gets the focus once it is selected and in the page. */
  const toFocus = useRef<number | null>(null)
  useGestures(
    ref,
    useCallback(next => setViewport(current => (current === null ? null : next(current))), []),
  )
  useEffect(() => {
    if (size === null || size.width === 0) return
    setViewport(current => current ?? fitted(layout, size, nodeBox(layout, selected ?? start)))
  }, [layout, size, selected, start])
  useEffect(() => {
    if (selected === null || size === null) return
    setViewport(current => (current === null ? null : showing(current, layout.boxes[selected]!, size)))
  }, [selected, layout, size])
  useEffect(() => {
    if (selected === null || toFocus.current !== selected) return
    const card = ref.current!.querySelector<HTMLElement>(`[data-node="${selected}"]`)
    if (card === null) return
    toFocus.current = null
    card.focus({ preventScroll: true })
  })

  const visible = useMemo(
    () => (viewport === null || size === null ? [] : visibleNodes(layout, viewport, size)),
    [layout, viewport, size],
  )
  const level = viewport === null ? "none" : detailLevel(viewport.k, visible.length)
  const step = (key: string): boolean => {
    const next = neighbour(layout, selected ?? visible[0] ?? 0, key)
    if (next === null) return false
    toFocus.current = next
    onSelect(next)
    return true
  }
  const move = (event: KeyboardEvent) => {
    if (event.altKey || !step(event.key)) return
    event.preventDefault()
    event.stopPropagation()
  }
  // Also while no part of the page has the focus: the card that had it may have been removed.
  const stepFromPage = (event: { readonly key: string; readonly target: EventTarget | null }) =>
    (event.target as Element).matches("body, main") && step(event.key)
  useKeys({
    ArrowLeft: stepFromPage,
    ArrowRight: stepFromPage,
    ArrowUp: stepFromPage,
    ArrowDown: stepFromPage,
  })
  const zoom = (factor: number) =>
    size !== null &&
    setViewport(current => current && zoomed(current, factor, size.width / 2, size.height / 2))
  const focusable = selected !== null && visible.includes(selected) ? selected : visible[0]

  return (
    <div className="canvas" ref={ref} onKeyDown={move} data-level={level}>
      {viewport !== null && size !== null && (
        <>
          {level === "canvas" ? (
            <GraphCanvas {...{ graph, layout, far, edgeKind, viewport, size, selected, matches, onSelect }} />
          ) : (
            <div
              className="stage"
              style={{ transform: `translate(${viewport.x}px, ${viewport.y}px) scale(${viewport.k})` }}
            >
              <Edges {...{ layout, edgeKind, selected, viewport, size }} />
              {visible.map(node =>
                card(node, {
                  node,
                  id: graph.nodes[node]!.id,
                  box: layout.boxes[node]!,
                  isSmall: level === "small",
                  isList: graph.nodes[node]!.for_each,
                  isChild: graph.nodes[node]!.handler === "workflow",
                  isSelected: node === selected,
                  isFaded: matches !== null && !matches.has(node),
                  isTabStop: node === focusable,
                  onSelect,
                }),
              )}
            </div>
          )}
          <div className="zoom" role="group" aria-label="Scale">
            <button
              className="btn ghost sm icon-only"
              type="button"
              aria-label="Smaller"
              onClick={() => zoom(1 / 1.25)}
            >
              <Icon name="minus" />
            </button>
            <span>{Math.round(viewport.k * 100)} %</span>
            <button
              className="btn ghost sm icon-only"
              type="button"
              aria-label="Larger"
              onClick={() => zoom(1.25)}
            >
              <Icon name="plus" />
            </button>
            <button
              className="btn ghost sm icon-only"
              type="button"
              aria-label="Show the whole graph"
              onClick={() => setViewport(whole(layout, size))}
            >
              <Icon name="fit" />
            </button>
          </div>
        </>
      )}
    </div>
  )
}

interface EdgesProps {
  readonly layout: Layout
  readonly edgeKind: ToEdgeKind
  readonly selected: number | null
  readonly viewport: Viewport
  readonly size: Size
}

function Edges({ layout, edgeKind, selected, viewport, size }: EdgesProps) {
  const shown = { view: visibleBox(viewport, size), scale: viewport.k }
  const paths = edgePaths(layout, edgeKind, selected, shown)
  return (
    <svg className="edges" width="1" height="1" aria-hidden="true">
      {paths.map(({ key, kind, path }) => (
        <path key={key} data-e={kind} d={path} />
      ))}
    </svg>
  )
}

function detailLevel(k: number, visible: number): "full" | "small" | "canvas" {
  if (k < 0.2 || visible > MOST_SMALL) return "canvas"
  return k >= 0.6 && visible <= MOST_FULL ? "full" : "small"
}

/** The visible part, in the graph's own units, with a margin. */
function visibleBox({ x, y, k }: Viewport, { width, height }: Size): Box {
  const margin = 80
  return { x: -x / k - margin, y: -y / k - margin, w: width / k + 2 * margin, h: height / k + 2 * margin }
}

function visibleNodes(layout: Layout, viewport: Viewport, size: Size): number[] {
  const view = visibleBox(viewport, size)
  const found: number[] = []
  for (const [node, box] of layout.boxes.entries())
    if (
      box.x < view.x + view.w &&
      box.x + box.w > view.x &&
      box.y < view.y + view.h &&
      box.y + box.h > view.y
    )
      found.push(node)
  return found
}

function nodeBox(layout: Layout, node: number | null): Box | undefined {
  return node === null ? undefined : layout.boxes[node]
}

/** ← and → follow edges; ↑ and ↓ go to the nearest card above or below. */
function neighbour({ boxes, edges }: Layout, node: number, key: string): number | null {
  const from = boxes[node]
  if (from === undefined) return null
  const nearest = (nodes: readonly number[]) => {
    const distance = (other: number) => {
      const box = boxes[other]!
      return Math.abs(box.y + box.h / 2 - from.y - from.h / 2) + Math.abs(box.x - from.x) / 4
    }
    return nodes.length === 0
      ? null
      : nodes.reduce((best, other) => (distance(other) < distance(best) ? other : best))
  }
  const sameColumn = (isBelow: boolean) =>
    boxes.flatMap((box, other) => {
      const isBeside = other !== node && box.x < from.x + from.w && box.x + box.w > from.x
      return isBeside && (isBelow ? box.y > from.y : box.y < from.y) ? [other] : []
    })
  switch (key) {
    case "ArrowLeft":
      return nearest(edges.flatMap(([a, b]) => (b === node ? [a] : [])))
    case "ArrowRight":
      return nearest(edges.flatMap(([a, b]) => (a === node ? [b] : [])))
    case "ArrowUp":
      return nearest(sameColumn(false))
    case "ArrowDown":
      return nearest(sameColumn(true))
    default:
      return null
  }
}
