/** The routes of a pipeline, left to right, with their queues between them. Only what is in view is in the page. */
import { useEffect, useMemo, useRef, useState } from "react"
import { count, duration } from "../model/format.ts"
import { pressureStart, rateText, routeState, routeWords } from "../model/route-words.ts"
import type { Route } from "../model/source.ts"
import { family, StateMark, type Status } from "../shell/icons.tsx"
import { CARD_HEIGHT, CARD_WIDTH, layoutFlow, type PlacedRoute } from "./flow-layout.ts"

const AROUND = 300

export interface FlowProps {
  readonly routes: readonly Route[]
  readonly hasEnded: boolean
  /** By route: messages a second, oldest first. */
  readonly rates: ReadonlyMap<string, readonly number[]>
  readonly selected: string | null
  readonly onSelect: (route: string) => void
}

export function Flow({ routes, hasEnded, rates, selected, onSelect }: FlowProps) {
  // Places follow from the definition alone: a change of state moves nothing.
  const shape = JSON.stringify(routes.map(({ name, inbound, outbound }) => [name, inbound, outbound]))
  // biome-ignore lint/correctness/useExhaustiveDependencies: the shape says when places change.
  const layout = useMemo(() => layoutFlow(routes), [shape])
  const view = useRef<HTMLElement>(null)
  const [window_, setWindow] = useState({ left: 0, top: 0, width: 2000, height: 800 })
  useEffect(() => {
    const element = view.current!
    const measure = () =>
      setWindow({
        left: element.scrollLeft,
        top: element.scrollTop,
        width: element.clientWidth,
        height: element.clientHeight,
      })
    measure()
    element.addEventListener("scroll", measure, { passive: true })
    const sizes = new ResizeObserver(measure)
    sizes.observe(element)
    return () => {
      element.removeEventListener("scroll", measure)
      sizes.disconnect()
    }
  }, [])
  const isSeen = ({ tubeX, x, y }: PlacedRoute) =>
    x + CARD_WIDTH > window_.left - AROUND &&
    tubeX < window_.left + window_.width + AROUND &&
    y + CARD_HEIGHT > window_.top - AROUND &&
    y < window_.top + window_.height + AROUND
  const start = pressureStart(routes)
  const isHeld = ({ from, to }: { from: number; to: number }) => routes[from]!.held_up_by === routes[to]!.name
  const paths = (kind: string) =>
    layout.edges
      .filter(edge => (edge.isBack ? "back" : isHeld(edge) ? "held" : "") === kind)
      .map(({ path }) => path)
      .join("")
  return (
    <section ref={view} className="flow" aria-label="Routes" tabIndex={0}>
      <div className="fstage" style={{ width: layout.width, height: layout.height }}>
        <svg className="edges" width={layout.width} height={layout.height} aria-hidden="true">
          <path d={paths("")} />
          <path d={paths("back")} data-e="ahead" />
          <path d={paths("held")} data-e="held" />
          <path
            d={layout.routes.map(({ x, tubeX, y }) => `M${tubeX + 68} ${y + CARD_HEIGHT / 2}H${x}`).join("")}
          />
        </svg>
        {layout.edges
          .filter(({ isBack }) => isBack)
          .map(({ from, to, kinds, label }) => (
            <span key={`${from} ${to}`} className="loop tiny" style={{ left: label.x, top: label.y }}>
              {kinds.length === 0 ? "" : `${kinds.join(", ")}, `}back to {routes[to]!.inbound}
            </span>
          ))}
        {layout.routes.map((placed, place) =>
          isSeen(placed) ? (
            <PlacedCard
              key={placed.route.name}
              placed={placed}
              route={routes[place]!}
              hasEnded={hasEnded}
              isStart={start === routes[place]!.name}
              rates={rates.get(placed.route.name) ?? []}
              isSelected={selected === placed.route.name}
              onSelect={onSelect}
            />
          ) : null,
        )}
      </div>
    </section>
  )
}

interface CardProps {
  readonly placed: PlacedRoute
  readonly route: Route
  readonly hasEnded: boolean
  readonly isStart: boolean
  readonly rates: readonly number[]
  readonly isSelected: boolean
  readonly onSelect: (route: string) => void
}

function PlacedCard({ placed, route, hasEnded, isStart, rates, isSelected, onSelect }: CardProps) {
  const [status, word] = routeState(route, hasEnded)
  const { text, tone } = routeWords(route, hasEnded)
  const unsettled = route.queued + (route.in_flight ?? 0) + route.waiting
  const isFull = unsettled >= route.max_queued
  return (
    <>
      <div
        className="tube"
        data-full={isFull || undefined}
        data-queue={route.inbound}
        style={{ left: placed.tubeX + 4, top: placed.y + CARD_HEIGHT / 2 - 62 }}
      >
        {isStart && <b className="bp">backpressure</b>}
        <span className="mono tiny trunc" title={`queue ${route.inbound}`}>
          {route.inbound}
        </span>
        <i aria-hidden="true">
          <i
            style={{
              height: `${Math.min(100, Math.ceil((100 * route.queued) / Math.max(1, route.max_queued)))}%`,
            }}
          />
        </i>
        <b>{count(route.queued)}</b>
        <small>{isFull ? `of ${count(route.max_queued)}, full` : "queued"}</small>
      </div>
      <button
        className="rcard"
        type="button"
        data-route={route.name}
        data-s={family(status)}
        aria-current={isSelected}
        style={{ left: placed.x, top: placed.y }}
        onClick={() => onSelect(route.name)}
      >
        <RouteCard {...{ route, status, word, rates, text, tone }} />
      </button>
    </>
  )
}

interface InsideProps {
  readonly route: Route
  readonly status: Status
  readonly word: string
  readonly rates: readonly number[]
  readonly text: string
  readonly tone: string
}

const SHOWN_ADAPTERS = 2

function RouteCard({ route, status, word, rates, text, tone }: InsideProps) {
  const { in_flight, concurrency, latency_ms, rate, adapters } = route
  return (
    <>
      <span className="row">
        <StateMark status={status} />
        <b className="trunc">{route.name}</b>
        <span className="sr">, {word},</span>
        <span className="sp" />
        <span className="big">{rate === null ? "" : rateText(rate)}</span>
        {rate !== null && <span className="tiny dim">/ s</span>}
      </span>
      <Sparkline values={rates} />
      <span className="two">
        <span>
          <small>In flight</small>
          {in_flight === null
            ? "not recorded"
            : `${count(in_flight)}${concurrency === null ? "" : ` of ${count(concurrency)}`}`}
        </span>
        <span>
          <small>Latency</small>
          {latency_ms === null ? "not recorded" : latency_ms === 0 ? "no data" : latency(latency_ms)}
        </span>
      </span>
      <span className="ads">
        {adapters.slice(0, SHOWN_ADAPTERS).map(({ type, breaker }, place) => (
          <span key={place} className="row">
            <span className="mono tiny trunc">{type}</span>
            <span className="sp" />
            {breaker !== null && breaker !== "closed" && (
              <span className={breaker === "open" ? "tiny t-failed" : "tiny t-waiting"}>
                breaker {breaker.replace("_", " ")}
              </span>
            )}
          </span>
        ))}
        {adapters.length > SHOWN_ADAPTERS && (
          <span className="tiny dim">{count(adapters.length - SHOWN_ADAPTERS)} more</span>
        )}
      </span>
      <span className={`say1 ${tone}`}>{text}</span>
    </>
  )
}

function latency(ms: number): string {
  if (ms < 0.1) return "< 0.1 ms"
  return ms < 1000 ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : duration(ms)
}

const SPARK_WIDTH = 188
const SPARK_HEIGHT = 18

/** What this page has seen so far. */
function Sparkline({ values }: { values: readonly number[] }) {
  const most = Math.max(...values, 0)
  const points =
    values.length < 2 || most === 0
      ? `0,${SPARK_HEIGHT - 1} ${SPARK_WIDTH},${SPARK_HEIGHT - 1}`
      : values
          .map((value, n) => {
            const x = (n * SPARK_WIDTH) / (values.length - 1)
            return `${x.toFixed(1)},${(SPARK_HEIGHT - 1 - (value / most) * (SPARK_HEIGHT - 3)).toFixed(1)}`
          })
          .join(" ")
  return (
    <svg
      className="spark"
      viewBox={`0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <polyline points={points} />
    </svg>
  )
}
