/** Views: filters with a name, kept in this browser; their address can be shared. */
import { read, write } from "../shell/theme.ts"

export interface SavedView {
  readonly name: string
  /** The parameters of the address. */
  readonly query: string
}

const KEY = "umbra.views"

export const builtIn: readonly SavedView[] = [
  { name: "All", query: "" },
  { name: "Failed", query: "status=FAILED" },
  {
    name: "Unfinished",
    query: "status=PENDING&status=QUEUED&status=DISPATCHING&status=PROCESSING&status=PREVIEW",
  },
]

export function savedViews(): readonly SavedView[] {
  try {
    const found = JSON.parse(read(KEY) ?? "[]") as readonly SavedView[]
    return Array.isArray(found)
      ? found.filter(({ name, query }) => typeof name === "string" && typeof query === "string")
      : []
  } catch {
    return []
  }
}

export function saveView(view: SavedView): void {
  write(KEY, JSON.stringify([...savedViews().filter(({ name }) => name !== view.name), view]))
}

export function removeView(name: string): void {
  write(KEY, JSON.stringify(savedViews().filter(view => view.name !== name)))
}
