/** All events of the job: a row each, of which only the visible ones are in the page. */
import { useEffect, useRef } from "react"
import { clock, count } from "../../model/format.ts"
import { formatPlace } from "../../model/marks.ts"
import type { Moment, Timeline } from "../../model/timeline.ts"
import { Spaced, scrollToRow, useRange } from "../virtual.tsx"

const ROW = 24

export function EventsTab({
  timeline,
  moment,
  onMoment,
}: {
  timeline: Timeline
  moment: Moment
  onMoment: (index: number) => void
}) {
  const ref = useRef<HTMLDivElement>(null)
  const range = useRange(ref, timeline.length, ROW)
  useEffect(() => scrollToRow(ref.current, moment.index - 1, ROW), [moment.index])
  return (
    <div className="events" ref={ref} tabIndex={0} role="group" aria-label="Events">
      <Spaced total={timeline.length} rowHeight={ROW} range={range}>
        {timeline.facts.slice(range.from, range.to).map(record => (
          <button
            key={record.seq}
            className="ev"
            type="button"
            data-after={record.index > moment.index}
            aria-current={record.index === moment.index}
            onClick={() => onMoment(record.index)}
          >
            <span className="num dim">{count(record.index)}</span>
            <span className="dim">{clock(record.at)}</span>
            <span className="trunc">
              {record.type.replaceAll("_", " ")}{" "}
              {record.node === undefined ? "" : <b>{formatPlace(record, timeline.graph)}</b>}
              {record.code === undefined ? "" : <span className="t-failed"> {record.code}</span>}
            </span>
          </button>
        ))}
      </Spaced>
    </div>
  )
}
