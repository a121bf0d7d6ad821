/** The same job over time: one row for each node, up to the moment that is shown. */
import { type KeyboardEvent, useEffect, useMemo, useRef } from "react"
import { buildBars } from "../../model/bars.ts"
import { clock, duration } from "../../model/format.ts"
import { outlineRows } from "../../model/outline.ts"
import type { Moment, Timeline } from "../../model/timeline.ts"
import { family, StateMark } from "../../shell/icons.tsx"
import { Spaced, scrollToRow, useRange } from "../virtual.tsx"

interface GanttProps {
  readonly timeline: Timeline
  readonly moment: Moment
  readonly end: number
  readonly selected: number | null
  readonly matches: ReadonlySet<number> | null
  readonly isNarrow: boolean
  readonly onSelect: (node: number) => void
}

const ROW = 28
const HEADER = 32
const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400].map(
  s => s * 1000,
)

export function Gantt({ timeline, moment, end, selected, matches, isNarrow, onSelect }: GanttProps) {
  const ref = useRef<HTMLDivElement>(null)
  const all = useMemo(() => outlineRows(timeline.graph), [timeline])
  const rows = matches === null ? all : all.filter(({ node }) => matches.has(node))
  const range = useRange(ref, rows.length, ROW, HEADER)
  const start = timeline.facts[0]?.at ?? 0
  const span = Math.max(1, end - start) * 1.02
  const x = (time: number) => Math.min(100, Math.max(0, ((time - start) / span) * 100))
  const step = steps.find(candidate => span / candidate <= (isNarrow ? 3 : 8)) ?? steps.at(-1)!
  // The text of one at the right edge would be cut.
  const ticks = Array.from({ length: Math.floor(span / step) + 1 }, (_, n) => start + n * step).filter(
    time => x(time) < (isNarrow ? 75 : 95),
  )
  const place = rows.findIndex(({ node }) => node === selected)
  useEffect(() => scrollToRow(ref.current, place, ROW, HEADER), [place])
  const move = (event: KeyboardEvent) => {
    const direction = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    const next =
      direction === undefined ? undefined : rows[Math.min(rows.length - 1, Math.max(0, place + direction))]
    if (next === undefined) return
    event.preventDefault()
    event.stopPropagation()
    onSelect(next.node)
    requestAnimationFrame(() =>
      ref.current?.querySelector<HTMLElement>('[aria-current="true"]')?.focus({ preventScroll: true }),
    )
  }
  return (
    <div className="gwrap" onKeyDown={move}>
      <div className="gantt" ref={ref} role="group" aria-label="Nodes over time" tabIndex={0}>
        <div className="gaxis">
          <span className="gl">Node</span>
          <span className="gt">
            {ticks.map((time, n) => (
              <span key={time} style={{ left: `${x(time)}%` }}>
                {n === 0
                  ? clock(time, end)
                  : `+${duration(time - start)
                      .replace(/ 00 (s|min)$/, "")
                      .replace(".0 s", " s")}`}
              </span>
            ))}
          </span>
        </div>
        <Spaced total={rows.length} rowHeight={ROW} range={range}>
          {rows.slice(range.from, range.to).map(({ node }) => {
            const view = moment.view.nodes[node]!
            const bars = buildBars(view, timeline.tries.get(node) ?? [], moment.seq, moment.at)
            return (
              <button
                key={node}
                className="gr"
                type="button"
                data-id={view.id}
                data-s={family(view.status)}
                aria-current={node === selected}
                onClick={() => onSelect(node)}
              >
                <span className="gl">
                  <StateMark status={view.status} />
                  <b className="trunc">{view.id}</b>
                  {view.items !== undefined && <span className="tagc">×{view.items.total}</span>}
                </span>
                <span className="sr">
                  , {view.status.toLowerCase()}
                  {bars.map(bar => `, ${bar.title} ${duration(bar.to - bar.from)}`).join("")}
                </span>
                <span className="gt">
                  {bars.map(bar => (
                    <i
                      key={`${bar.kind} ${bar.from}`}
                      className={`gb g-${bar.kind}`}
                      title={`${bar.title}, ${duration(bar.to - bar.from)}`}
                      style={{ left: `${x(bar.from)}%`, width: `max(2px, ${x(bar.to) - x(bar.from)}%)` }}
                    />
                  ))}
                </span>
              </button>
            )
          })}
        </Spaced>
        <div className="gplay" style={{ ["--x" as string]: x(moment.at) / 100 }} />
      </div>
      <div className="gleg">
        <span>
          <i className="gb g-queued" data-s="queued" /> queued
        </span>
        <span>
          <i className="gb g-run" data-s="running" /> runs
        </span>
        <span>
          <i className="gb g-run" data-s="completed" /> ran
        </span>
        <span>
          <i className="gb g-wait" data-s="waiting" /> waits
        </span>
        <span>
          <i className="gb g-failed" data-s="failed" /> failed attempt
        </span>
      </div>
    </div>
  )
}
