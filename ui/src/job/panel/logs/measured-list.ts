/**
 * A list of rows whose heights are known only when they are drawn, of which only the visible ones are in the page.
 *
 * 1. What a reader sees stays where it is when rows are added before it, or turn out to be higher than estimated.
 * 2. At the end of the list new rows are scrolled into view, unless more are stored than are here.
 */
import { type RefObject, useCallback, useLayoutEffect, useMemo, useReducer, useRef } from "react"

/** The page has at most this many rows, whatever the height of the window. */
const MOST = 160
const AROUND = 6

export interface MeasuredList {
  readonly from: number
  readonly to: number
  readonly top: number
  readonly height: number
  readonly isAtEnd: boolean
  /** Scrolls to a row; null: to the end. */
  scrollTo(key: string | null): void
}

export interface MeasuredListOptions {
  readonly keys: readonly string[]
  readonly estimate: (index: number) => number
  /** The end of the list is the newest row. */
  readonly sticks: boolean
  /** Called with the rows that are drawn, whenever they may have changed. */
  readonly onShown: (from: number, to: number) => void
}

export function useMeasuredList(
  ref: RefObject<HTMLElement | null>,
  options: MeasuredListOptions,
): MeasuredList {
  const { keys, estimate, sticks, onShown } = options
  const [revision, redraw] = useReducer((n: number) => n + 1, 0)
  const heights = useRef(new Map<string, number>())
  /** The row at the top, and how far it is scrolled; null: the list is at its end. */
  const anchor = useRef<Anchor | null>(null)
  /** What is drawn, and where it was left: another place means that a person has scrolled. */
  const drawn = useRef({ keys, tops: new Float64Array(1), sticks, scrollTop: 0 })
  // biome-ignore lint/correctness/useExhaustiveDependencies: heights are measured in place; `revision` counts that.
  const tops = useMemo(() => {
    const sums = new Float64Array(keys.length + 1)
    for (const [index, key] of keys.entries())
      sums[index + 1] = sums[index]! + (heights.current.get(key) ?? estimate(index))
    return sums
  }, [keys, revision])
  const element = ref.current
  const total = tops[keys.length]!
  const viewHeight = element?.clientHeight ?? 600
  const end = Math.max(0, total - viewHeight)
  const isAtEnd = anchor.current === null && sticks
  const wanted = isAtEnd ? end : place(keys, tops, anchor.current)
  const viewTop = Math.min(end, wanted ?? element?.scrollTop ?? 0)
  const from = Math.max(0, rowAt(tops, viewTop) - AROUND)
  const to = Math.min(keys.length, from + MOST, rowAt(tops, viewTop + viewHeight) + 1 + AROUND)

  /** Whether a person has scrolled: then what they see is the anchor, by the rows that were drawn. */
  const readScroll = useCallback(() => {
    const list = ref.current!
    const { scrollTop } = list
    if (Math.abs(scrollTop - drawn.current.scrollTop) <= 1) return false
    drawn.current.scrollTop = scrollTop
    anchor.current = anchorAt(list, drawn.current)
    return true
  }, [ref])

  useLayoutEffect(() => {
    const list = ref.current!
    let isChanged = readScroll()
    for (const row of list.querySelectorAll<HTMLElement>("[data-row]")) {
      const key = row.dataset.row!
      const { height } = row.getBoundingClientRect()
      if (Math.abs((heights.current.get(key) ?? -1) - height) < 0.5) continue
      heights.current.set(key, height)
      isChanged = true
    }
    if (isChanged) redraw()
    else if (wanted !== null && Math.abs(list.scrollTop - wanted) > 1) list.scrollTop = wanted
    drawn.current = { keys, tops, sticks, scrollTop: list.scrollTop }
    if (!isChanged) onShown(from, to)
  })

  useLayoutEffect(() => {
    const list = ref.current!
    const scrolled = () => readScroll() && redraw()
    list.addEventListener("scroll", scrolled, { passive: true })
    let { clientWidth } = list
    const observer = new ResizeObserver(() => {
      // Lines break elsewhere.
      if (list.clientWidth !== clientWidth) heights.current.clear()
      clientWidth = list.clientWidth
      redraw()
    })
    observer.observe(list)
    return () => {
      list.removeEventListener("scroll", scrolled)
      observer.disconnect()
    }
  }, [ref, readScroll])

  return {
    ...{ from, to, top: tops[from]!, height: total, isAtEnd },
    scrollTo: key => {
      anchor.current = key === null ? null : { key, offset: -48 }
      redraw()
    },
  }
}

interface Anchor {
  readonly key: string
  readonly offset: number
}

interface Drawn {
  readonly keys: readonly string[]
  readonly tops: Float64Array
  readonly sticks: boolean
}

/** null: the end. */
function anchorAt({ scrollTop, clientHeight }: HTMLElement, { keys, tops, sticks }: Drawn): Anchor | null {
  if (sticks && scrollTop + clientHeight >= tops[keys.length]! - 4) return null
  const row = rowAt(tops, scrollTop)
  return keys.length === 0 ? null : { key: keys[row]!, offset: scrollTop - tops[row]! }
}

function place(keys: readonly string[], tops: Float64Array, anchor: Anchor | null) {
  const row = anchor === null ? -1 : keys.indexOf(anchor.key)
  return row < 0 ? null : Math.max(0, tops[row]! + anchor!.offset)
}

/** The row at this distance from the top. */
function rowAt(tops: Float64Array, y: number): number {
  let [low, high] = [0, tops.length - 1]
  while (low < high) {
    const middle = (low + high) >> 1
    if (tops[middle + 1]! <= y) low = middle + 1
    else high = middle
  }
  return Math.max(0, Math.min(low, tops.length - 2))
}
