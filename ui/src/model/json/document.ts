/**
 * A JSON value as rows of a tree. Only requested rows are made, so a document of 20 MB costs what is visible. Large
 * documents live in a worker (json-worker.ts); the page sees rows.
 */
export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue }

/** Where a document comes from: a request, or a value at hand. */
export type JsonSource =
  | { readonly address: string; readonly headers: Readonly<Record<string, string>> }
  | { readonly value: JsonValue }

export interface JsonRow {
  /** A JSON path: `$.scenes[0]["shot list"]`. */
  readonly path: string
  readonly depth: number
  /** The key, or the index in a list; null for the whole document. */
  readonly name: string | null
  readonly kind: "text" | "number" | "word" | "list" | "mapping"
  /** The value as JSON, cut if it is long; of a list or mapping the number of its entries. */
  readonly text: string
  /** Characters that were cut off. */
  readonly cut: number
  readonly isOpen: boolean
  readonly canOpen: boolean
}

/** Longer texts are cut in a row; they can be copied whole. */
const MOST_CHARACTERS = 400
/** Entries of lists and mappings that a search visits. */
const MOST_VISITED = 2_000_000
const MOST_FOUND = 1000

interface Node {
  readonly value: JsonValue
  readonly path: string
  readonly depth: number
  readonly name: string | null
  /** Rows of this node and what is open below it. */
  rows: number
  children: Node[] | null
}

export class JsonDocument {
  readonly #root: Node

  constructor(value: JsonValue) {
    this.#root = { value, path: "$", depth: 0, name: null, rows: 1, children: null }
    if (countEntries(value) > 0) this.#open(this.#root)
    // The first level of a small document is opened too.
    for (const child of this.#root.children ?? [])
      if (
        this.#root.children!.length <= 20 &&
        countEntries(child.value) > 0 &&
        countEntries(child.value) <= 12
      )
        this.#open(child)
    this.#count(this.#root)
  }

  get length(): number {
    return this.#root.rows
  }

  rows(from: number, to: number): JsonRow[] {
    const found: JsonRow[] = []
    collect(this.#root, from, to, 0, found)
    return found
  }

  toggle(path: string): void {
    const node = this.#find(path)
    if (node === null) return
    if (node.children === null) this.#open(node)
    else node.children = null
    this.#count(this.#root)
  }

  /** Paths of entries whose key or text contains the words; the entries above them are opened. */
  search(text: string): readonly string[] {
    const wanted = text.toLowerCase()
    const found: string[] = []
    let visited = 0
    const visit = (value: JsonValue, path: string, name: string | null) => {
      if (found.length >= MOST_FOUND || visited++ > MOST_VISITED) return
      const isMatch =
        name?.toLowerCase().includes(wanted) ||
        (typeof value !== "object" && String(value).toLowerCase().includes(wanted))
      if (isMatch) found.push(path)
      for (const [key, child] of listChildren(value)) visit(child, childPath(path, key), String(key))
    }
    if (wanted !== "") visit(this.#root.value, "$", null)
    return found
  }

  /** Opens what is above an entry, and returns its row. */
  reveal(path: string): number {
    let node = this.#root
    for (;;) {
      if (node.path === path) break
      if (node.children === null) this.#open(node)
      const next = node.children!.find(child => path === child.path || isBelow(path, child.path))
      if (next === undefined) return 0
      node = next
    }
    this.#count(this.#root)
    return this.#rowIndex(path)
  }

  /** The whole value of an entry, as text. */
  entryText(path: string): string {
    const node = this.#find(path)
    if (node === null) return ""
    return typeof node.value === "string" ? node.value : JSON.stringify(node.value, null, 2)
  }

  #rowIndex(path: string): number {
    let row = 0
    let node = this.#root
    while (node.path !== path) {
      row++
      const next = (node.children ?? []).find(child => {
        if (child.path === path || isBelow(path, child.path)) return true
        row += child.rows
        return false
      })
      if (next === undefined) return row
      node = next
    }
    return row
  }

  #find(path: string): Node | null {
    let node: Node | undefined = this.#root
    while (node !== undefined && node.path !== path)
      node = node.children?.find(child => path === child.path || isBelow(path, child.path))
    return node ?? null
  }

  #open(node: Node): void {
    node.children = listChildren(node.value).map(([key, value]) => ({
      value,
      path: childPath(node.path, key),
      depth: node.depth + 1,
      name: String(key),
      rows: 1,
      children: null,
    }))
  }

  #count(node: Node): number {
    node.rows =
      1 +
      (node.children ?? []).reduce(
        (sum, child) => sum + (child.children === null ? 1 : this.#count(child)),
        0,
      )
    for (const child of node.children ?? []) if (child.children === null) child.rows = 1
    return node.rows
  }
}

function collect(node: Node, from: number, to: number, at: number, found: JsonRow[]): void {
  if (at >= to || at + node.rows <= from) return
  if (at >= from) found.push(toRow(node))
  let next = at + 1
  for (const child of node.children ?? []) {
    if (next >= to) return
    if (next + child.rows > from) collect(child, from, to, next, found)
    next += child.rows
  }
}

function toRow({ value, path, depth, name, children }: Node): JsonRow {
  const place = { path, depth, name, isOpen: children !== null, canOpen: countEntries(value) > 0 }
  if (Array.isArray(value)) return { ...place, kind: "list", text: `${value.length}`, cut: 0 }
  if (typeof value === "object" && value !== null)
    return { ...place, kind: "mapping", text: `${Object.keys(value).length}`, cut: 0 }
  if (typeof value === "string") {
    const cut = Math.max(0, value.length - MOST_CHARACTERS)
    return {
      ...place,
      kind: "text",
      text: JSON.stringify(cut > 0 ? value.slice(0, MOST_CHARACTERS) : value),
      cut,
    }
  }
  return {
    ...place,
    kind: typeof value === "number" ? "number" : "word",
    text: JSON.stringify(value),
    cut: 0,
  }
}

function listChildren(value: JsonValue): (readonly [string | number, JsonValue])[] {
  if (Array.isArray(value)) return value.map((entry, index) => [index, entry] as const)
  return typeof value === "object" && value !== null ? Object.entries(value) : []
}

function countEntries(value: JsonValue): number {
  if (Array.isArray(value)) return value.length
  return typeof value === "object" && value !== null ? Object.keys(value).length : 0
}

function childPath(path: string, key: string | number): string {
  if (typeof key === "number") return `${path}[${key}]`
  return /^[A-Za-z_]\w*$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`
}

function isBelow(path: string, above: string): boolean {
  return path.startsWith(above) && (path[above.length] === "." || path[above.length] === "[")
}
