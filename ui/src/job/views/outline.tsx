/** The same job as a tree table: for screen readers, phones, and graphs that are too large to draw. */
import { type KeyboardEvent, useEffect, useMemo, useRef } from "react"
import type { CompiledGraph, NodeView } from "../../../../src/core/index.ts"
import { buildCard } from "../../model/card.ts"
import { amount, duration, elapsed } from "../../model/format.ts"
import { outlineRows } from "../../model/outline.ts"
import { plain, whySentence } from "../../model/sentences.ts"
import type { Moment } from "../../model/timeline.ts"
import { family, Icon, StateMark } from "../../shell/icons.tsx"
import { Spaced, scrollToRow, useRange } from "../virtual.tsx"
import { Segments } from "./card.tsx"

interface OutlineProps {
  readonly graph: CompiledGraph
  readonly moment: Moment
  readonly selected: number | null
  readonly matches: ReadonlySet<number> | null
  readonly isNarrow: boolean
  readonly onSelect: (node: number) => void
}

export function Outline({ graph, moment, selected, matches, isNarrow, onSelect }: OutlineProps) {
  const ref = useRef<HTMLDivElement>(null)
  const all = useMemo(() => outlineRows(graph), [graph])
  const rows = matches === null ? all : all.filter(({ node }) => matches.has(node))
  const rowHeight = isNarrow ? 56 : 30
  const header = isNarrow ? 0 : 32
  const range = useRange(ref, rows.length, rowHeight, header)
  const place = rows.findIndex(({ node }) => node === selected)
  /** The node that a key selected: its row gets the focus once it is selected. */
  const toFocus = useRef<number | null>(null)
  useEffect(() => {
    scrollToRow(ref.current, place, rowHeight, header)
  }, [place, rowHeight, header])
  useEffect(() => {
    if (selected === null || toFocus.current !== selected) return
    toFocus.current = null
    ref.current!.querySelector<HTMLElement>('[aria-selected="true"]')?.focus({ preventScroll: true })
  })
  const move = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key]
    if (step === undefined) return
    event.preventDefault()
    event.stopPropagation()
    const next = rows[Math.min(rows.length - 1, Math.max(0, place + step))]
    if (next === undefined) return
    toFocus.current = next.node
    onSelect(next.node)
  }
  const usageKey = mainUsage(moment)
  return (
    <div
      className={isNarrow ? "otree narrow" : "otree"}
      ref={ref}
      role="treegrid"
      aria-label="Nodes"
      aria-rowcount={rows.length + 1}
      onKeyDown={move}
      tabIndex={-1}
    >
      {!isNarrow && (
        <div className="oh" role="row">
          <span role="columnheader">Node</span>
          <span role="columnheader">State</span>
          <span role="columnheader">Waits for, or why</span>
          <span role="columnheader" className="num">
            Attempt
          </span>
          <span role="columnheader" className="num">
            Time
          </span>
          <span role="columnheader" className="num">
            {usageKey ?? ""}
          </span>
        </div>
      )}
      <Spaced total={rows.length} rowHeight={rowHeight} range={range}>
        {rows.slice(range.from, range.to).map(({ node, depth }, n) => {
          const view = moment.view.nodes[node]!
          const { items } = buildCard(view, graph.nodes[node]!, moment.at)
          const why = plain(whySentence(view, graph.nodes[node]!, moment.at))
          const isTabStop = node === selected || (selected === null && range.from + n === 0)
          const text =
            view.status === "COMPLETED" && items === ""
              ? ""
              : view.status === "FAILED" && !isFollowing(view)
                ? `${view.error?.code ?? ""} ${view.error?.message ?? ""}`
                : why
          return (
            <div
              key={node}
              className="or"
              role="row"
              data-id={view.id}
              data-s={family(view.status)}
              aria-level={depth + 1}
              aria-rowindex={range.from + n + 2}
              aria-selected={node === selected}
              tabIndex={isTabStop ? 0 : -1}
              style={{ height: rowHeight, ["--d" as string]: depth }}
              onClick={() => onSelect(node)}
              onKeyDown={event => event.key === "Enter" && onSelect(node)}
            >
              <span className="o-n" role="rowheader">
                <StateMark status={view.status} />
                <b className="trunc">{view.id}</b>
                {view.items !== undefined && <span className="tagc">×{view.items.total}</span>}
                {view.child_job_id !== undefined && <Icon name="child" small />}
              </span>
              <span className="o-s" role="gridcell">
                {view.status}
              </span>
              <span className="o-w trunc" role="gridcell">
                {items !== "" && <Segments items={items} isBare />}
                <span className={view.status === "FAILED" && !isFollowing(view) ? "t-failed" : undefined}>
                  {text}
                </span>
              </span>
              <span className="o-a num" role="gridcell">
                {formatAttempt(view)}
              </span>
              <span className="o-t num" role="gridcell">
                {formatTime(view, moment.at)}
              </span>
              <span className="o-u num" role="gridcell">
                {usageKey !== null && view.usage?.[usageKey] !== undefined
                  ? amount(usageKey, view.usage[usageKey])
                  : ""}
              </span>
            </div>
          )
        })}
      </Spaced>
    </div>
  )
}

/** The usage that most nodes report; null: none. */
export function mainUsage({ view }: Moment): string | null {
  const names = Object.keys(view.usage)
  return names.find(name => /cost|usd/.test(name)) ?? names[0] ?? null
}

/** It failed because another node did. */
function isFollowing({ id, error }: NodeView): boolean {
  return error?.node !== undefined && error.node !== id
}

function formatAttempt({ attempt, max_attempts, status, queued_at }: NodeView): string {
  if (status === "PENDING" || status === "SKIPPED" || queued_at === null) return ""
  return attempt > 1 ? `${attempt} of ${max_attempts}` : "1"
}

function formatTime(
  { status, duration_ms, waited_ms, started_at, queued_at, finished_at, items }: NodeView,
  now: number,
): string {
  if (items !== undefined && finished_at !== null && queued_at !== null)
    return duration(finished_at - queued_at)
  if (duration_ms !== null && finished_at !== null) return duration(duration_ms + (waited_ms ?? 0))
  if (finished_at !== null || status === "PENDING" || status === "SKIPPED") return ""
  const since = items === undefined ? (started_at ?? queued_at) : queued_at
  return since === null ? "" : elapsed(now - since)
}
