/**
 * A text area with line numbers, colours, marks at problems, and completion. What is typed is the text area's; a layer
 * behind it draws the visible lines.
 */
import { type KeyboardEvent, useCallback, useId, useLayoutEffect, useRef, useState } from "react"
import type { SentProblem } from "../api/http.ts"
import { type Completion, completionsAt } from "./completion.ts"
import { colouredLine } from "./yaml-text.tsx"

export const LINE = 20
const MOST_OFFERED = 8
/** Longer lines are not coloured. */
const MOST_COLOURED = 1000

interface CodeAreaProps {
  readonly label: string
  readonly value: string
  readonly onChange: (value: string) => void
  readonly problems: readonly SentProblem[]
  /** Ids of nodes, for completion. */
  readonly ids: readonly string[]
}

interface Offer {
  readonly list: readonly Completion[]
  readonly from: number
  readonly chosen: number
}

export function CodeArea({ label, value, onChange, problems, ids }: CodeAreaProps) {
  const id = useId()
  const area = useRef<HTMLTextAreaElement>(null)
  const [view, setView] = useState({ top: 0, left: 0, height: 600, character: 7.2 })
  const [offer, setOffer] = useState<Offer | null>(null)
  const caret = useRef<number | null>(null)
  const lines = value.split("\n")
  const read = useCallback(() => {
    const { scrollTop: top, scrollLeft: left, clientHeight: height } = area.current!
    setView(before => ({ ...before, top, left, height }))
  }, [])
  useLayoutEffect(() => {
    const probe = document.createElement("span")
    probe.className = "code"
    probe.textContent = "0".repeat(100)
    probe.style.cssText = "position:absolute;visibility:hidden"
    area.current!.parentElement!.append(probe)
    const character = probe.getBoundingClientRect().width / 100
    probe.remove()
    const observer = new ResizeObserver(read)
    observer.observe(area.current!)
    setView(before => ({ ...before, character, height: area.current!.clientHeight }))
    return () => observer.disconnect()
  }, [read])
  useLayoutEffect(() => {
    if (caret.current === null) return
    area.current!.setSelectionRange(caret.current, caret.current)
    caret.current = null
  })
  const look = (isAsked: boolean) => {
    const { selectionStart: at, selectionEnd: end, value: text } = area.current!
    const found = at === end ? completionsAt(text, at, ids) : null
    const isTyped = found !== null && (isAsked || at > found.from)
    setOffer(isTyped && found.list.length > 0 ? { ...found, chosen: 0 } : null)
  }
  const take = ({ insert }: Completion) => {
    const at = area.current!.selectionStart
    const from = offer!.from
    caret.current = from + insert.length
    onChange(value.slice(0, from) + insert + value.slice(at))
    setOffer(null)
    area.current!.focus()
  }
  const type = (text: string) => {
    const { selectionStart: at, selectionEnd: end } = area.current!
    caret.current = at + text.length
    onChange(value.slice(0, at) + text + value.slice(end))
  }
  const key = (event: KeyboardEvent) => {
    const act = () => {
      if (event.key === " " && event.ctrlKey) return look(true)
      if (offer !== null) {
        const { list, chosen } = offer
        const size = Math.min(list.length, MOST_OFFERED)
        switch (event.key) {
          case "ArrowDown":
            return setOffer({ ...offer, chosen: (chosen + 1) % size })
          case "ArrowUp":
            return setOffer({ ...offer, chosen: (chosen + size - 1) % size })
          case "Enter":
          case "Tab":
            return take(list[chosen]!)
          case "Escape":
            return setOffer(null)
        }
      }
      if (event.key === "Enter" && !event.ctrlKey && !event.metaKey)
        return type(`\n${indentAt(value, area.current!)}`)
      return false
    }
    if (act() !== false) {
      event.preventDefault()
      event.stopPropagation()
    }
  }
  const first = Math.max(0, Math.floor(view.top / LINE) - 5)
  const shown = lines.slice(first, first + Math.ceil(view.height / LINE) + 10)
  const wrong = new Map(problems.flatMap(one => (one.line === undefined ? [] : [[one.line, one] as const])))
  const place = offer === null ? null : findPlace(value, offer.from)
  // Below the line there may be no room for the list.
  const isLow = place !== null && (place.line + 1) * LINE - view.top > view.height - MOST_OFFERED * 26
  return (
    <div className="carea">
      <div className="cback code" aria-hidden="true">
        <div style={{ transform: `translateY(${-view.top}px)` }}>
          {shown.map((line, n) => {
            const number = first + n + 1
            const problem = wrong.get(number)
            return (
              <div
                key={number}
                className={problem === undefined ? "cl" : "cl bad"}
                style={{ top: (number - 1) * LINE }}
              >
                <span className="no">{number}</span>
                <span className="ct" style={{ transform: `translateX(${-view.left}px)` }}>
                  {line.length > MOST_COLOURED ? line : colouredLine(line)}
                  {problem?.column !== undefined && (
                    <i className="wave" style={waveBox(line, problem.column, view.character)} />
                  )}
                </span>
              </div>
            )
          })}
        </div>
      </div>
      <textarea
        ref={area}
        className="code"
        aria-label={label}
        aria-invalid={problems.length > 0}
        aria-autocomplete="list"
        aria-controls={offer === null ? undefined : `${id}-list`}
        aria-activedescendant={offer === null ? undefined : `${id}-${offer.chosen}`}
        spellCheck={false}
        autoComplete="off"
        autoCapitalize="off"
        wrap="off"
        value={value}
        onChange={event => {
          onChange(event.target.value)
          look(false)
        }}
        onScroll={read}
        onKeyDown={key}
        onClick={() => setOffer(null)}
        onBlur={() => setOffer(null)}
      />
      {offer !== null && (
        <div
          className="offer"
          role="listbox"
          id={`${id}-list`}
          aria-label="Completion"
          style={{
            left: Math.max(0, place!.column * view.character - view.left) + GUTTER,
            ...(isLow
              ? { bottom: view.height - (place!.line * LINE - view.top + 6) }
              : { top: (place!.line + 1) * LINE - view.top + 10 }),
          }}
        >
          {offer.list.slice(0, MOST_OFFERED).map((one, n) => (
            <div
              key={one.label}
              id={`${id}-${n}`}
              role="option"
              tabIndex={-1}
              aria-selected={n === offer.chosen}
              onPointerDown={event => {
                event.preventDefault()
                take(one)
              }}
            >
              <b className="mono">{one.label}</b>
              <span>{one.detail}</span>
            </div>
          ))}
        </div>
      )}
    </div>
  )
}

/** Of the numbers, with the space beside them. */
const GUTTER = 52

function findPlace(text: string, at: number): { readonly line: number; readonly column: number } {
  const before = text.slice(0, at)
  const line = before.split("\n").length - 1
  return { line, column: at - (before.lastIndexOf("\n") + 1) }
}

function waveBox(line: string, column: number, character: number) {
  const from = column - 1
  const word = /^[\w.-]+|^\S/.exec(line.slice(from))?.[0].length ?? 1
  return { left: from * character, width: word * character }
}

/** That of the line, and deeper after a key or a dash without a value. */
function indentAt(text: string, { selectionStart }: HTMLTextAreaElement): string {
  const line = text.slice(text.lastIndexOf("\n", selectionStart - 1) + 1, selectionStart)
  const [indent = "", dash = ""] =
    /^(\s*)(- +)?/
      .exec(line)
      ?.slice(1)
      .map(part => part ?? "") ?? []
  const own = indent + " ".repeat(dash.length)
  return /:\s*\|?\s*$/.test(line) ? `${own}  ` : own
}
