/** Light or dark: as the system, unless a person chose one here. Also media queries and the storage of the browser. */
import { useSyncExternalStore } from "react"

const KEY = "umbra.theme"

export function applyTheme(): void {
  const chosen = read(KEY)
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen
}

export function toggleTheme(): void {
  const { dataset } = document.documentElement
  const isDark =
    dataset.theme === undefined
      ? matchMedia("(prefers-color-scheme: dark)").matches
      : dataset.theme === "dark"
  dataset.theme = isDark ? "light" : "dark"
  write(KEY, dataset.theme)
}

export const NARROW = "(max-width: 720px)"

export function useMedia(query: string): boolean {
  return useSyncExternalStore(
    listener => {
      const media = matchMedia(query)
      media.addEventListener("change", listener)
      return () => media.removeEventListener("change", listener)
    },
    () => matchMedia(query).matches,
  )
}

/** Storage of the browser; it may be turned off. */
export function read(key: string): string | null {
  try {
    return localStorage.getItem(key)
  } catch {
    return null
  }
}

export function write(key: string, value: string): void {
  try {
    localStorage.setItem(key, value)
  } catch {
    // Then the choice lasts until the page is closed.
  }
}
