/** The state of a route, in a mark, a word and a sentence. */

import type { Status } from "../shell/icons.tsx"
import { count, counted } from "./format.ts"
import type { Route } from "./source.ts"

export function routeState(
  { queued, in_flight, waiting, failed, done, held_up_by, adapters }: Route,
  hasEnded: boolean,
): readonly [Status, string] {
  const open = queued + (in_flight ?? 0) + waiting
  if (hasEnded && open > 0) return ["CANCELLED", "stopped"]
  if (!hasEnded && adapters.some(({ breaker }) => breaker === "open")) return ["FAILED", "breaker open"]
  if (held_up_by !== null) return ["WAITING", "held up"]
  if ((in_flight ?? 0) > 0) return ["RUNNING", "running"]
  if (queued > 0) return ["QUEUED", "queued"]
  if (waiting > 0) return ["WAITING", "waiting"]
  if (failed > 0) return ["FAILED", "has failures"]
  return done > 0 ? ["COMPLETED", hasEnded ? "done" : "idle"] : ["PENDING", "no message yet"]
}

/** One sentence: what holds it up, or what it has done. */
export function routeWords(
  route: Route,
  hasEnded: boolean,
): { readonly text: string; readonly tone: string } {
  const { held_up_by, adapters, in_flight, concurrency, waiting, queued, failed, done } = route
  const open = hasEnded ? undefined : adapters.find(({ breaker }) => breaker === "open")
  if (open !== undefined) return { text: `Breaker of ${open.type} open`, tone: "t-failed" }
  if (held_up_by !== null) return { text: `Waits: ${held_up_by} is full`, tone: "t-waiting" }
  if (waiting > 0 && queued === 0 && (in_flight ?? 0) === 0)
    return { text: `${counted(waiting, "message")} to be retried`, tone: "t-waiting" }
  if (failed > 0) return { text: `${count(done)} done, ${count(failed)} failed`, tone: "t-failed" }
  if (concurrency !== null && in_flight !== null && in_flight >= concurrency && queued > 0)
    return { text: "All slots are in use", tone: "" }
  return { text: `${count(done)} done`, tone: "dim" }
}

/** The route at which backpressure begins: others wait for it, and it waits for none. */
export function pressureStart(routes: readonly Route[]): string | null {
  const held = new Map(routes.map(({ name, held_up_by }) => [name, held_up_by]))
  for (const { held_up_by } of routes) {
    let place = held_up_by
    const seen = new Set<string>()
    while (place !== null && held.get(place) != null && !seen.has(place)) {
      seen.add(place)
      place = held.get(place)!
    }
    if (place !== null) return place
  }
  return null
}

export function rateText(rate: number): string {
  return rate === 0 ? "0" : rate < 10 ? rate.toPrecision(2) : count(Math.round(rate))
}
