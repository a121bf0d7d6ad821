/** Duration of jobs over their start, downsampled by the server: failed is a cross, unfinished a ring, ended a dot. */
import { useQuery } from "@tanstack/react-query"
import { type PointerEvent, useRef, useState } from "react"
import { ask } from "../api/http.ts"
import type { DurationPoint, Durations } from "../api/types.ts"
import { useSize } from "../job/views/viewport.ts"
import { clock, count, duration } from "../model/format.ts"
import { family, StateMark } from "../shell/icons.tsx"
import { go, pageHref } from "../shell/router.ts"
import { Failed, Loading } from "../shell/states.tsx"
import { apiQuery, type Filter } from "./filters.ts"

const HEIGHT = 132
const LEFT = 52
const RIGHT = 12
const TOP = 10
const BOTTOM = 22
const POINTS = 400
const lines = [0.01, 0.1, 1, 10, 60, 600, 3600, 21_600, 86_400, 604_800].map(seconds => seconds * 1000)
const unfinished = new Set(["running", "queued", "waiting", "preview", "pending"])

interface ScatterProps {
  readonly filters: readonly Filter[]
  /** When the list was read: both show the same time. */
  readonly readAt: number
  readonly onRange: (from: number, before: number) => void
}

export function Scatter({ filters, readAt, onRange }: ScatterProps) {
  const { data, error, refetch } = useQuery({
    queryKey: ["durations", filters, readAt],
    queryFn: ({ signal }) =>
      ask<Durations>("/jobs/durations", { query: { ...apiQuery(filters, readAt), points: POINTS }, signal }),
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: before => before,
  })
  const totals = new Map<string, number>()
  for (const { status, count: number } of data?.points ?? [])
    totals.set(status, (totals.get(status) ?? 0) + number)
  return (
    <section className="panel scat" aria-label="Duration by start">
      <header>
        <h2>Duration by start</h2>
        <span className="small dim hide-s">
          one mark is one job, or several; log scale
          {data !== undefined && !data.complete && (
            <b> · a sample of {count(data.jobs)} jobs, there are more</b>
          )}
        </span>
        <span className="sp" />
        <ul className="legend">
          {[...totals].map(([status, number]) => (
            <li key={status} className="st">
              <StateMark status={status as never} />
              <span className="lw">{status.toLowerCase()}</span> <b>{count(number)}</b>
            </li>
          ))}
        </ul>
      </header>
      {error !== null ? (
        <Failed what="Durations" error={error} onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <div className="plot">
          <Loading what="durations" rows={3} />
        </div>
      ) : (
        <Plot data={data} onRange={onRange} />
      )}
    </section>
  )
}

function Plot({ data, onRange }: { data: Durations; onRange: (from: number, before: number) => void }) {
  const ref = useRef<HTMLDivElement>(null)
  const size = useSize(ref)
  const [brush, setBrush] = useState<readonly [number, number] | null>(null)
  const before = Date.parse(data.before)
  // Without a filter by time the axis begins with the oldest job, not a day before.
  const oldest = Math.min(before - 60_000, ...data.points.map(({ at }) => Date.parse(at)))
  const from = Math.max(Date.parse(data.from), oldest - (before - oldest) * 0.04)
  const width = size?.width ?? 0
  const durations = data.points.map(point => Math.max(1, point.duration_ms))
  const [least, most] = [Math.min(1000, ...durations), Math.max(1000, ...durations) * 1.3]
  const x = (time: number) => LEFT + ((time - from) / Math.max(1, before - from)) * (width - LEFT - RIGHT)
  const y = (ms: number) =>
    HEIGHT - BOTTOM - (Math.log(Math.max(1, ms) / least) / Math.log(most / least)) * (HEIGHT - TOP - BOTTOM)
  const timeAt = (px: number) => from + ((px - LEFT) / (width - LEFT - RIGHT)) * (before - from)
  const pointerX = (event: PointerEvent) =>
    Math.min(width - RIGHT, Math.max(LEFT, event.clientX - ref.current!.getBoundingClientRect().left))
  const range = brush === null ? null : ([Math.min(...brush), Math.max(...brush)] as const)
  const inRange =
    range === null
      ? []
      : data.points.filter(({ at }) => x(Date.parse(at)) >= range[0] && x(Date.parse(at)) <= range[1])
  const ticks =
    width === 0
      ? []
      : Array.from(
          { length: Math.max(2, Math.floor(width / 200)) },
          (_, n, all = Math.max(2, Math.floor(width / 200))) => from + ((before - from) * n) / all,
        )
  const shown = lines.filter(ms => ms >= least && ms <= most)
  return (
    <div className="plot" ref={ref}>
      {width > 0 && (
        <svg
          role="img"
          aria-label={`${count(data.points.reduce((sum, point) => sum + point.count, 0))} jobs from ${clock(from)} to ${clock(before)}. The table below lists them.`}
          width={width}
          height={HEIGHT}
          onPointerDown={event => {
            event.currentTarget.setPointerCapture(event.pointerId)
            setBrush([pointerX(event), pointerX(event)])
          }}
          onPointerMove={event => brush !== null && setBrush([brush[0], pointerX(event)])}
          onPointerUp={() => {
            if (range !== null && range[1] - range[0] > 6) onRange(timeAt(range[0]), timeAt(range[1]))
            setBrush(null)
          }}
        >
          {shown.map(ms => (
            <g key={ms}>
              <path className="gl-h" d={`M${LEFT} ${y(ms)}H${width - RIGHT}`} />
              <text x={LEFT - 8} y={y(ms) + 4} textAnchor="end">
                {duration(ms).replace(" 00 s", "").replace(" 00 min", "").replace(".0 s", " s")}
              </text>
            </g>
          ))}
          {ticks.map((time, n) => (
            <text key={time} x={x(time)} y={HEIGHT - 5} textAnchor={n === 0 ? "start" : "middle"}>
              {clock(time, before)}
            </text>
          ))}
          <text x={width - RIGHT} y={HEIGHT - 5} textAnchor="end">
            {Date.now() - before < 60_000 ? "now" : clock(before)}
          </text>
          {data.points.map(point => (
            <Dot
              key={`${point.job_id} ${point.status}`}
              point={point}
              x={x(Date.parse(point.at))}
              y={y(point.duration_ms)}
            />
          ))}
          {range !== null && (
            <>
              <rect
                className="brush"
                x={range[0]}
                y={4}
                width={range[1] - range[0]}
                height={HEIGHT - BOTTOM - 4}
              />
              <text className="bl" x={range[0] + 6} y={16}>
                {clock(timeAt(range[0]), before)} to {clock(timeAt(range[1]), before)},{" "}
                {count(inRange.reduce((sum, point) => sum + point.count, 0))} jobs
              </text>
            </>
          )}
        </svg>
      )}
    </div>
  )
}

function Dot({ point, x, y }: { point: DurationPoint; x: number; y: number }) {
  const state = family(point.status)
  const size = Math.min(6, 2.6 + Math.log2(point.count) * 0.5)
  const shape = {
    "data-s": state,
    onPointerDown: (event: PointerEvent) => event.stopPropagation(),
    onClick: () => go(pageHref(`/jobs/${point.job_id}`)),
  }
  const title = (
    <title>{`${point.status.toLowerCase()}, ${duration(point.duration_ms)}, ${clock(Date.parse(point.at))}${point.count > 1 ? `, the slowest of ${count(point.count)}` : ""}`}</title>
  )
  if (state === "failed")
    return (
      <path
        className="pt"
        d={`M${x - 3.2} ${y - 3.2}l6.4 6.4m0-6.4l-6.4 6.4`}
        stroke="var(--s)"
        strokeWidth="1.8"
        strokeLinecap="round"
        {...shape}
      >
        {title}
      </path>
    )
  if (state === "expired" || state === "cancelled")
    return (
      <path className="pt" d={`M${x} ${y - 4}l4 4-4 4-4-4z`} fill="var(--s)" {...shape}>
        {title}
      </path>
    )
  const isOpen = unfinished.has(state)
  return (
    <circle
      className="pt"
      cx={x}
      cy={y}
      r={isOpen ? 3 : size}
      fill={isOpen ? "none" : "var(--s)"}
      fillOpacity={state === "completed" ? 0.55 : 1}
      stroke={isOpen ? "var(--s)" : "none"}
      strokeWidth="1.6"
      {...shape}
    >
      {title}
    </circle>
  )
}
