/** What the list shows: lines of handlers, with what the engine did and what is missing between them. */
import type { EngineLines, LogLine, LogReader } from "./reader.ts"

export interface LogRow {
  readonly key: string
  readonly kind: "handler" | "engine" | "gap"
  readonly at: number
  readonly level: string
  readonly text: string
  readonly fields: string
  /** Of a handler's line. */
  readonly line: LogLine | null
}

/** `until`: only what was logged up to this time; null: all. */
export function logRows(
  { lines, older, hasNewer }: Pick<LogReader, "lines" | "older" | "hasNewer">,
  engine: EngineLines["lines"],
  until: number | null,
): LogRow[] {
  const shown = until === null ? lines : lines.filter(({ at }) => at <= until)
  const isCut = shown.length < lines.length
  const [first, last] = [shown[0], shown.at(-1)]
  const waiting = placed(engine.filter(({ at }) => until === null || at <= until)).filter(
    ({ place }) =>
      (older === null || (first !== undefined && place > first.at)) &&
      (isCut || !hasNewer || (last !== undefined && place <= last.at)),
  )
  const rows: LogRow[] = []
  let next = 0
  let before: LogLine | null = null
  for (const line of shown) {
    for (; next < waiting.length && waiting[next]!.place <= line.at; next++) rows.push(waiting[next]!.row)
    const gap = missing(before, line)
    if (gap !== null)
      rows.push({ ...gap, key: `${line.id} gap`, kind: "gap", at: line.at, fields: "", line: null })
    const { id: key, at, level, message: text } = line
    rows.push({ key, kind: "handler", at, level, text, fields: formatFields(line), line })
    before = line
  }
  return [...rows, ...waiting.slice(next).map(({ row }) => row)]
}

/** Starts stand before all lines of the attempt, and ends after them, whatever the clock of its worker says. */
function placed(engine: EngineLines["lines"]): { place: number; row: LogRow }[] {
  const started = engine.findIndex(({ message }) => message.startsWith("started"))
  return engine.flatMap(({ id, at, level, message, lost }, index) => {
    const place =
      index <= started || message.startsWith("dispatched")
        ? 0
        : /^(completed|failed|cancelled|lost)/.test(message) || lost !== undefined
          ? Number.POSITIVE_INFINITY
          : at
    const row = {
      key: `engine ${id}`,
      kind: "engine",
      at,
      level,
      text: message,
      fields: "",
      line: null,
    } as const
    const gap = {
      ...row,
      key: `${row.key} gap`,
      kind: "gap",
      level: "warn",
      text: lostText(lost ?? 0),
    } as const
    return (lost === undefined ? [row] : [gap, row]).map(shown => ({ place, row: shown }))
  })
}

const lostText = (lost: number) => `${lost} ${lost === 1 ? "line was" : "lines were"} lost`

function missing(
  before: LogLine | null,
  { line = 0, item, lost = 0 }: LogLine,
): Pick<LogRow, "text" | "level"> | null {
  if (lost > 0) return { text: lostText(lost), level: "warn" }
  if (before === null || before.item !== item || (before.line ?? 0) < line) return null
  return { text: "The attempt restarts in another process", level: "info" }
}

/** Short ones in one line; those of several lines stay whole. */
function formatFields({ fields = {} }: LogLine): string {
  const named = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  )
  const isLong = (text: string) => text.includes("\n")
  return [named.filter(text => !isLong(text)).join("  "), ...named.filter(isLong)]
    .filter(text => text !== "")
    .join("\n")
}

/** The numbers of the rows that contain the text. */
export function findMatches(rows: readonly LogRow[], search: string): number[] {
  const wanted = search.toLowerCase()
  if (wanted === "") return []
  return rows.flatMap(({ text, fields }, index) =>
    `${text}\n${fields}`.toLowerCase().includes(wanted) ? [index] : [],
  )
}

export function formatRows(rows: readonly LogRow[]): string {
  return rows
    .map(({ kind, at, level, text, fields }) => {
      const head = `${new Date(at).toISOString()} ${level.toUpperCase().padEnd(5)} ${kind === "handler" ? " " : "*"} `
      const all = [text, fields].filter(part => part !== "").join("\n")
      return `${head}${all.replaceAll("\n", "\n    ")}`
    })
    .join("\n")
}
