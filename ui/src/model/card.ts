/** What a card of the graph shows: plain texts, so that an unchanged card is recognized by comparison. */
import type { CompiledNode, NodeView } from "../../../src/core/index.ts"
import { count, duration, elapsed } from "./format.ts"

export interface Card {
  readonly status: NodeView["status"]
  /** Beside the name. */
  readonly extra: string
  readonly isBad: boolean
  /** What matters most in this state, and one figure. */
  readonly left: string
  readonly right: string
  /** For a list: `completed 3, failed 1`, in the order of the bar. */
  readonly items: string
}

/** In the order of the segmented bar. */
export const itemStates = [
  "completed",
  "running",
  "waiting",
  "queued",
  "failed",
  "cancelled",
  "skipped",
  "pending",
] as const

export function buildCard(node: NodeView, compiled: CompiledNode, now: number): Card {
  const [left, right, isBad = false] = cardLines(node, compiled, now)
  const retried = node.attempt > 1 ? `${node.attempt} of ${node.max_attempts}` : ""
  const total = node.items === undefined ? "" : `×${count(node.items.total)}`
  const extra =
    total || (node.status === "PENDING" || retried === "" ? "" : node.status === "COMPLETED" ? "↻" : retried)
  const items = node.items === undefined ? "" : itemStates.map(state => node.items?.[state] ?? 0).join(",")
  return { status: node.status, extra, isBad, left, right, items }
}

function cardLines(node: NodeView, compiled: CompiledNode, now: number): readonly [string, string, boolean?] {
  const kind = compiled.provider ?? handlerKind(compiled.handler)
  switch (node.status) {
    case "COMPLETED":
      return [kind, formatTimeTaken(node)]
    case "RUNNING": {
      const percent = node.progress?.percent
      const from = node.items === undefined ? node.started_at : node.queued_at
      const since = from === null ? "" : elapsed(now - from)
      return [percent == null ? kind : `${Math.round(percent)} %`, since]
    }
    case "FAILED": {
      const cause = node.error?.node
      if (cause !== undefined && cause !== node.id) return [`${cause} failed`, "", true]
      return [node.error?.code ?? kind, formatTimeTaken(node), true]
    }
    case "SKIPPED":
      return ["skipped", ""]
    case "CANCELLED":
      return ["cancelled", formatTimeTaken(node)]
    case "PENDING": {
      if (node.waiting_on?.kind === "start_time")
        return ["starts", `in ${elapsed(node.waiting_on.until - now)}`]
      const open = node.waiting_on?.kind === "dependencies" ? node.incoming : 0
      return [kind, open > 1 ? `${open} to go` : ""]
    }
    default:
      return waitLines(node, kind, now)
  }
}

function waitLines(node: NodeView, kind: string, now: number): readonly [string, string, boolean?] {
  const waiting = node.waiting_on
  const since = node.queued_at === null ? "" : elapsed(now - node.queued_at)
  switch (waiting?.kind) {
    case "retry":
      return [`retry in ${elapsed(waiting.at - now)}`, "", true]
    case "slot":
      return [
        `slot of ${waiting.provider}${waiting.position === null ? "" : `, ${waiting.position}.`}`,
        since,
      ]
    case "timer":
      return ["sleeps", elapsed(waiting.until - now)]
    case "signal":
      return [`signal ${waiting.name}`, since]
    case "child":
      return [`${waiting.workflow} v${waiting.workflow_version}`, since]
    case "external":
      return [waiting.provider, since]
    case "items":
      return [`${count(waiting.waiting)} wait`, since]
    case "executions":
      return ["waits for a free execution", since]
    case "worker":
      return waiting.reason === "none"
        ? ["no worker", since, true]
        : [kind, node.status === "QUEUED" ? "queued" : since]
    case "paused":
      return ["paused", elapsed(now - waiting.at)]
    case "rate":
      return [`rate of ${waiting.provider}`, since]
    default:
      return [kind, since]
  }
}

function formatTimeTaken({ duration_ms, waited_ms, finished_at, queued_at, items }: NodeView): string {
  if (items !== undefined && finished_at !== null && queued_at !== null)
    return duration(finished_at - queued_at)
  if (duration_ms === null) return ""
  return duration(duration_ms + (waited_ms ?? 0))
}

const kinds: { readonly [handler: string]: string } = {
  call_external_service: "http",
  wait_for_signal: "signal",
  llm_service: "llm",
  run_workflow: "workflow",
}

function handlerKind(handler: string): string {
  return kinds[handler] ?? handler
}
