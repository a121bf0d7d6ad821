/** A list of rows of equal height, of which only the visible ones are in the page. */
import { type ReactNode, type RefObject, useLayoutEffect, useState } from "react"

const AROUND = 8

export interface Range {
  readonly from: number
  readonly to: number
}

export function useRange(
  ref: RefObject<HTMLElement | null>,
  total: number,
  rowHeight: number,
  offset = 0,
): Range {
  const [range, setRange] = useState<Range>({ from: 0, to: Math.min(total, 60) })
  useLayoutEffect(() => {
    const element = ref.current
    if (element === null) return
    const read = () => {
      const top = element.scrollTop - offset
      const from = Math.max(0, Math.floor(top / rowHeight) - AROUND)
      const to = Math.min(total, Math.ceil((top + element.clientHeight) / rowHeight) + AROUND)
      setRange(known => (known.from === from && known.to === to ? known : { from, to }))
    }
    read()
    element.addEventListener("scroll", read, { passive: true })
    const observer = new ResizeObserver(read)
    observer.observe(element)
    return () => {
      element.removeEventListener("scroll", read)
      observer.disconnect()
    }
  }, [ref, total, rowHeight, offset])
  return range
}

/** Space for all rows, with those of the range at their places. */
export function Spaced({
  total,
  rowHeight,
  range,
  children,
}: {
  total: number
  rowHeight: number
  range: Range
  children: ReactNode
}) {
  return (
    <div role="presentation" style={{ height: total * rowHeight, position: "relative" }}>
      <div
        role="presentation"
        style={{ position: "absolute", left: 0, right: 0, top: range.from * rowHeight }}
      >
        {children}
      </div>
    </div>
  )
}

/** Scrolls a row into view. */
export function scrollToRow(element: HTMLElement | null, row: number, rowHeight: number, offset = 0): void {
  if (element === null || row < 0) return
  const top = row * rowHeight + offset
  if (top - offset < element.scrollTop) element.scrollTop = top - offset
  else if (top + rowHeight > element.scrollTop + element.clientHeight)
    element.scrollTop = top + rowHeight - element.clientHeight
}
