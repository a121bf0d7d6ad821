/** Keys of the dashboard. Single letters are off in fields; a page's keys end with the page. */
import { useEffect, useRef } from "react"

/** A handler that returns false leaves the key to other handlers. */
export type KeyMap = { readonly [key: string]: (event: KeyboardEvent) => unknown }

/** A key is `event.key`, lower case for letters, with `shift+`, `alt+` or `mod+` (Ctrl or ⌘) before it. */
function keyName(event: KeyboardEvent): string {
  const mod = event.metaKey || event.ctrlKey ? "mod+" : ""
  const alt = event.altKey ? "alt+" : ""
  // With Alt some systems type other characters.
  const base = event.altKey && event.code.startsWith("Digit") ? event.code.slice(5) : event.key
  const key = base.length === 1 ? base.toLowerCase() : base
  const isLetter = /^[a-z]$/.test(key)
  return `${mod}${alt}${event.shiftKey && (isLetter || key.length > 1) ? "shift+" : ""}${key}`
}

function isField(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  if (target instanceof HTMLInputElement) return !["range", "checkbox", "button"].includes(target.type)
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement
}

export function useKeys(keys: KeyMap): void {
  const current = useRef(keys)
  current.current = keys
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const name = keyName(event)
      const isAnywhere = name.startsWith("mod+") || name.startsWith("alt+")
      if (event.defaultPrevented || (!isAnywhere && isField(event.target))) return
      // A dialog has its own keys.
      if (document.querySelector("dialog[open]") !== null) return
      const act = current.current[name]
      if (act !== undefined && act(event) !== false) event.preventDefault()
    }
    document.addEventListener("keydown", listen)
    return () => document.removeEventListener("keydown", listen)
  }, [])
}

/** j and k: the focus goes through the rows of a list. */
export function rowKeys(selector: string) {
  const move = (step: number) => {
    const rows = [...document.querySelectorAll<HTMLElement>(selector)]
    const place = rows.indexOf(document.activeElement as HTMLElement)
    rows[Math.min(rows.length - 1, Math.max(0, place + step))]?.focus()
  }
  return { j: () => move(1), k: () => move(-1) }
}
