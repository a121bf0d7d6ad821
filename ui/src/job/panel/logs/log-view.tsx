/** The lines of one attempt: those around a line, or the newest ones, and more when a reader comes near them. */
import {
  type KeyboardEvent,
  type ReactNode,
  useEffect,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "react"
import { clock, count, counted, fullTime, visible } from "../../../model/format.ts"
import { Icon } from "../../../shell/icons.tsx"
import { changeQuery, pageHref, usePlace } from "../../../shell/router.ts"
import { CopyButton, Failed, Loading } from "../../../shell/states.tsx"
import { useIsSettled } from "../settled.ts"
import type { LogsTabProps } from "./logs-tab.tsx"
import { useMeasuredList } from "./measured-list.ts"
import { EngineLines, type LogFilter, LogReader } from "./reader.ts"
import { findMatches, formatRows, type LogRow, logRows } from "./rows.ts"

interface LogViewProps extends LogsTabProps {
  readonly filter: LogFilter
  /** The line that the address names. */
  readonly line: string | null
}

/** What the engine did is read again at most so often. */
const ENGINE_MS = 1000
const NEAR = 20
const LINE_HEIGHT = 18

export function LogView(props: LogViewProps) {
  const { moment, filter, line } = props
  const until = moment.isLive ? null : moment.at
  const reader = useReader(props, until)
  const engine = useEngine(props)
  const rows = useMemo(
    () =>
      logRows({ lines: reader.lines, older: reader.older, hasNewer: reader.hasNewer }, engine.lines, until),
    [reader.lines, reader.older, reader.hasNewer, engine.lines, until],
  )
  const [search, setSearch] = useState("")
  const [place, setPlace] = useState(0)
  const matches = useMemo(() => findMatches(rows, search), [rows, search])
  const error = reader.error ?? engine.error
  if (error !== null)
    return (
      <Failed
        what="The log"
        error={error}
        onRetry={() => {
          engine.retry()
          void reader.open(line ?? "end", until)
        }}
      />
    )
  if (reader.opened === 0) return <Loading what="the log" rows={4} />
  const isMissing = line !== null && reader.target === line && !reader.has(line)
  const isFiltered = filter.level !== "debug"
  return (
    <>
      {isMissing && (
        <p className="hint" role="status">
          The line of this link is hidden by the level, or is not kept any more.
        </p>
      )}
      {isFiltered && (
        <p className="row small dim">
          Lines below {filter.level} are hidden.
          <button
            className="btn ghost sm"
            type="button"
            onClick={() => changeQuery({ level: null }, { replace: true })}
          >
            Show all
          </button>
        </p>
      )}
      {rows.length === 0 ? (
        <p className="none" data-state="empty">
          {until !== null
            ? "No line had been written by this moment."
            : isFiltered
              ? `No line of level ${filter.level} or above.`
              : "No lines were written."}
        </p>
      ) : (
        <>
          <div className="row">
            <input
              className="in jq"
              type="search"
              placeholder="Find in what is loaded"
              aria-label="Find in the loaded lines"
              value={search}
              onChange={event => {
                setSearch(event.target.value)
                setPlace(0)
              }}
              onKeyDown={event => {
                if (event.key !== "Enter" || matches.length === 0) return
                setPlace((place + (event.shiftKey ? -1 : 1) + matches.length) % matches.length)
              }}
            />
            <span className="tiny dim nowrap" aria-live="polite">
              {search === ""
                ? ""
                : matches.length === 0
                  ? "Not found"
                  : `${count(place + 1)} of ${count(matches.length)}`}
            </span>
            <CopyButton text={() => formatRows(rows)} label="Copy" />
          </div>
          <LogList
            {...{ reader, rows, until, line, search }}
            attempt={filter.attempt}
            found={rows[matches[place]!]?.key ?? null}
            isLive={until === null && props.connection === "live"}
          />
        </>
      )}
    </>
  )
}

/** The window of lines: opened where the address points to, read again if the moment needs others, followed when live. */
function useReader(
  { jobId, filter, line, connection, moment }: LogViewProps,
  until: number | null,
): LogReader {
  const [, changed] = useReducer((n: number) => n + 1, 0)
  const [reader] = useState(() => new LogReader(jobId, filter, changed))
  const isSettled = useIsSettled(String(until))
  const asked = useRef<string | null>(null)
  useEffect(() => () => reader.close(), [reader])
  useEffect(() => {
    if (!isSettled) return
    const isNew = line !== null && line !== asked.current && !reader.has(line)
    asked.current = line
    if (isNew || !reader.covers(until)) void reader.open(isNew ? line : "end", until)
  }, [reader, line, until, isSettled])
  const isConnected = connection === "live" || connection === "ended"
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was read decides whether there is more to come.
  useEffect(() => {
    if (moment.isLive && isConnected) reader.follow()
    else reader.unfollow()
  }, [reader, moment.isLive, connection, reader.opened, reader.hasNewer])
  return reader
}

function useEngine({ jobId, filter, timeline, node }: LogViewProps) {
  const [error, setError] = useState<unknown>(null)
  const [tries, setTries] = useState(0)
  const [, changed] = useReducer((n: number) => n + 1, 0)
  const [engine] = useState(() => new EngineLines(jobId, filter))
  const readAt = useRef(0)
  const facts = timeline.factsByNode.get(node)?.length ?? 0
  // biome-ignore lint/correctness/useExhaustiveDependencies: each fact of the node may be another line.
  useEffect(() => {
    // Of a list only those of one item are few.
    if (filter.attempt === null) return
    const stop = new AbortController()
    const read = () => {
      readAt.current = Date.now()
      engine.read(stop.signal).then(
        hasMore => {
          if (hasMore) changed()
          if (engine.isPending && !stop.signal.aborted) timer = setTimeout(read, ENGINE_MS)
        },
        failure => stop.signal.aborted || setError(failure),
      )
    }
    let timer = setTimeout(read, Math.max(0, readAt.current + ENGINE_MS - Date.now()))
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [engine, facts, tries])
  const retry = () => {
    setError(null)
    setTries(tries + 1)
  }
  return { lines: engine.lines, error, retry }
}

interface LogListProps {
  readonly reader: LogReader
  readonly rows: readonly LogRow[]
  readonly until: number | null
  readonly line: string | null
  readonly attempt: number | null
  readonly search: string
  /** The row that the search is at. */
  readonly found: string | null
  readonly isLive: boolean
}

function LogList({ reader, rows, until, line, attempt, search, found, isLive }: LogListProps) {
  const ref = useRef<HTMLDivElement>(null)
  const keys = useMemo(() => rows.map(({ key }) => key), [rows])
  const isCut = until !== null && reader.lines.some(({ at }) => at > until)
  const list = useMeasuredList(ref, {
    keys,
    sticks: isCut || !reader.hasNewer,
    estimate: index => estimate(rows[index]!, ref.current?.clientWidth ?? 360),
    onShown: (from, to) => {
      if (from < NEAR) reader.readOlder()
      if (to > rows.length - NEAR && !isCut) reader.readNewer()
    },
  })
  // biome-ignore lint/correctness/useExhaustiveDependencies: a place that was opened is shown once.
  useLayoutEffect(() => list.scrollTo(reader.target ?? (reader.isAtStart ? keys[0]! : null)), [reader.opened])
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was found is shown when it changes.
  useLayoutEffect(() => {
    if (found !== null) list.scrollTo(found)
  }, [found])
  const isFocused = useRef(false)
  // A row that had the focus and is not in the page any more leaves it to the list.
  useLayoutEffect(() => {
    if (isFocused.current && document.activeElement === document.body) ref.current!.focus()
  })
  const toStart = () => (reader.older === null ? list.scrollTo(keys[0]!) : void reader.open("start", until))
  const toEnd = () => (reader.hasNewer && !isCut ? void reader.open("end", until) : list.scrollTo(null))
  const keysOfList = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (event.key === "Home") toStart()
    else if (event.key === "End") toEnd()
    else if (step !== undefined) moveFocus(ref.current!, step)
    else return
    event.preventDefault()
    event.stopPropagation()
  }
  return (
    <>
      <div
        className="lgs"
        ref={ref}
        role="log"
        aria-live="off"
        aria-label={attempt === null ? "Log" : `Log of attempt ${attempt}`}
        tabIndex={0}
        onKeyDown={keysOfList}
        onFocus={() => {
          isFocused.current = true
        }}
        onBlur={() => {
          isFocused.current = false
        }}
      >
        <div role="presentation" style={{ height: list.height, position: "relative" }}>
          <div role="presentation" style={{ position: "absolute", left: 0, right: 0, top: list.top }}>
            {rows.slice(list.from, list.to).map(row => (
              <Row
                key={row.key}
                row={row}
                search={search}
                attempt={attempt}
                isCurrent={row.key === line || row.key === found}
              />
            ))}
          </div>
        </div>
      </div>
      <p className="row tiny dim">
        <span>
          {reader.lines.length === 0
            ? "No line of the handler to show"
            : counted(reader.lines.length, "line")}
          {reader.older === null ? "" : ", and earlier ones"}
          {reader.hasNewer ? ", and later ones" : isLive ? ", live" : ""}
        </span>
        <span className="sp" />
        <button className="btn ghost sm" type="button" title="Home" onClick={toStart}>
          First
        </button>
        <button className="btn ghost sm" type="button" title="End" disabled={list.isAtEnd} onClick={toEnd}>
          {until === null ? "Newest" : "Last"}
        </button>
      </p>
    </>
  )
}

/** The focus goes through the links of the lines. */
function moveFocus(list: HTMLElement, step: number): void {
  const links = [...list.querySelectorAll("a")]
  const at = links.indexOf(document.activeElement as HTMLAnchorElement)
  const { top, bottom } = list.getBoundingClientRect()
  const isIn = (link: HTMLElement) => {
    const box = link.getBoundingClientRect()
    return box.top >= top && box.bottom <= bottom
  }
  const next = at >= 0 ? links[at + step] : step > 0 ? links.find(isIn) : links.findLast(isIn)
  next?.focus()
}

/** 7 pixels are about the width of a character. */
function estimate({ text, fields }: LogRow, width: number): number {
  const columns = Math.max(16, Math.floor((width - 100) / 7))
  const lines = `${text}${fields === "" ? "" : `\n${fields}`}`
    .split("\n")
    .reduce((sum, part) => sum + Math.max(1, Math.ceil(part.length / columns)), 0)
  return 6 + lines * LINE_HEIGHT
}

interface RowProps {
  readonly row: LogRow
  readonly search: string
  readonly attempt: number | null
  readonly isCurrent: boolean
}

function Row({ row: { key, kind, at, level, text, fields, line }, search, attempt, isCurrent }: RowProps) {
  const { path, query } = usePlace()
  const place = { line: key, ...(attempt === null ? {} : { attempt: String(attempt) }) }
  const time = clock(at, at)
  return (
    <div className="lg" data-row={key} data-k={kind} data-l={level} aria-current={isCurrent || undefined}>
      {line === null ? (
        <span className="t" title={fullTime(at)}>
          {kind === "gap" ? <Icon name="info" /> : time}
        </span>
      ) : (
        <a
          className="t"
          href={pageHref(path, { ...Object.fromEntries(query), ...place })}
          title={`Line ${count(line.line ?? 0)}, ${fullTime(at)}`}
          tabIndex={-1}
          onClick={event => {
            if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
            event.preventDefault()
            changeQuery(place, { replace: true })
          }}
        >
          {time}
        </a>
      )}
      <p>
        {kind === "engine" && <span className="tagc">engine</span>}
        {kind === "handler" && level !== "info" && <b>{level.toUpperCase()} </b>}
        {line?.item !== undefined && attempt === null && (
          <span className="dim">item {count(line.item)} </span>
        )}
        {marked(text, search)}
        {fields !== "" && <span className="dim f">{marked(fields, search)}</span>}
      </p>
    </div>
  )
}

/** The text with what is searched for. */
function marked(text: string, search: string): ReactNode {
  const shown = visible(text)
  const at = search === "" ? -1 : shown.toLowerCase().indexOf(search.toLowerCase())
  if (at < 0) return shown
  const end = at + search.length
  return (
    <>
      {shown.slice(0, at)}
      <mark>{shown.slice(at, end)}</mark>
      {marked(shown.slice(end), search)}
    </>
  )
}
