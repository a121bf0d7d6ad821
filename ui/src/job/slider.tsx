/** The time slider: density of events, marks, and the moment that is shown. In value and keys it is a range input. */
import { memo, type PointerEvent, useEffect, useMemo, useRef } from "react"
import { clock, count, elapsed } from "../model/format.ts"
import type { Mark, MarkKind } from "../model/marks.ts"
import { SliderScale } from "../model/slider-scale.ts"
import type { Connection } from "../model/source.ts"
import type { Moment, Timeline } from "../model/timeline.ts"
import { Icon, type IconName } from "../shell/icons.tsx"
import type { Player, Speed } from "./player.ts"

interface SliderProps {
  readonly timeline: Timeline
  readonly moment: Moment
  /** The right edge of the axis. */
  readonly end: number
  readonly connection: Connection
  readonly player: Player
  /** null: live. `isFinal` is false while dragging. */
  readonly onMoment: (index: number | null, isFinal: boolean) => void
}

const BINS = 120
const MOST_MARKS = 60
const speeds: readonly (readonly [Speed, string])[] = [
  [1, "1×"],
  [10, "10×"],
  ["step", "Step"],
]
const icons: { readonly [kind in MarkKind]: IconName } = {
  failure: "octagon",
  retry: "retry",
  signal: "diamond",
  takeover: "takeover",
  command: "person",
}

export function Slider({ timeline, moment, end, connection, player, onMoment }: SliderProps) {
  const track = useRef<HTMLDivElement>(null)
  const total = timeline.length
  // biome-ignore lint/correctness/useExhaustiveDependencies: facts are appended to the same list.
  const scale = useMemo(() => new SliderScale(timeline.facts, end), [timeline, total, end])
  const density = useMemo(() => scale.density(BINS), [scale])
  // biome-ignore lint/correctness/useExhaustiveDependencies: marks are appended to the same list.
  const marks = useMemo(() => thinned(timeline.marks, scale), [timeline, total, scale])
  const ticks = useMemo(() => scale.ticks(7), [scale])
  const tallest = Math.sqrt(Math.max(1, ...density))
  const head = moment.isLive ? 1 : scale.timeToX(moment.at)
  const latest = useRef({ scale, onMoment })
  latest.current = { scale, onMoment }
  const drag = (event: PointerEvent, isFinal: boolean) => {
    const { left, width } = track.current!.getBoundingClientRect()
    const x = Math.min(1, Math.max(0, (event.clientX - left) / width))
    latest.current.onMoment(latest.current.scale.indexAt(x), isFinal)
  }
  const isDragging = useRef(false)
  const frame = useRef(0)
  useEffect(() => () => cancelAnimationFrame(frame.current), [])
  const canGoLive = connection.kind !== "file" && connection.kind !== "ended"
  return (
    <section className="time" aria-label="Time">
      <div className="ctl">
        <button
          className="btn ghost icon-only"
          type="button"
          aria-label="Previous event"
          title="Previous event  ,"
          onClick={() => onMoment(Math.max(1, moment.index - 1), true)}
        >
          <Icon name="prev" />
        </button>
        <button
          className="btn icon-only"
          type="button"
          aria-label={player.isPlaying ? "Pause" : "Play"}
          title="Play, pause  Space"
          onClick={player.toggle}
        >
          <Icon name={player.isPlaying ? "pause" : "play"} />
        </button>
        <button
          className="btn ghost icon-only"
          type="button"
          aria-label="Next event"
          title="Next event  ."
          onClick={() => onMoment(Math.min(total, moment.index + 1), true)}
        >
          <Icon name="next" />
        </button>
        <div className="seg speed" role="group" aria-label="Speed">
          {speeds.map(([speed, label]) => (
            <button
              key={label}
              type="button"
              aria-pressed={player.speed === speed}
              onClick={() => player.setSpeed(speed)}
            >
              {label}
            </button>
          ))}
        </div>
        <p className="now">
          <b className="mono">{clock(moment.at)}</b>
          <span className="tiny dim">
            event {count(moment.index)} of {count(total)}
          </span>
        </p>
      </div>
      <div className="track" ref={track}>
        <svg className="dens" preserveAspectRatio="none" viewBox={`0 0 ${BINS} 44`} aria-hidden="true">
          {density.map((number, bin) => {
            const height = number === 0 ? 0 : Math.max(4, (Math.sqrt(number) / tallest) * 44)
            return (
              <rect
                key={bin}
                className={bin / BINS > head ? "after" : undefined}
                x={bin + 0.08}
                width={0.84}
                y={44 - height}
                height={height}
              />
            )
          })}
        </svg>
        {scale.breaks.map(({ x, from, to }) => (
          <span
            key={from}
            className="gap"
            style={{ left: `${x * 100}%` }}
            title={`Nothing for ${elapsed(to - from)}`}
          >
            {"//"}
          </span>
        ))}
        <div className="ticks" aria-hidden="true">
          <span>{clock(scale.start, end)}</span>
          {ticks.map(time => (
            <span key={time} style={{ left: `${scale.timeToX(time) * 100}%` }}>
              {clock(time, time)}
            </span>
          ))}
        </div>
        <input
          className="slide"
          type="range"
          min={1}
          max={Math.max(1, total)}
          value={moment.index}
          aria-label="Moment"
          aria-valuetext={`${clock(moment.at)}, event ${count(moment.index)} of ${count(total)}`}
          onChange={event => onMoment(Number(event.target.value), true)}
          onPointerDown={event => {
            // The axis is time, and the input counts events: dragging is our own.
            event.preventDefault()
            event.currentTarget.focus()
            event.currentTarget.setPointerCapture(event.pointerId)
            isDragging.current = true
            drag(event, false)
          }}
          onPointerMove={event => {
            if (!isDragging.current) return
            cancelAnimationFrame(frame.current)
            const kept = { clientX: event.clientX } as PointerEvent
            frame.current = requestAnimationFrame(() => drag(kept, false))
          }}
          onPointerUp={event => {
            if (!isDragging.current) return
            isDragging.current = false
            cancelAnimationFrame(frame.current)
            drag(event, true)
          }}
        />
        <Marks marks={marks} scale={scale} onMoment={onMoment} />
        <div className="head" style={{ left: `${head * 100}%` }}>
          <i />
        </div>
      </div>
      <div className="livec">
        <button
          className="btn live"
          type="button"
          aria-pressed={moment.isLive}
          title="Newest moment  L"
          onClick={() => onMoment(null, true)}
        >
          <i className="ld" />
          {canGoLive ? "Live" : "End"}
        </button>
        <kbd>L</kbd>
      </div>
    </section>
  )
}

/** Drawn again only if there are other marks, not with each moment. */
const Marks = memo(function Marks({
  marks,
  scale,
  onMoment,
}: {
  marks: readonly Mark[]
  scale: SliderScale
  onMoment: SliderProps["onMoment"]
}) {
  return (
    <div className="marks">
      {marks.map(mark => (
        <button
          key={`${mark.kind} ${mark.index}`}
          className={`mk ${mark.kind}`}
          type="button"
          tabIndex={-1}
          style={{ left: `${scale.timeToX(mark.at) * 100}%` }}
          title={`${clock(mark.at)}  ${mark.text}`}
          aria-label={`${clock(mark.at)}, ${mark.text}`}
          onClick={() => onMoment(mark.index, true)}
        >
          <Icon name={icons[mark.kind]} />
        </button>
      ))}
    </div>
  )
})

/** At most one mark of a kind at a place; failures are kept first. */
function thinned(marks: readonly Mark[], scale: SliderScale): Mark[] {
  const places = new Map<string, Mark>()
  for (const mark of marks) {
    const key = `${mark.kind} ${Math.floor(scale.timeToX(mark.at) * MOST_MARKS)}`
    if (!places.has(key)) places.set(key, mark)
  }
  return [...places.values()]
}
