/** Why the routes of a pipeline make no progress. */
import { routesBehind } from "../../core/pipeline/flow.ts"
import type { RouteView } from "../../core/pipeline/view.ts"
import type { PipelinePlan } from "../../definition/pipeline/plan.ts"
import type { ReasonKind } from "./reasons.ts"

export interface RouteReason {
  readonly route: string
  readonly kind: ReasonKind
  readonly queued: number
  readonly sentence: string
  readonly action: string | null
}

/** What is known of the execution besides its routes. */
export interface ExecutionFacts {
  /** By route: messages that are not settled, those in flight included. They count against `max_queued`. */
  readonly unsettled: readonly number[]
  /** Why no message of it is processed; null: a live process runs it. */
  readonly stopped: { readonly kind: ReasonKind; readonly action: string | null } | null
}

/** Routes that have messages. */
export function routeReasons(
  { routes: plans }: PipelinePlan,
  views: readonly RouteView[],
  { unsettled, stopped }: ExecutionFacts,
): RouteReason[] {
  const behind = routesBehind(plans)
  const isFull = (route: number) => (unsettled[route] ?? 0) >= plans[route]!.backpressure.maxQueued
  return views.flatMap((view, position) => {
    if (view.queued + view.in_flight + view.waiting === 0) return []
    const full = behind[position]!.find(isFull)
    const { kind, text, action } =
      stopped === null
        ? reason(view, { full: full === undefined ? null : views[full]!.name, rate: plans[position]!.rate })
        : { ...stopped, text: stoppedText(stopped.kind) }
    const sentence = `Route ${view.name}: ${text} (${view.queued} queued, ${view.in_flight} in flight, ${view.waiting} waiting).`
    return [{ route: view.name, kind, queued: view.queued, sentence, action }]
  })
}

function stoppedText(kind: ReasonKind): string {
  if (kind === "store_away") return "the database does not answer"
  return kind === "paused" ? "the job is paused" : "no process runs the execution"
}

interface Found {
  readonly kind: ReasonKind
  readonly text: string
  readonly action: string | null
}

function reason(
  view: RouteView,
  { full, rate }: { readonly full: string | null; readonly rate: number | null },
): Found {
  const open = view.adapters.find(({ breaker }) => breaker === "open")
  if (open !== undefined) {
    const action = `Check what adapter ${open.type} calls: the breaker closes by itself when it works again.`
    return { kind: "breaker", text: `the circuit breaker of adapter ${open.type} is open`, action }
  }
  if (full !== null) {
    const action = `See route ${full}, or raise its max_queued.`
    return { kind: "backpressure", text: `route ${full} behind it has too many queued messages`, action }
  }
  if (view.concurrency !== null && view.in_flight >= view.concurrency)
    return {
      kind: "worker_busy",
      text: `its concurrency of ${view.concurrency} is used`,
      action: "Raise the concurrency of the route.",
    }
  if (view.queued === 0 && view.in_flight === 0)
    return { kind: "retry", text: "its messages wait to be retried", action: null }
  if (rate !== null && view.queued > 0)
    return {
      kind: "rate",
      text: `its rate is ${rate} messages a second`,
      action: "Raise the rate of the route.",
    }
  return { kind: "running", text: "it is processing messages", action: null }
}
