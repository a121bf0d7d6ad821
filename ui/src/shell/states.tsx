/** Loading, empty and failed: three different screens. A failed request never looks like an empty list. */
import { Component, type ReactNode, useEffect, useState } from "react"
import { ApiError } from "../api/http.ts"
import { duration } from "../model/format.ts"
import { StateMark } from "./icons.tsx"
import { focusWhenMoved } from "./router.ts"

const SHOWN_AFTER_MS = 200
const STILL_AFTER_MS = 2000

/** The title of the window. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Umbra`
  }, [title])
}

/** The part of a page that "Skip to the content" leads to. */
export function Main({ name, ...rest }: { name?: string; children: ReactNode; "aria-busy"?: boolean }) {
  return (
    <main
      ref={focusWhenMoved}
      className={name === undefined ? "page" : `page ${name}`}
      id="main"
      tabIndex={-1}
      {...rest}
    />
  )
}

export function Loading({ what, rows = 6 }: { what: string; rows?: number }) {
  const [waited, setWaited] = useState(0)
  useEffect(() => {
    const began = Date.now()
    const timer = setInterval(() => setWaited(Date.now() - began), SHOWN_AFTER_MS)
    return () => clearInterval(timer)
  }, [])
  return (
    <div className="sk" role="status" aria-label={`Reading ${what}`} data-state="loading">
      {waited >= SHOWN_AFTER_MS && Array.from({ length: rows }, (_, n) => <i key={n} />)}
      {waited >= STILL_AFTER_MS && (
        <p className="small dim">
          Still reading {what}, {duration(waited)}
        </p>
      )}
    </div>
  )
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="three" data-state="empty">
      <b>{title}</b>
      {children}
    </div>
  )
}

/** Shows an error instead of an empty document: a part of the page could not be loaded, or has failed. */
export class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null }

  static getDerivedStateFromError(error: unknown) {
    return { error }
  }

  override render() {
    if (this.state.error === null) return this.props.children
    return (
      <Main>
        <div className="panel">
          <Failed what="The page" error={this.state.error} onRetry={() => location.reload()} />
        </div>
      </Main>
    )
  }
}

export function Failed({
  what,
  error,
  onRetry,
  note,
}: {
  what: string
  error: unknown
  onRetry?: () => void
  note?: string
}) {
  const { message } = error as Error
  const details = error instanceof ApiError ? [error.status, error.code].filter(Boolean).join(", ") : ""
  return (
    <div className="three bad" role="alert" data-state="failed">
      <b>
        <StateMark status="FAILED" />
        {what} could not be read{details === "" ? "" : `: ${details}`}
      </b>
      <p className="break-words">{message}</p>
      {note !== undefined && <p>{note}</p>}
      <div className="row">
        {onRetry !== undefined && (
          <button className="btn sm" type="button" onClick={onRetry}>
            Try now
          </button>
        )}
        <CopyButton text={`${what} could not be read: ${details} ${message}`} label="Copy details" />
      </div>
    </div>
  )
}

export function CopyButton({
  text,
  label,
}: {
  text: string | (() => string | Promise<string>)
  label: string
}) {
  const [isCopied, setCopied] = useState(false)
  const copy = async () => {
    await copyText(typeof text === "string" ? text : await text())
    setCopied(true)
    setTimeout(() => setCopied(false), 1500)
  }
  return (
    <button className="btn ghost sm" type="button" onClick={() => void copy()}>
      {isCopied ? "Copied" : label}
    </button>
  )
}

/** Pages that are not served securely have no clipboard API. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) {
    try {
      return await navigator.clipboard.writeText(text)
    } catch {
      // Not permitted: the old way below.
    }
  }
  const area = document.createElement("textarea")
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand("copy")
  area.remove()
}

/** Turns the pages of a list. `cursors`: where this page and those before it begin, without the first one. */
export function Pager({
  names: [back, on],
  cursors,
  next,
  onCursors,
  children,
}: {
  names: readonly [string, string]
  cursors: readonly string[]
  next: string | null
  onCursors: (cursors: readonly string[]) => void
  children: ReactNode
}) {
  const button = (name: string, isOff: boolean, to: () => readonly string[]) => (
    <button className="btn sm" type="button" disabled={isOff} onClick={() => onCursors(to())}>
      {name}
    </button>
  )
  return (
    <div className="row bfoot">
      {button(back, cursors.length === 0, () => cursors.slice(0, -1))}
      {button(on, next === null, () => [...cursors, next!])}
      <span className="small dim">{children}</span>
    </div>
  )
}

/** The next page of a list, if there is one. */
export function ShowMore({
  read,
}: {
  read: {
    readonly hasNextPage: boolean
    readonly isFetching: boolean
    readonly fetchNextPage: () => Promise<unknown>
  }
}) {
  return (
    read.hasNextPage && (
      <div className="more spad">
        <button
          className="btn sm"
          type="button"
          disabled={read.isFetching}
          onClick={() => void read.fetchNextPage()}
        >
          Show more
        </button>
      </div>
    )
  )
}
