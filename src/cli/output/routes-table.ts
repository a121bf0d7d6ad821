/** The routes of an execution as a table: queued, in-flight and done messages, and the state of each route. */

import type { PastRoute } from "../../client/index.ts"
import type { RouteView } from "../../core/pipeline/view.ts"
import { duration, type Paint, printable, shorten, width } from "./terminal.ts"

/** At a past moment some counts are not recorded: null. */
export type ShownRoute = RouteView | PastRoute

interface Column {
  readonly title: string
  readonly text: (route: ShownRoute) => string
  readonly style?: (route: ShownRoute, paint: Paint) => (text: string) => string
}

const number = (n: number | null): string => (n === null ? NOTHING : n.toLocaleString("en"))
const plain = (text: string): string => text
const ifAny = (n: number, style: (text: string) => string) => (n > 0 ? style : plain)
const NOTHING = "–"
const LONGEST_NAME = 40

const columns: readonly Column[] = [
  { title: "queued", text: ({ queued }) => number(queued) },
  { title: "in flight", text: ({ in_flight }) => number(in_flight) },
  {
    title: "retrying",
    text: ({ waiting }) => number(waiting),
    style: ({ waiting }, p) => ifAny(waiting, p.yellow),
  },
  { title: "done", text: ({ done }) => number(done), style: ({ done }, p) => ifAny(done, p.green) },
  {
    title: "failed tries",
    text: ({ failed_tries }) => number(failed_tries),
    style: ({ failed_tries }, p) => ifAny(failed_tries, p.yellow),
  },
  {
    title: "failed",
    text: ({ failed }) => number(failed),
    style: ({ failed }, p) => ifAny(failed, p.red),
  },
  { title: "rate", text: ({ rate }) => (!rate ? NOTHING : `${number(rate)}/s`) },
  { title: "latency", text: ({ latency_ms }) => (!latency_ms ? NOTHING : latencyText(latency_ms)) },
  { title: "at once", text: ({ concurrency }) => (concurrency === null ? NOTHING : number(concurrency)) },
]

/** `columns`: width of the terminal; longer lines are cut. */
export function routesTable(routes: readonly ShownRoute[], paint: Paint, room = 1000): string[] {
  const names = routes.map(({ name }) => shorten(printable(name), LONGEST_NAME))
  const first = Math.max(5, ...names.map(width))
  const widths = columns.map(({ title, text }) =>
    Math.max(title.length, ...routes.map(route => text(route).length)),
  )
  const head = columns.map(({ title }, i) => title.padStart(widths[i]!))
  const title = `${"route".padEnd(first)}  ${head.join("  ")}  breaker`
  const used = first + widths.reduce((sum, own) => sum + own + 2, 0)
  // Colours have no width, so a line that may be cut has none.
  if (used + 10 > room)
    return [
      paint.dim(shorten(title, room)),
      ...routes.map((route, i) => shorten(formatRow(route, names[i]!, { first, widths, paint: null }), room)),
    ]
  return [
    paint.dim(title),
    ...routes.map((route, i) => {
      const breaker = shorten(breakerText(route), room - used - 2)
      const shown =
        breaker.startsWith("closed") || breaker === NOTHING ? paint.dim(breaker) : paint.red(breaker)
      return `${formatRow(route, names[i]!, { first, widths, paint })}  ${shown}`
    }),
  ]
}

function formatRow(
  route: ShownRoute,
  name: string,
  { first, widths, paint }: { first: number; widths: readonly number[]; paint: Paint | null },
): string {
  const cells = columns.map(({ text, style }, i) => {
    const padded = text(route).padStart(widths[i]!)
    return paint === null || style === undefined ? padded : style(route, paint)(padded)
  })
  return `${name}${" ".repeat(first - width(name))}  ${cells.join("  ")}`
}

/** Breakers that are not closed, with their adapters. */
function breakerText({ adapters }: ShownRoute): string {
  const states = adapters.filter(({ breaker }) => breaker !== null)
  if (states.length === 0) return NOTHING
  const trouble = states.filter(({ breaker }) => breaker !== "closed")
  if (trouble.length === 0) return "closed"
  return trouble.map(({ type, breaker }) => `${breaker!.replace("_", "-")} (${printable(type)})`).join(", ")
}

export function latencyText(ms: number): string {
  return ms < 10 ? `${ms.toFixed(ms < 0.1 ? 3 : 1)} ms` : duration(ms)
}

/** One route as a line, where no table can be drawn. */
export function routeText({ name, done, queued, in_flight, waiting, failed }: RouteView): string {
  const parts = [
    `${number(done)} done`,
    queued > 0 ? `${number(queued)} queued` : "",
    in_flight > 0 ? `${number(in_flight)} in flight` : "",
    waiting > 0 ? `${number(waiting)} to be retried` : "",
    failed > 0 ? `${number(failed)} failed` : "",
  ]
  return `${printable(name)}: ${parts.filter(Boolean).join(", ")}`
}
