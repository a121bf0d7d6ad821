/** A job as plain lines, one per event that matters: for pipes, files and CI. */

import type { RemoteEvent } from "../../client/index.ts"
import type { Json, JsonObject } from "../../core/json.ts"
import { duration, type Paint, printable } from "../output/terminal.ts"
import { type Board, faultText, waitingText } from "./board.ts"

/** undefined: the event is a consequence of one that was printed. Call this after the board has processed it. */
export function formatEvent(event: RemoteEvent, board: Board, paint: Paint): string | undefined {
  const told = event.node === undefined ? jobLine(event, paint) : nodeLine(event, board, paint)
  return told === undefined ? undefined : `${paint.dim(event.at)} ${told}`
}

function nodeLine(event: RemoteEvent, board: Board, paint: Paint): string | undefined {
  const name = printable(event.item === undefined ? event.node! : `${event.node}[${event.item}]`)
  const { payload, attempt = 1 } = event
  const nth = attempt > 1 ? ` (attempt ${attempt})` : ""
  switch (event.type) {
    case "node.running":
      // Only for running nodes: a start that is reported together with its end needs no line.
      return payload.started_at === undefined ? undefined : `${paint.cyan("▸")} ${name} is running${nth}`
    case "node.completed":
      return `${deadLettered(payload.output) > 0 ? paint.yellow("⚠") : paint.green("✓")} ${name} completed${took(event, board)}${nth}`
    case "node.skipped":
      return `– ${name} skipped`
    case "node.cancelled":
      // Nodes that were not ready are cancelled too; they did nothing. The line of the job has the reason.
      return event.from === "PENDING"
        ? undefined
        : `${paint.yellow("⊘")} ${name} cancelled${took(event, board, "after")}${nth}`
    case "node.waiting":
      return `◔ ${name} ${printable(waitingText(payload))}`
    case "node.queued":
    case "item.queued":
      return queuedLine(event, name, paint)
    case "attempt.lost":
      return event.payload.handed_over
        ? `${paint.yellow("↻")} ${name} is started again: the process that ran it has ended`
        : `${paint.yellow("↻")} ${name} was lost with the process that ran it`
    case "node.failed":
    case "item.failed":
      return payload.cause === undefined
        ? `${paint.red("✗")} ${name} failed${nth}: ${printable(faultText(payload))}`
        : undefined
    default:
      return undefined
  }
}

/** Messages that failed permanently in all routes, for a pipeline or for a node that ran one. */
function deadLettered(output: Json | undefined): number {
  const routes = (output as { routes?: JsonObject } | null | undefined)?.routes
  if (typeof routes !== "object" || routes === null) return 0
  let dead = 0
  for (const route of Object.values(routes)) {
    const count = (route as { dead_lettered?: Json } | null)?.dead_lettered
    if (typeof count === "number") dead += count
  }
  return dead
}

function queuedLine({ payload, at }: RemoteEvent, name: string, paint: Paint): string | undefined {
  if (payload.reason === "executions")
    return `${paint.yellow("◔")} ${name} waits because ${payload.limit} executions are running (max_executions)`
  const wait = duration(Date.parse(String(payload.retry_at)) - Date.parse(at))
  if (payload.reason === "postponed")
    return `${paint.yellow("↻")} ${name} was postponed, next attempt in ${wait}: ${printable(faultText(payload))}`
  if (payload.reason !== "retry") return undefined
  return `${paint.yellow("↻")} ${name} failed, next attempt in ${wait}: ${printable(faultText(payload))}`
}

function took({ at, node }: RemoteEvent, board: Board, word = "in"): string {
  const { since, ranMs } = board.node(node!)
  return since === null ? "" : ` ${word} ${duration(ranMs ?? Date.parse(at) - since)}`
}

function jobLine(event: RemoteEvent, paint: Paint): string | undefined {
  const { type, payload } = event
  switch (type) {
    case "job.pending":
      return `job ${event.correlation_id} of ${payload.workflow} ${payload.workflow_version === null ? "with a changed definition" : `version ${payload.workflow_version}`} submitted${payload.start_at === undefined ? "" : `, starts at ${payload.start_at}`}`
    case "job.queued":
      if (payload.reason === "job_started") return "job started"
      return payload.reason === "job_retried" ? "job is retried" : undefined
    case "job.paused":
      return paint.yellow(
        `job paused${typeof payload.reason === "string" ? `: ${printable(payload.reason)}` : ""}`,
      )
    case "job.rescheduled":
      return `job starts at ${payload.start_at}`
    case "job.resumed":
      return "job resumed"
    case "job.preview":
      return `${printable(String(payload.node))} published a preview`
    case "signal.received":
      return `signal ${printable(String(payload.name))} received`
    case "job.completed":
      return paint.green("job COMPLETED")
    case "job.failed":
    case "job.cancelled":
    case "job.expired":
      return paint.red(
        `job ${event.to}${typeof payload.reason === "string" ? `: ${printable(payload.reason)}` : ""}`,
      )
    default:
      return undefined
  }
}
