/** The items of a list: a map of all of them on a canvas, and a list of which only the visible rows are in the page. */
import { useQuery } from "@tanstack/react-query"
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react"
import { itemViews } from "../../../../src/core/index.ts"
import { stateColours } from "../../model/colours.ts"
import { count, duration, elapsed } from "../../model/format.ts"
import { nodeStates } from "../../model/node-states.ts"
import { readPayload } from "../../model/payloads.ts"
import { plain, reasonSentence } from "../../model/sentences.ts"
import type { JobSource } from "../../model/source.ts"
import type { Moment, Timeline } from "../../model/timeline.ts"
import { StateMark } from "../../shell/icons.tsx"
import { changeQuery } from "../../shell/router.ts"
import { Spaced, scrollToRow, useRange } from "../virtual.tsx"
import { Answer, type AnswerProps } from "./answer.tsx"
import { ErrorBox } from "./error-box.tsx"

const ROW = 28
const WIDTH = 336

interface ItemsTabProps extends Omit<AnswerProps, "of" | "waiting"> {
  readonly timeline: Timeline
  readonly node: number
  readonly item: number | null
}

export function ItemsTab(props: ItemsTabProps) {
  const { timeline, moment, source, node, item } = props
  const list = moment.state.lists.get(node)
  const counts = moment.view.nodes[node]!.items
  const [filter, setFilter] = useState<string | null>(null)
  const codes = list?.state.nodeStatus
  const total = list?.items.length ?? 0
  // biome-ignore lint/correctness/useExhaustiveDependencies: the states change in place; a moment has its own index.
  const shown = useMemo(() => {
    if (codes === undefined || filter === null) return null
    const wanted = nodeStates.indexOf(filter as never)
    return Array.from(codes.keys()).filter(index => codes[index] === wanted)
  }, [codes, filter, moment.index])
  const choose = (next: number) =>
    changeQuery({ item: String(next), attempt: null, line: null }, { replace: true })
  if (list === undefined || counts === undefined || codes === undefined)
    return <p className="none">The list is not known yet.</p>
  return (
    <>
      <div className="row itc" role="group" aria-label="Show items by state">
        {nodeStates.map(state =>
          counts[state] === undefined ? null : (
            <button
              key={state}
              className="st chipb"
              type="button"
              aria-pressed={filter === state}
              onClick={() => setFilter(filter === state ? null : state)}
            >
              <StateMark status={state.toUpperCase() as never} small />
              {count(counts[state])} <span className="sr">{state}</span>
            </button>
          ),
        )}
      </div>
      <ItemMap
        codes={codes}
        revision={`${moment.index} ${moment.isLive}`}
        selected={item}
        onSelect={choose}
      />
      <div className="row tiny dim">
        <span>0</span>
        <span className="sp" />
        <span>{count(total - 1)}</span>
      </div>
      {item !== null && item < total && <ItemDetail {...props} item={item} />}
      <ItemList
        source={source}
        timeline={timeline}
        moment={moment}
        node={node}
        indexes={shown}
        total={shown?.length ?? total}
        selected={item}
        onSelect={choose}
      />
    </>
  )
}

function ItemMap({
  codes,
  revision,
  selected,
  onSelect,
}: {
  codes: Uint8Array
  revision: string
  selected: number | null
  onSelect: (item: number) => void
}) {
  const ref = useRef<HTMLCanvasElement>(null)
  const total = codes.length
  const columns = total <= 128 ? 16 : total <= 1000 ? 40 : 112
  const cell = WIDTH / columns
  const rowHeight = total <= 128 ? cell * 0.8 : cell
  const height = Math.max(rowHeight, Math.ceil(total / columns) * rowHeight)
  // biome-ignore lint/correctness/useExhaustiveDependencies: the states change in place; `revision` names them.
  useEffect(() => {
    const canvas = ref.current!
    const ratio = window.devicePixelRatio
    canvas.width = WIDTH * ratio
    canvas.height = height * ratio
    const context = canvas.getContext("2d")!
    context.scale(ratio, ratio)
    const colours = stateColours()
    const gap = cell > 6 ? 2 : 0.5
    for (const [item, code] of codes.entries()) {
      const state = nodeStates[code]!
      context.fillStyle =
        state === "pending" || state === "queued" ? colours.get("pressed")! : colours.get(state)!
      context.fillRect(
        (item % columns) * cell,
        Math.floor(item / columns) * rowHeight,
        cell - gap,
        rowHeight - gap,
      )
    }
    if (selected === null) return
    context.strokeStyle = colours.get("accent")!
    context.lineWidth = 2
    context.strokeRect(
      (selected % columns) * cell,
      Math.floor(selected / columns) * rowHeight,
      cell - gap,
      rowHeight - gap,
    )
  }, [codes, revision, selected, height, cell, columns, rowHeight])
  const failed = codes.reduce((sum, code) => sum + (nodeStates[code] === "failed" ? 1 : 0), 0)
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key]
    if (step === undefined) return
    event.preventDefault()
    event.stopPropagation()
    onSelect(Math.min(total - 1, Math.max(0, (selected ?? -1) + step)))
  }
  return (
    <canvas
      ref={ref}
      className="imap"
      role="img"
      tabIndex={0}
      aria-label={`${count(total)} items, ${count(failed)} failed. Arrow keys select an item.`}
      style={{ width: WIDTH, height }}
      onKeyDown={move}
      onClick={event => {
        const { left, top } = event.currentTarget.getBoundingClientRect()
        const item =
          Math.floor((event.clientY - top) / rowHeight) * columns + Math.floor((event.clientX - left) / cell)
        if (item < total) onSelect(item)
      }}
    />
  )
}

function ItemDetail(props: ItemsTabProps & { item: number }) {
  const { timeline, moment, node, item } = props
  const [view] = itemViews(moment.state, node, { after: item - 1, limit: 1, now: moment.at })
  if (view === undefined) return null
  const { error, status, waiting_on: waiting } = view
  const compiled = timeline.graph.nodes[node]!
  const asNode = { ...view, id: compiled.id, handler: compiled.handler, incoming: 0 }
  return (
    <section aria-label={`Item ${item}`} className="idetail">
      <div className="row flex-wrap">
        <StateMark status={status} />
        <b className="nowrap">Item {count(item)}</b>
        <span className="tagc">{status}</span>
        <span className="sp" />
        <span className="row">
          {["Config", "Output", ...(props.source.hasLogs ? ["Logs"] : [])].map(tab => (
            <button
              key={tab}
              className="btn sm"
              type="button"
              onClick={() => changeQuery({ tab, item: String(item) }, { replace: true })}
            >
              {tab}
            </button>
          ))}
        </span>
      </div>
      {waiting !== null && <p className="small mid">{plain(reasonSentence(waiting, asNode, moment.at))}</p>}
      <Answer {...props} of={{ node: compiled.id, item: String(item) }} waiting={waiting} />
      {error !== null && <ErrorBox error={error} at={view.finished_at} />}
    </section>
  )
}

interface ItemListProps {
  readonly source: JobSource
  readonly timeline: Timeline
  readonly moment: Moment
  readonly node: number
  /** Positions of the shown items; null: all. */
  readonly indexes: readonly number[] | null
  readonly total: number
  readonly selected: number | null
  readonly onSelect: (item: number) => void
}

function ItemList({ source, timeline, moment, node, indexes, total, selected, onSelect }: ItemListProps) {
  const ref = useRef<HTMLDivElement>(null)
  const range = useRange(ref, total, ROW)
  const row = selected === null ? -1 : indexes === null ? selected : indexes.indexOf(selected)
  useEffect(() => scrollToRow(ref.current, row, ROW), [row])
  const values = useValues(source, timeline.graph.nodes[node]!.id, indexes?.[range.from] ?? range.from)
  const numbers = Array.from(
    { length: Math.max(0, range.to - range.from) },
    (_, n) => indexes?.[range.from + n] ?? range.from + n,
  )
  return (
    <div className="ilist" ref={ref} role="group" aria-label="Items" tabIndex={0}>
      <Spaced total={total} rowHeight={ROW} range={range}>
        {numbers.map(item => {
          const [view] = itemViews(moment.state, node, { after: item - 1, limit: 1, now: moment.at })
          if (view === undefined) return null
          const time =
            view.duration_ms !== null
              ? duration(view.duration_ms)
              : view.status === "RUNNING" && view.started_at !== null
                ? elapsed(moment.at - view.started_at)
                : ""
          return (
            <button
              key={item}
              className="ir"
              type="button"
              aria-current={item === selected}
              onClick={() => onSelect(item)}
            >
              <StateMark status={view.status} />
              <span className="num dim">{count(item)}</span>
              <span className={view.error === null ? "trunc" : "trunc t-failed"}>
                {view.error === null
                  ? itemText(view.item ?? values(item))
                  : `${view.error.code} ${view.error.message}`}
              </span>
              <span className="num">{time}</span>
            </button>
          )
        })}
      </Spaced>
    </div>
  )
}

const PAGE = 100

/** Values of the list around an index: lists that are too large for their fact are read from the server. */
function useValues(source: JobSource, node: string, around: number): (item: number) => unknown {
  const first = Math.floor(around / PAGE) * PAGE
  const { data } = useQuery({
    queryKey: ["items", source.jobId, node, first],
    queryFn: () => source.items!(node, first, 2 * PAGE),
    enabled: source.items !== null,
    staleTime: Number.POSITIVE_INFINITY,
  })
  return item => data?.[item - first]
}

function itemText(item: unknown): string {
  if (item === null || item === undefined) return ""
  const payload = readPayload({ seq: 0, item } as never, "item")
  const text = typeof item === "string" ? item : JSON.stringify(payload?.ref?.preview ?? item)
  return text.slice(0, 120)
}
