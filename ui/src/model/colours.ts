/** The colours of states for drawing on a canvas, which cannot read custom properties. */
import { nodeStates } from "./node-states.ts"

let cached: { readonly key: string; readonly colours: ReadonlyMap<string, string> } | null = null

function themeKey(): string {
  return document.documentElement.dataset.theme ?? String(matchMedia("(prefers-color-scheme: dark)").matches)
}

/** By the name of the state in lower case, and `edge`, `line`, `accent`. */
export function stateColours(): ReadonlyMap<string, string> {
  const key = themeKey()
  if (cached?.key === key) return cached.colours
  const probe = document.createElement("div")
  document.body.append(probe)
  const colours = new Map<string, string>()
  for (const state of nodeStates) {
    probe.dataset.s = state
    probe.style.color = "var(--fill)"
    colours.set(state, getComputedStyle(probe).color)
  }
  for (const name of ["edge", "pressed", "accent", "ink-3"]) {
    probe.style.color = `var(--${name})`
    colours.set(name, getComputedStyle(probe).color)
  }
  probe.remove()
  cached = { key, colours }
  return colours
}
