/**
 * Pages have paths below `/ui`: `/ui/jobs/ID?at=17&node=mix`. A replay file has one page, and keeps its parameters in the
 * fragment of its address.
 */
import { useMemo, useSyncExternalStore } from "react"

export interface Place {
  /** `/jobs/ID` */
  readonly path: string
  readonly query: URLSearchParams
}

type Changes = Readonly<Record<string, string | readonly string[] | null | undefined>>

const isFile = window.location.protocol === "file:"
/** The folder that the dashboard is served from: `/`, or the base path of a proxy. */
export const root = isFile ? "" : new URL("./", document.baseURI).pathname
const listeners = new Set<() => void>()
/** Browsers ignore changes of the address beyond 20 a second: it follows what is shown. */
const WRITTEN_EVERY_MS = 150
let shown = readAddress()
let writing: ReturnType<typeof setTimeout> | undefined
let hasMoved = false
window.addEventListener("popstate", arrived)
window.addEventListener("hashchange", arrived)
window.addEventListener("pagehide", writeAddress)

/** For the main part of a new page: it gets the focus after a navigation by keyboard. A page that was loaded keeps the focus at its top. */
export function focusWhenMoved(part: HTMLElement | null): void {
  if (hasMoved && document.activeElement === document.body) part?.focus({ preventScroll: true })
}

function arrived(): void {
  hasMoved = true
  clearTimeout(writing)
  writing = undefined
  shown = readAddress()
  announce()
}

/** After a navigation the element that had the focus may have been removed: the content of the new page gets it, so that keys and screen readers continue there. */
export function focusMain(): void {
  if (hasMoved && document.activeElement === document.body)
    document.getElementById("main")?.focus({ preventScroll: true })
}

function announce(): void {
  hasMoved = true
  for (const listener of listeners) listener()
}

function writeAddress(): void {
  if (writing === undefined) return
  clearTimeout(writing)
  writing = undefined
  window.history.replaceState(null, "", isFile ? `#${shown}` : shown)
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

function readAddress(): string {
  return isFile ? window.location.hash.slice(1) : `${window.location.pathname}${window.location.search}`
}

function parsePlace(text: string): Place {
  const [whole = "", query = ""] = text.split("?", 2)
  const path = whole.startsWith(`${root}ui/`) ? whole.slice(root.length + 2) : "/"
  return { path: path === "/" ? "/jobs" : decodeURI(path), query: new URLSearchParams(query) }
}

/** With the host: what a person would copy. */
export function currentAddress(): string {
  writeAddress()
  return window.location.href
}

export function usePlace(): Place {
  const text = useSyncExternalStore(subscribe, () => shown)
  return useMemo(() => parsePlace(text), [text])
}

function currentPlace(): Place {
  return parsePlace(shown)
}

/** The address of a page, for links. Values that are null are left out. */
export function pageHref(path: string, query: Changes = {}): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    for (const one of [value ?? []].flat()) parameters.append(name, one)
  return withQuery(path, parameters)
}

function withQuery(path: string, query: URLSearchParams): string {
  const text = query.toString()
  return `${isFile ? "#" : `${root}ui${encodeURI(path)}`}${text === "" ? "" : `?${text}`}`
}

export function go(href: string, { replace = false } = {}): void {
  if (replace) writing ??= setTimeout(writeAddress, WRITTEN_EVERY_MS)
  else {
    writeAddress()
    hasMoved = true
    window.history.pushState(null, "", href)
  }
  shown = isFile ? href.slice(1) : href
  announce()
}

/** Changes parameters of the address, and keeps the others. null removes one. */
export function changeQuery(changes: Changes, options: { readonly replace?: boolean } = {}): void {
  const { path, query } = currentPlace()
  const before = query.toString()
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name)
    for (const one of [value ?? []].flat()) query.append(name, one)
  }
  if (query.toString() !== before) go(withQuery(path, query), options)
}

/** Links to pages of the dashboard do not load it again. */
export function followLinks(): void {
  document.addEventListener("click", event => {
    const { target, button } = event
    const link = target instanceof Element ? target.closest("a") : null
    const isPlain = button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey
    if (link === null || !isPlain || event.defaultPrevented || link.target !== "") return
    if (link.origin !== window.location.origin || !link.pathname.startsWith(`${root}ui/`)) return
    event.preventDefault()
    go(`${link.pathname}${link.search}`)
    window.scrollTo(0, 0)
  })
}
