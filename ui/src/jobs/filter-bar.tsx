/** The filters as chips, and a field that adds one: keys and values are offered while typing. */
import { useQuery } from "@tanstack/react-query"
import { type KeyboardEvent, useRef, useState } from "react"
import { ask } from "../api/http.ts"
import { Icon } from "../shell/icons.tsx"
import { useKeys } from "../shell/keys.ts"
import { type Filter, type FilterKey, filterTexts, isFilterKey, parseFilter, statuses } from "./filters.ts"

interface FilterBarProps {
  readonly filters: readonly Filter[]
  readonly note: string
  readonly onChange: (filters: readonly Filter[]) => void
}

const MOST = 10

export function FilterBar({ filters, note, onChange }: FilterBarProps) {
  const [text, setText] = useState("")
  const [error, setError] = useState<string | null>(null)
  const [isOpen, setOpen] = useState(false)
  const [place, setPlace] = useState(-1)
  const field = useRef<HTMLInputElement>(null)
  const offers = useOffers(text, isOpen)
  useKeys({ "/": () => field.current?.focus() })
  const add = (typed: string) => {
    const filter = parseFilter(typed)
    if (typeof filter === "string") return setError(filter)
    setText("")
    setError(null)
    setPlace(-1)
    onChange([...filters, filter])
  }
  const take = (offer: string) => {
    const isValue = offer.includes(" ")
    if (isValue) add(offer)
    else setText(`${offer} `)
    field.current?.focus()
  }
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined && offers.length > 0) {
      event.preventDefault()
      setPlace((place + step + offers.length) % offers.length)
    } else if (event.key === "Enter" && (text.trim() !== "" || place >= 0)) {
      event.preventDefault()
      if (place >= 0 && offers[place] !== undefined) take(offers[place])
      else add(text)
    } else if (
      event.key === "Tab" &&
      offers[0] !== undefined &&
      text.trim() !== "" &&
      offers[Math.max(0, place)] !== text
    ) {
      event.preventDefault()
      take(offers[Math.max(0, place)]!)
    } else if (event.key === "Backspace" && text === "" && filters.length > 0) onChange(filters.slice(0, -1))
    else if (event.key === "Escape") {
      setOpen(false)
      field.current?.blur()
    }
  }
  return (
    <div className="qwrap">
      <div className="qbar">
        <Icon name="filter" />
        {filters.map((filter, n) => (
          <span key={`${filter.key} ${filter.value}`} className="chip">
            <span className="k">{filter.key}</span>
            <span className="op">{filterOperator(filter)}</span>
            <span className="v">{filter.value}</span>
            <button
              type="button"
              aria-label={`Remove ${filter.key} ${filter.value}`}
              onClick={() => onChange(filters.filter((_, other) => other !== n))}
            >
              <Icon name="close" small />
            </button>
          </span>
        ))}
        <input
          ref={field}
          className="qin"
          value={text}
          placeholder={
            filters.length === 0 ? "Filter: status, workflow, label, error, duration, started" : "and"
          }
          aria-label="Add a filter"
          aria-invalid={error !== null}
          aria-describedby={error === null ? undefined : "filter-error"}
          role="combobox"
          aria-expanded={isOpen && offers.length > 0}
          aria-controls="filter-offers"
          aria-activedescendant={place >= 0 ? `offer-${place}` : undefined}
          autoComplete="off"
          spellCheck={false}
          onFocus={() => setOpen(true)}
          onBlur={() => setOpen(false)}
          onChange={event => {
            setText(event.target.value)
            setError(null)
            setPlace(-1)
          }}
          onKeyDown={press}
        />
        <span className="small dim nowrap hide-s">{note}</span>
        {filters.length > 0 && (
          <button className="btn ghost sm" type="button" onClick={() => onChange([])}>
            Clear
          </button>
        )}
        <kbd className="hide-s">/</kbd>
      </div>
      <div
        className={isOpen && offers.length > 0 ? "menu offers" : "hidden"}
        id="filter-offers"
        role="listbox"
        aria-label="Filters"
      >
        {offers.map((offer, n) => (
          <div
            key={offer}
            id={`offer-${n}`}
            role="option"
            tabIndex={-1}
            aria-selected={n === place}
            className="po"
            onPointerDown={event => event.preventDefault()}
            onClick={() => take(offer)}
          >
            <span className="l">{offer}</span>
            {isFilterKey(offer) && (
              <span className="d">{`${filterTexts[offer].operator} ${filterTexts[offer].example}`}</span>
            )}
          </div>
        ))}
      </div>
      {error !== null && (
        <p className="small t-failed qerr" id="filter-error" role="alert">
          {error}
        </p>
      )}
    </div>
  )
}

function filterOperator({ key, value }: Filter): string {
  return key === "started" && !/^\d+ ?(min|h|d)$/.test(value) ? "since" : filterTexts[key].operator
}

const values: { readonly [key in FilterKey]?: readonly string[] } = {
  status: statuses,
  started: ["15 min", "1 h", "6 h", "24 h", "7 d"],
  duration: ["1 s", "10 s", "1 min", "10 min", "1 h"],
  parent: ["none"],
}

/** What the text can be completed to: keys, then `key value`. */
function useOffers(text: string, isOpen: boolean): readonly string[] {
  const [, key = "", rest = ""] = /^(\w*)\s*[:=>]?\s*(.*)$/.exec(text) ?? []
  const hasKey = isFilterKey(key) && /[\s:=>]/.test(text)
  const workflows = useQuery({
    queryKey: ["workflows"],
    queryFn: ({ signal }) =>
      ask<{ readonly workflows: readonly { readonly name: string }[] }>("/workflows", {
        query: { limit: 100 },
        signal,
      }),
    enabled: isOpen && hasKey && key === "workflow",
    staleTime: 60_000,
  })
  if (!hasKey)
    return (Object.keys(filterTexts) as FilterKey[])
      .filter(name => name.startsWith(key.toLowerCase()))
      .slice(0, MOST)
  const offered =
    key === "workflow"
      ? (workflows.data?.workflows ?? []).map(({ name }) => name)
      : (values[key as FilterKey] ?? [])
  return offered
    .filter(value => value.toLowerCase().startsWith(rest.toLowerCase()))
    .slice(0, MOST)
    .map(value => `${key} ${value}`)
}
