/**
 * Bar charts as SVG: one panel per workload, one bar per peer, the best on top, a line for the spread. The colours follow the reader's
 * light or dark theme, also where a page shows the file as an image.
 */
import { type Figure, figureOf, format, isBetter, type PeerWorkload, type Run } from "./peers-run.ts"

const WIDTH = 760
const LABEL = 170
const VALUE = 110
const BAR = 16
const GAP = 6
const HEAD = 34
const BETWEEN = 18

const STYLE = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 13px }
  .note { fill: #59636e }
  .bar { fill: #9aa4af } .ours { fill: #0969da }
  .spread { stroke: #1f2328; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .note { fill: #9198a1 }
    .bar { fill: #59636e } .ours { fill: #4493f8 }
    .spread { stroke: #e6edf3 }
  }`

export function plot(run: Run, workloads: readonly PeerWorkload[]): string {
  let y = 0
  const panels = workloads.map(workload => {
    const panel = panelOf(run, workload, y)
    y += panel.height + BETWEEN
    return panel.text
  })
  const height = y - BETWEEN + 8
  const title = workloads.map(workload => workload.title).join("; ")
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">
<title>${escaped(title)}</title>
<style>${STYLE}
</style>
${panels.join("\n")}
</svg>
`
}

interface Bar {
  readonly title: string
  readonly isOurs: boolean
  readonly figure: Figure | null
}

function panelOf(run: Run, workload: PeerWorkload, top: number): { text: string; height: number } {
  const bars = run.peers
    .map((peer): Bar => {
      const isOurs = peer.name.startsWith("umbra")
      return { title: peer.title, isOurs, figure: figureOf(peer, workload) }
    })
    .sort((a, b) => order(workload, a, b))
  const most = Math.max(...bars.map(({ figure }) => figure?.most ?? 0))
  const scale = (value: number) => (value / most) * (WIDTH - LABEL - VALUE)
  const better = workload.unit === "ms" ? "milliseconds, less is better" : "steps per second, more is better"
  const heading = `<text class="title" x="0" y="${top + 16}">${escaped(workload.title)} <tspan class="note" font-weight="400">${better}</tspan></text>`
  const rows = bars.map((bar, i) => rowOf(bar, { y: top + HEAD + i * (BAR + GAP), workload, scale }))
  return { text: [heading, ...rows].join("\n"), height: HEAD + bars.length * (BAR + GAP) }
}

function order(workload: PeerWorkload, a: Bar, b: Bar): number {
  if (a.figure === null || b.figure === null) return (a.figure === null ? 1 : 0) - (b.figure === null ? 1 : 0)
  return isBetter(workload, a.figure.median, b.figure.median) ? -1 : 1
}

interface Place {
  readonly y: number
  readonly workload: PeerWorkload
  readonly scale: (value: number) => number
}

function rowOf({ title, isOurs, figure }: Bar, { y, workload, scale }: Place): string {
  const [middle, text] = [y + BAR / 2, y + BAR - 4]
  const label = `<text x="${LABEL - 8}" y="${text}" text-anchor="end">${escaped(title)}</text>`
  if (figure === null) return `${label}<text class="note" x="${LABEL}" y="${text}">no result</text>`
  const at = (value: number) => (LABEL + scale(value)).toFixed(1)
  const bar = `<rect class="${isOurs ? "bar ours" : "bar"}" x="${LABEL}" y="${y}" width="${scale(figure.median).toFixed(1)}" height="${BAR}" rx="2"/>`
  const spread = `<line class="spread" x1="${at(figure.least)}" x2="${at(figure.most)}" y1="${middle}" y2="${middle}"/>`
  const value = `<text x="${(LABEL + scale(figure.most) + 8).toFixed(1)}" y="${text}">${format(workload, figure.median)}</text>`
  return [label, bar, spread, value].join("")
}

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
