/** The job page: graph, outline, gantt, panel and slider are all functions of one moment. */
import {
  type ReactNode,
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react"
import type { CompiledGraph } from "../../../src/core/index.ts"
import { clock, count, duration, elapsed } from "../model/format.ts"
import type { Layout } from "../model/layout/layout.ts"
import { nodeStates } from "../model/node-states.ts"
import { matchingNodes } from "../model/query.ts"
import type { JobSource } from "../model/source.ts"
import type { Moment, Timeline } from "../model/timeline.ts"
import { Icon, type IconName, StateMark } from "../shell/icons.tsx"
import { useKeys } from "../shell/keys.ts"
import { changeQuery, focusWhenMoved, usePlace } from "../shell/router.ts"
import { NARROW, useMedia } from "../shell/theme.ts"
import { JobHeader } from "./header.tsx"
import { Drawer } from "./panel/drawer.tsx"
import { routesHandler } from "./panel/routes-tab.tsx"
import { usePlayer } from "./player.ts"
import { Slider } from "./slider.tsx"
import { Gantt } from "./views/gantt.tsx"
import { Graph } from "./views/graph.tsx"
import { Outline } from "./views/outline.tsx"

type View = "graph" | "outline" | "gantt"

export const views: readonly (readonly [View, string, string, IconName])[] = [
  ["graph", "Graph", "G", "workflow"],
  ["outline", "Outline", "O", "jobs"],
  ["gantt", "Gantt", "T", "clock"],
]

export interface JobViewProps {
  readonly source: JobSource
  readonly timeline: Timeline
  readonly layout: (graph: CompiledGraph) => Promise<Layout>
  readonly canSignal: boolean
  /** Called with the newest moment. */
  readonly actions: (newest: Moment) => ReactNode
  readonly onCommand: () => void
  /** Instead of the graph, for a job of a pipeline; absent: it is not available here. */
  readonly board?: ((moment: Moment, around: BoardAround) => ReactNode) | undefined
}

export interface BoardAround {
  readonly isNarrow: boolean
  /** Opens the panel; null: it is open. */
  readonly onDetails: (() => void) | null
}

/** What belongs to the node that was selected before. */
export const anotherNode = { item: null, attempt: null, line: null, artifact: null, panel: null }

const WIDE = "(min-width: 1180px)"

/** Draws again once a second while the job is at work, for the figures that grow. */
function useTick(isOn: boolean): number {
  const [tick, setTick] = useState(0)
  useEffect(() => {
    if (!isOn) return
    const timer = setInterval(() => document.hidden || setTick(n => n + 1), 1000)
    return () => clearInterval(timer)
  }, [isOn])
  return tick
}

export function JobView(props: JobViewProps) {
  const { source, timeline, layout: computeLayout, canSignal, actions, onCommand, board } = props
  const { query } = usePlace()
  const version = useSyncExternalStore(
    listener => source.subscribe(listener),
    () => source.version,
  )
  const isNarrow = useMedia(NARROW)
  const isWide = useMedia(WIDE)
  /** While dragging or playing: the moment, before it is in the address. */
  const [passing, setPassing] = useState<number | null>(null)
  const at = query.get("at")
  const fixed = passing ?? (at === null ? null : Math.max(1, timeline.indexAtSeq(Number(at))))
  const isAtWork = source.connection.kind === "live" && fixed === null
  const tick = useTick(isAtWork)
  // biome-ignore lint/correctness/useExhaustiveDependencies: the timeline changes in place; `version` and `tick` change with it.
  const newest = useMemo(
    () => timeline.newest(isAtWork ? source.now : 0),
    [timeline, version, tick, isAtWork],
  )
  const moment = useMemo(
    () => (fixed === null ? newest : timeline.past(Math.min(fixed, timeline.length))),
    [timeline, newest, fixed],
  )
  const end = Math.max(newest.at, timeline.facts.at(-1)?.at ?? 0)

  const nodeId = query.get("node")
  const selected = nodeId === null ? null : (timeline.positions.get(nodeId) ?? null)
  const wanted = query.get("view") as View | null
  const hasBoard = board !== undefined && timeline.graph.nodes[0]!.handler === routesHandler
  const view: View | "board" = hasBoard
    ? "board"
    : isNarrow && wanted !== "gantt"
      ? "outline"
      : (wanted ?? "graph")
  const tab = query.get("tab")
  const item = query.get("item") === null ? null : Number(query.get("item"))
  const panel = query.get("panel")
  const isOpen = selected !== null || panel === "job" || (panel === null && isWide && !hasBoard)
  const text = query.get("q") ?? ""
  const matches = useMemo(() => matchingNodes(text, timeline.graph, moment.view), [text, timeline, moment])

  const [layout, setLayout] = useState<Layout | null>(null)
  useEffect(() => {
    if (hasBoard) return
    let isOver = false
    void computeLayout(timeline.graph).then(next => !isOver && setLayout(next))
    return () => {
      isOver = true
    }
  }, [computeLayout, timeline, hasBoard])

  const onMoment = useCallback(
    (index: number | null, isFinal: boolean) => {
      setPassing(isFinal ? null : index)
      if (isFinal)
        changeQuery({ at: index === null ? null : String(timeline.facts[index - 1]!.seq) }, { replace: true })
    },
    [timeline],
  )
  const player = usePlayer({ timeline, index: moment.index, onMoment })
  const select = useCallback(
    (node: number) =>
      changeQuery({ ...anotherNode, node: timeline.graph.nodes[node]!.id }, { replace: true }),
    [timeline],
  )
  const onNode = useCallback((id: string) => changeQuery({ ...anotherNode, node: id }), [])
  const close = () => changeQuery({ ...anotherNode, node: null, panel: "none" }, { replace: true })
  const show = (next: View) => changeQuery({ view: next === "graph" ? null : next }, { replace: true })
  const onDetails = () => changeQuery({ panel: "job" }, { replace: true })
  const filter = useRef<HTMLInputElement>(null)

  useKeys({
    g: () => show("graph"),
    o: () => show("outline"),
    t: () => show("gantt"),
    i: () => changeQuery({ ...anotherNode, node: null, panel: "job" }, { replace: true }),
    "/": () => filter.current?.focus(),
    " ": event => {
      if (event.target instanceof HTMLButtonElement) (event.target as HTMLElement).click()
      else player.toggle()
    },
    ",": () => onMoment(Math.max(1, moment.index - 1), true),
    ".": () => onMoment(Math.min(timeline.length, moment.index + 1), true),
    "<": () => jumpTo(nodeChange(timeline, selected, moment.index, -1), onMoment),
    ">": () => jumpTo(nodeChange(timeline, selected, moment.index, 1), onMoment),
    "[": () => jumpTo(failure(timeline, moment.index, -1), onMoment),
    "]": () => jumpTo(failure(timeline, moment.index, 1), onMoment),
    l: () => onMoment(null, true),
    Escape: close,
    // The tabs of the panel, if it is open.
    ...Object.fromEntries(
      Array.from("1234567", (key, n) => [
        key,
        () => document.querySelectorAll<HTMLElement>(".drawer [role=tab]")[n]?.click(),
      ]),
    ),
  })

  return (
    <main
      className={`jobpage${isOpen ? " open" : ""}${hasBoard ? " boarded" : ""}`}
      id="main"
      ref={focusWhenMoved}
      tabIndex={-1}
      data-moment={moment.isLive ? "live" : "past"}
    >
      <JobHeader jobId={source.jobId} timeline={timeline} moment={moment} onNode={onNode}>
        {actions(newest)}
      </JobHeader>
      <div className="jbar" hidden={hasBoard}>
        <div className="seg" role="group" aria-label="View">
          {views.map(([name, label, key]) =>
            name === "graph" && isNarrow ? null : (
              <button key={name} type="button" aria-pressed={view === name} onClick={() => show(name)}>
                {label} <kbd className="hide-s">{key}</kbd>
              </button>
            ),
          )}
        </div>
        <label className="gq hide-s">
          <Icon name="filter" />
          <span className="sr">Find nodes</span>
          <input
            ref={filter}
            type="search"
            value={text}
            placeholder="failed+  waiting  name"
            spellCheck={false}
            onChange={event => changeQuery({ q: event.target.value || null }, { replace: true })}
          />
          <kbd>/</kbd>
        </label>
        <span className="sp" />
        <Counts moment={moment} />
        {!isOpen && (
          <button className="btn sm" type="button" title="Details of the job  I" onClick={onDetails}>
            <Icon name="info" />
            Details
          </button>
        )}
      </div>
      <div className="jview">
        <Banner source={source} moment={moment} timeline={timeline} onLive={() => onMoment(null, true)} />
        {view === "board" && board?.(moment, { isNarrow, onDetails: isOpen ? null : onDetails })}
        {view === "graph" &&
          (layout === null ? (
            <div className="canvas" />
          ) : (
            <Graph
              graph={timeline.graph}
              layout={layout}
              moment={moment}
              selected={selected}
              matches={matches}
              onSelect={select}
            />
          ))}
        {view === "outline" && (
          <Outline
            graph={timeline.graph}
            moment={moment}
            selected={selected}
            matches={matches}
            isNarrow={isNarrow}
            onSelect={select}
          />
        )}
        {view === "gantt" && (
          <Gantt
            timeline={timeline}
            moment={moment}
            end={end}
            selected={selected}
            matches={matches}
            isNarrow={isNarrow}
            onSelect={select}
          />
        )}
      </div>
      {isOpen && (
        <Drawer
          {...{ source, timeline, moment, tab, item, canSignal, onNode, onCommand }}
          node={selected}
          onMoment={index => onMoment(index, true)}
          onClose={close}
        />
      )}
      <Slider
        timeline={timeline}
        moment={moment}
        end={end}
        connection={source.connection}
        player={player}
        onMoment={onMoment}
      />
      <Announcer newest={newest} />
    </main>
  )
}

function jumpTo(index: number | null, onMoment: (index: number, isFinal: boolean) => void): void {
  if (index !== null) onMoment(index, true)
}

/** The next or previous fact of the selected node; without one, of any. */
function nodeChange(
  { factsByNode, length }: Timeline,
  node: number | null,
  index: number,
  step: 1 | -1,
): number | null {
  if (node === null) return Math.min(length, Math.max(1, index + step))
  const places = (factsByNode.get(node) ?? []).map(place => place + 1)
  return (step === 1 ? places.find(place => place > index) : places.findLast(place => place < index)) ?? null
}

function failure({ marks }: Timeline, index: number, step: 1 | -1): number | null {
  const failures = marks.filter(({ kind }) => kind === "failure" || kind === "retry").map(mark => mark.index)
  return (
    (step === 1 ? failures.find(place => place > index) : failures.findLast(place => place < index)) ?? null
  )
}

function Counts({ moment }: { moment: Moment }) {
  const counts = new Map<string, number>()
  for (const { status } of moment.view.nodes) counts.set(status, (counts.get(status) ?? 0) + 1)
  return (
    <ul className="legend hide-s">
      {nodeStates.map(state => {
        const status = state.toUpperCase() as "PENDING"
        const number = counts.get(status)
        return number === undefined ? null : (
          <li key={state} className="st">
            <StateMark status={status} />
            <span className="lw">{state}</span> <b>{count(number)}</b>
          </li>
        )
      })}
    </ul>
  )
}

/** A past moment looks like the present, with a banner; so does a page whose stream is interrupted. */
function Banner({
  source,
  moment,
  timeline,
  onLive,
}: {
  source: JobSource
  moment: Moment
  timeline: Timeline
  onLive: () => void
}) {
  const { connection } = source
  if (!moment.isLive) {
    const newestAt = timeline.facts.at(-1)!.at
    const isFile = connection.kind === "file" || connection.kind === "ended"
    const ago = isFile
      ? `${duration(newestAt - moment.at)} before its end`
      : `${elapsed(source.now - moment.at)} ago`
    return (
      <div className="past" role="status">
        <Icon name="clock" />
        <span>
          The job as it was at <b>{clock(moment.at)}</b>, {ago}
        </span>
        <button className="btn sm" type="button" onClick={onLive}>
          {isFile ? "To the end" : "Back to live"} <kbd>L</kbd>
        </button>
      </div>
    )
  }
  if (connection.kind !== "lost") return null
  const seconds = Math.max(0, Math.ceil((connection.nextAt - Date.now()) / 1000))
  return (
    <div className="past cut" role="status" data-state="lost">
      <StateMark status="WAITING" />
      <span>
        <b>Not live since {clock(connection.since)}.</b> Shown as of event {count(moment.index)}. Reconnecting
        {seconds === 0 ? "" : ` in ${seconds} s`}.
      </span>
      <button className="btn sm" type="button" onClick={() => source.retryNow()}>
        Try now
      </button>
    </div>
  )
}

const SAID_EVERY_MS = 5000

/** Announces only ends of nodes and jobs, at most every five seconds. */
function Announcer({ newest }: { newest: Moment }) {
  const [said, setSaid] = useState("")
  const last = useRef({ at: 0, text: "" })
  const failed = newest.view.nodes.filter(({ status }) => status === "FAILED").map(({ id }) => id)
  const text = `${newest.view.status === "PROCESSING" ? "" : `Job ${newest.view.status.toLowerCase()}. `}${failed.length === 0 ? "" : `Failed: ${failed.slice(0, 3).join(", ")}.`}`
  useEffect(() => {
    if (text === last.current.text || Date.now() - last.current.at < SAID_EVERY_MS) return
    last.current = { at: Date.now(), text }
    setSaid(text)
  }, [text])
  return (
    <p className="sr" aria-live="polite">
      {said}
    </p>
  )
}
