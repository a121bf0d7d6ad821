/** A graph too large for cards: rectangles in the colours of their states, on one canvas. */
import { type PointerEvent, useEffect, useRef, useState } from "react"
import type { CompiledGraph } from "../../../../src/core/index.ts"
import { stateColours } from "../../model/colours.ts"
import { counted } from "../../model/format.ts"
import type { Layout } from "../../model/layout/layout.ts"
import { edgePaths, type ToEdgeKind } from "./edges.ts"
import type { Size, Viewport } from "./viewport.ts"

/** `colour`: of `model/colours.ts`; null: only an outline. */
export interface FarNode {
  readonly colour: string | null
  readonly text: string
}

interface GraphCanvasProps {
  readonly graph: CompiledGraph
  readonly layout: Layout
  readonly far: (node: number) => FarNode
  readonly edgeKind: ToEdgeKind
  readonly viewport: Viewport
  readonly size: Size
  readonly selected: number | null
  readonly matches: ReadonlySet<number> | null
  readonly onSelect: (node: number) => void
}

export function GraphCanvas({
  graph,
  layout,
  far,
  edgeKind,
  viewport,
  size,
  selected,
  matches,
  onSelect,
}: GraphCanvasProps) {
  const ref = useRef<HTMLCanvasElement>(null)
  const pressed = useRef<{ x: number; y: number } | null>(null)
  const [pointed, setPointed] = useState<{ node: number; x: number; y: number } | null>(null)
  useEffect(() => {
    const canvas = ref.current!
    const ratio = window.devicePixelRatio
    canvas.width = size.width * ratio
    canvas.height = size.height * ratio
    const context = canvas.getContext("2d")!
    const colours = stateColours()
    const { x, y, k } = viewport
    context.setTransform(k * ratio, 0, 0, k * ratio, x * ratio, y * ratio)
    const view = { x: -x / k, y: -y / k, w: size.width / k, h: size.height / k }
    context.lineWidth = 1 / k
    for (const { kind, path } of edgePaths(layout, edgeKind, selected, { view, scale: k })) {
      context.strokeStyle = colours.get(
        kind === "lit" ? "accent" : kind === "failed" ? "failed" : kind === "live" ? "running" : "edge",
      )!
      context.globalAlpha = kind === "lit" ? 1 : 0.5
      context.stroke(new Path2D(path))
    }
    for (const [node, box] of layout.boxes.entries()) {
      if (
        box.x > view.x + view.w ||
        box.x + box.w < view.x ||
        box.y > view.y + view.h ||
        box.y + box.h < view.y
      )
        continue
      const { colour } = far(node)
      context.globalAlpha = matches === null || matches.has(node) ? 1 : 0.2
      context.strokeStyle = colours.get("edge")!
      if (colour !== null) context.fillStyle = colours.get(colour)!
      if (colour === null) context.strokeRect(box.x, box.y, box.w, box.h)
      else context.fillRect(box.x, box.y, box.w, box.h)
      if (node !== selected) continue
      context.strokeStyle = colours.get("accent")!
      context.lineWidth = 3 / k
      context.strokeRect(box.x - 4 / k, box.y - 4 / k, box.w + 8 / k, box.h + 8 / k)
      context.lineWidth = 1 / k
    }
  }, [layout, far, edgeKind, viewport, size, selected, matches])

  const nodeAt = (event: PointerEvent) => {
    const { left, top } = ref.current!.getBoundingClientRect()
    const x = (event.clientX - left - viewport.x) / viewport.k
    const y = (event.clientY - top - viewport.y) / viewport.k
    return layout.boxes.findIndex(box => x >= box.x && x <= box.x + box.w && y >= box.y && y <= box.y + box.h)
  }
  return (
    <>
      <canvas
        ref={ref}
        className="far"
        tabIndex={0}
        role="img"
        aria-label={`Graph of ${counted(layout.boxes.length, "node")}, too small for names. Press O for the outline, or zoom in.`}
        onPointerDown={event => {
          pressed.current = { x: event.clientX, y: event.clientY }
        }}
        onPointerMove={event => {
          const node = nodeAt(event)
          const { left, top } = ref.current!.getBoundingClientRect()
          setPointed(node === -1 ? null : { node, x: event.clientX - left, y: event.clientY - top })
        }}
        onPointerLeave={() => setPointed(null)}
        onPointerUp={event => {
          const from = pressed.current
          const node = nodeAt(event)
          if (node !== -1 && from !== null && Math.hypot(event.clientX - from.x, event.clientY - from.y) < 4)
            onSelect(node)
        }}
      />
      {pointed !== null && (
        <span className="tip" style={{ left: pointed.x + 12, top: pointed.y + 12 }}>
          {graph.nodes[pointed.node]!.id}, {far(pointed.node).text}
        </span>
      )}
      <p className="sr" aria-live="polite">
        {selected === null ? "" : `${graph.nodes[selected]!.id}, ${far(selected).text}`}
      </p>
    </>
  )
}
