/** The part of the graph that is shown: a place and a scale, changed by dragging, the wheel, and keys. */
import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react"
import type { Box, Layout } from "../../model/layout/layout.ts"

export interface Viewport {
  readonly x: number
  readonly y: number
  readonly k: number
}

export interface Size {
  readonly width: number
  readonly height: number
}

const LEAST = 0.02
const MOST = 2
const PAD = 24
/** Smaller than this the whole graph cannot be read: then its beginning is shown instead. */
const READABLE = 0.45

export function fitted(layout: Layout, size: Size, around?: Box): Viewport {
  const whole = Math.min(
    1,
    (size.width - 2 * PAD) / layout.width,
    (size.height - 2 * PAD - 24) / layout.height,
  )
  if (whole >= READABLE) return centred(layout, size, whole)
  const k = 0.62
  const box = around ?? layout.boxes[0] ?? { x: 0, y: 0, w: 0, h: 0 }
  const x =
    layout.width * k < size.width
      ? (size.width - layout.width * k) / 2
      : PAD - (box.x - (around ? 200 : 0)) * k
  const y =
    layout.height * k < size.height
      ? (size.height - layout.height * k) / 2
      : size.height / 2 - (box.y + box.h / 2) * k
  return { x: Math.min(PAD, x), y, k }
}

function centred({ width, height }: Layout, size: Size, k: number): Viewport {
  return { x: Math.round((size.width - width * k) / 2), y: Math.round((size.height - height * k) / 2), k }
}

/** The whole graph, however small. */
export function whole(layout: Layout, size: Size): Viewport {
  const k = Math.max(
    LEAST,
    Math.min(1, (size.width - 2 * PAD) / layout.width, (size.height - 2 * PAD) / layout.height),
  )
  return centred(layout, size, k)
}

/** Zooms around a point of the screen. */
export function zoomed({ x, y, k }: Viewport, factor: number, px: number, py: number): Viewport {
  const next = Math.min(MOST, Math.max(LEAST, k * factor))
  return { x: px - ((px - x) * next) / k, y: py - ((py - y) * next) / k, k: next }
}

/** Moves only as far as needed for the box to be visible. */
export function showing(viewport: Viewport, { x, y, w, h }: Box, size: Size): Viewport {
  const shift = (start: number, length: number, total: number) => {
    if (start < PAD) return PAD - start
    return start + length > total - PAD ? total - PAD - start - length : 0
  }
  const { k } = viewport
  const dx = shift(viewport.x + x * k, w * k, size.width)
  const dy = shift(viewport.y + y * k, h * k, size.height)
  return dx === 0 && dy === 0 ? viewport : { x: viewport.x + dx, y: viewport.y + dy, k }
}

export function useSize(ref: RefObject<HTMLElement | null>): Size | null {
  const [size, setSize] = useState<Size | null>(null)
  useLayoutEffect(() => {
    const element = ref.current!
    const read = () => setSize({ width: element.clientWidth, height: element.clientHeight })
    read()
    const observer = new ResizeObserver(read)
    observer.observe(element)
    return () => observer.disconnect()
  }, [ref])
  return size
}

type Change = (change: (viewport: Viewport) => Viewport) => void

/** Dragging moves, the wheel moves, the wheel with Ctrl (and pinching) zooms. At most one change per frame. */
export function useGestures(ref: RefObject<HTMLElement | null>, change: Change): void {
  const pending = useRef<((viewport: Viewport) => Viewport)[]>([])
  const frame = useRef(0)
  const queue = useCallback<Change>(
    next => {
      pending.current.push(next)
      if (frame.current !== 0) return
      frame.current = requestAnimationFrame(() => {
        frame.current = 0
        const changes = pending.current
        pending.current = []
        change(viewport => changes.reduce((current, one) => one(current), viewport))
      })
    },
    [change],
  )
  useEffect(() => {
    const element = ref.current!
    const wheel = (event: WheelEvent) => {
      event.preventDefault()
      const { left, top } = element.getBoundingClientRect()
      const [px, py] = [event.clientX - left, event.clientY - top]
      const { deltaX, deltaY, shiftKey } = event
      if (event.ctrlKey || event.metaKey) queue(viewport => zoomed(viewport, Math.exp(-deltaY / 300), px, py))
      else if (shiftKey) queue(({ x, y, k }) => ({ x: x - deltaY, y, k }))
      else queue(({ x, y, k }) => ({ x: x - deltaX, y: y - deltaY, k }))
    }
    let last: { x: number; y: number; isMoving: boolean } | null = null
    const down = (event: PointerEvent) => {
      if (event.button === 0) last = { x: event.clientX, y: event.clientY, isMoving: false }
    }
    const move = (event: PointerEvent) => {
      if (last === null) return
      const [dx, dy] = [event.clientX - last.x, event.clientY - last.y]
      if (!last.isMoving && Math.hypot(dx, dy) < 4) return
      if (!last.isMoving) element.setPointerCapture(event.pointerId)
      last = { x: event.clientX, y: event.clientY, isMoving: true }
      queue(({ x, y, k }) => ({ x: x + dx, y: y + dy, k }))
    }
    const up = () => {
      last = null
    }
    element.addEventListener("wheel", wheel, { passive: false })
    element.addEventListener("pointerdown", down)
    element.addEventListener("pointermove", move)
    element.addEventListener("pointerup", up)
    element.addEventListener("pointercancel", up)
    return () => {
      cancelAnimationFrame(frame.current)
      frame.current = 0
      element.removeEventListener("wheel", wheel)
      element.removeEventListener("pointerdown", down)
      element.removeEventListener("pointermove", move)
      element.removeEventListener("pointerup", up)
      element.removeEventListener("pointercancel", up)
    }
  }, [ref, queue])
}
