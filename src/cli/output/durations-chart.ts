/** How long jobs took, over the time of their creation, drawn with characters: both axes as in the dashboard. */
import type { RemoteDurations } from "../../client/index.ts"
import { count, duration, type Paint } from "./terminal.ts"

const COLUMNS = 64
const ROWS = 12

type Point = RemoteDurations["points"][number]

export function durationsChart(
  { from, before, points, jobs, complete }: RemoteDurations,
  paint: Paint,
): string[] {
  if (points.length === 0) return [`No jobs from ${from} to ${before}.`]
  const log = ({ duration_ms }: Point) => Math.log10(duration_ms + 1)
  const low = Math.floor(
    points.reduce((least, point) => Math.min(least, log(point)), Number.POSITIVE_INFINITY),
  )
  const high = Math.max(low + 1, Math.ceil(points.reduce((most, point) => Math.max(most, log(point)), 0)))
  const [begin, end] = [Date.parse(from), Date.parse(before)]
  const cells = new Map<number, { jobs: number; hasFailed: boolean }>()
  for (const point of points) {
    const column = place((Date.parse(point.at) - begin) / (end - begin), COLUMNS)
    const row = place((log(point) - low) / (high - low), ROWS)
    const cell = cells.get(row * COLUMNS + column) ?? { jobs: 0, hasFailed: false }
    cell.jobs += point.count
    cell.hasFailed ||= point.status === "FAILED" || point.status === "EXPIRED"
    cells.set(row * COLUMNS + column, cell)
  }
  const lines: string[] = []
  for (let row = ROWS - 1; row >= 0; row--) {
    const label = duration(10 ** (low + ((row + 0.5) / ROWS) * (high - low)) - 1).padStart(9)
    let line = ""
    for (let column = 0; column < COLUMNS; column++) {
      const cell = cells.get(row * COLUMNS + column)
      if (cell === undefined) line += " "
      else line += cell.hasFailed ? paint.red("x") : cell.jobs === 1 ? "·" : cell.jobs < 10 ? "o" : "O"
    }
    lines.push(`${paint.dim(label)} │${line}`.trimEnd())
  }
  const sample = complete ? "" : ", a sample: the range has more"
  return [
    ...lines,
    `${" ".repeat(10)}└${"─".repeat(COLUMNS)}`,
    `${" ".repeat(11)}${from}${before.padStart(COLUMNS - from.length)}`,
    paint.dim(
      `${count(jobs, "job")}${sample}. · one, o several, O ten or more, x at least one failed or expired`,
    ),
  ]
}

function place(share: number, places: number): number {
  return Math.max(0, Math.min(places - 1, Math.floor(share * places)))
}
