/** A JSON value as a tree of which only the visible rows are in the page: search, copy of paths and values. */
import { useEffect, useRef, useState } from "react"
import { bytes, count, counted } from "../../model/format.ts"
import { JsonHandle } from "../../model/json/client.ts"
import type { JsonRow, JsonSource } from "../../model/json/document.ts"
import { copyText, Failed, Loading } from "../../shell/states.tsx"

const ROW = 20
const AROUND = 10

export function JsonTree({ source, label }: { source: JsonSource; label: string }) {
  const key = "address" in source ? source.address : null
  const [handle, setHandle] = useState<JsonHandle | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [tries, setTries] = useState(0)
  // biome-ignore lint/correctness/useExhaustiveDependencies: a source is known by its address or value.
  useEffect(() => {
    let isOver = false
    let opened: JsonHandle | null = null
    setHandle(null)
    setError(null)
    JsonHandle.open(source).then(
      next => {
        opened = next
        if (isOver) next.close()
        else setHandle(next)
      },
      failure => !isOver && setError(failure),
    )
    return () => {
      isOver = true
      opened?.close()
    }
  }, [key ?? JSON.stringify(source), tries])
  if (error !== null) return <Failed what={label} error={error} onRetry={() => setTries(tries + 1)} />
  return handle === null ? <Loading what={label} rows={4} /> : <Rows handle={handle} label={label} />
}

function Rows({ handle, label }: { handle: JsonHandle; label: string }) {
  const ref = useRef<HTMLDivElement>(null)
  const [length, setLength] = useState(handle.length)
  const [first, setFirst] = useState(0)
  const [rows, setRows] = useState<readonly JsonRow[]>([])
  const [revision, setRevision] = useState(0)
  const [found, setFound] = useState<readonly string[]>([])
  const [place, setPlace] = useState(0)
  const [current, setCurrent] = useState<string | null>(null)
  const height = Math.min(length * ROW + 8, 420)
  const shown = Math.ceil(height / ROW) + 2 * AROUND
  // biome-ignore lint/correctness/useExhaustiveDependencies: `revision` counts what was opened and closed.
  useEffect(() => {
    let isOver = false
    void handle.rows(first, first + shown).then(next => !isOver && setRows(next))
    return () => {
      isOver = true
    }
  }, [handle, first, shown, revision])
  const toggle = async (path: string) => {
    await handle.toggle(path)
    setLength(handle.length)
    setRevision(revision + 1)
  }
  const reveal = async (path: string) => {
    const row = await handle.reveal(path)
    setLength(handle.length)
    setRevision(revision + 1)
    setCurrent(path)
    ref.current?.scrollTo({ top: Math.max(0, row * ROW - 80) })
  }
  const search = async (text: string) => {
    const paths = await handle.search(text)
    setFound(paths)
    setPlace(0)
    if (paths[0] === undefined) setCurrent(null)
    else await reveal(paths[0])
  }
  const next = (step: number) => {
    const at = (place + step + found.length) % found.length
    setPlace(at)
    void reveal(found[at]!)
  }
  return (
    <div className="jdoc">
      {length > 12 && (
        <div className="row">
          <input
            className="in jq"
            type="search"
            placeholder="Find a key or text"
            aria-label={`Find in ${label}`}
            onChange={event => void search(event.target.value)}
            onKeyDown={event => event.key === "Enter" && found.length > 0 && next(event.shiftKey ? -1 : 1)}
          />
          <span className="tiny dim nowrap" aria-live="polite">
            {found.length > 0 ? `${place + 1} of ${count(found.length)}` : ""}
          </span>
        </div>
      )}
      <div
        className="jrows code"
        ref={ref}
        role="tree"
        aria-label={label}
        tabIndex={0}
        style={{ height }}
        onScroll={event => setFirst(Math.max(0, Math.floor(event.currentTarget.scrollTop / ROW) - AROUND))}
      >
        <div style={{ height: length * ROW }}>
          {rows.map((row, n) => (
            <Row
              key={row.path}
              row={row}
              top={(first + n) * ROW}
              isCurrent={row.path === current}
              onToggle={toggle}
              onCopy={path => void handle.text(path).then(copyText)}
            />
          ))}
        </div>
      </div>
    </div>
  )
}

interface RowProps {
  readonly row: JsonRow
  readonly top: number
  readonly isCurrent: boolean
  readonly onToggle: (path: string) => void
  readonly onCopy: (path: string) => void
}

const brackets = { list: ["[", "]", "item"], mapping: ["{", "}", "key"] } as const
const colours = { text: "c-s", number: "c-n", word: "c-n" } as const

function Row({ row, top, isCurrent, onToggle, onCopy }: RowProps) {
  const { path, depth, name, kind, text, cut, isOpen, canOpen } = row
  const isNest = kind === "list" || kind === "mapping"
  return (
    <div
      className={isCurrent ? "jr cur" : "jr"}
      role="treeitem"
      aria-level={depth + 1}
      aria-expanded={canOpen ? isOpen : undefined}
      aria-selected={isCurrent}
      tabIndex={-1}
      style={{ top, paddingLeft: 4 + depth * 14 }}
    >
      {canOpen ? (
        <button
          className="jt"
          type="button"
          aria-label={`${isOpen ? "Close" : "Open"} ${path}`}
          onClick={() => onToggle(path)}
        >
          {isOpen ? "▾" : "▸"}
        </button>
      ) : (
        <span className="jt" />
      )}
      {name !== null && <span className={/^\d+$/.test(name) ? "dim" : "c-k"}>{name}: </span>}
      {isNest ? (
        <span className="c-p">
          {brackets[kind][0]}{" "}
          {text === "0" ? "" : <span className="dim">{counted(Number(text), brackets[kind][2])}</span>}{" "}
          {brackets[kind][1]}
        </span>
      ) : (
        <span className={colours[kind]}>{text}</span>
      )}
      {cut > 0 && <span className="dim"> … {bytes(cut)} more</span>}
      <span className="jc">
        <button className="btn ghost sm" type="button" onClick={() => void copyText(path)}>
          Path
        </button>
        <button className="btn ghost sm" type="button" onClick={() => onCopy(path)}>
          Copy
        </button>
      </span>
    </div>
  )
}
