/** What the engine did with a node, as log lines: made from the job's events when they are read, and never stored. */
import type { JsonObject } from "../../core/json.ts"
import type { JobEvent } from "../../core/view/events.ts"
import { isoTime } from "../../engine/clock.ts"
import type { LogLevel } from "../../log.ts"

interface EngineLine {
  readonly level: LogLevel
  readonly message: string
}

/** null: the event is not about an attempt, or another event has the same content. */
export function engineLine(event: JobEvent): EngineLine | null {
  const { type, payload } = event
  if (event.node === undefined) return null
  switch (type.replace(/^item\./, "node.")) {
    case "node.queued":
      return queuedLine(payload)
    case "node.running":
      return info(typeof payload.worker === "string" ? `started on ${payload.worker}` : "started")
    case "node.waiting":
      return info(waitingText(payload))
    case "node.completed":
      return info(`completed${duration(payload)}${via(payload)}`)
    case "node.failed":
      return { level: "error", message: `failed${duration(payload)}${via(payload)}: ${faultText(payload)}` }
    case "node.cancelled":
      return { level: "warn", message: `cancelled: ${payload.message}` }
    case "node.skipped":
      return info("skipped")
    case "attempt.lost":
      return lostLine(payload)
    case "slot.awaited":
      return info(`waits for a slot of provider ${payload.provider}`)
    case "slot.granted":
      return info("got a slot")
    case "operation.polled":
      return payload.fault === undefined
        ? null
        : { level: "warn", message: `the poll of its operation failed: ${faultText(payload)}` }
    default:
      return null
  }
}

function queuedLine(payload: JsonObject): EngineLine | null {
  switch (payload.reason) {
    case "dependencies_done":
      return info("dispatched")
    case "job_retried":
      return info("dispatched again: the job was retried")
    case "retry":
      return {
        level: "warn",
        message: `failed${duration(payload)}${via(payload)}: ${faultText(payload)}; retried at ${time(payload.retry_at)}`,
      }
    case "postponed":
      return info(`postponed until ${time(payload.retry_at)}: ${faultText(payload)}`)
    case "executions":
      return info("waits for a free execution")
    // `attempt.lost` already records this.
    default:
      return null
  }
}

function lostLine({ worker, handed_over }: JsonObject): EngineLine {
  const place = typeof worker === "string" ? ` ${worker}` : ""
  return handed_over === true
    ? info(`handed over by worker${place}`)
    : { level: "warn", message: `lost with worker${place}` }
}

function waitingText({ waiting, items }: JsonObject): string {
  if (items !== undefined) return `waits for its ${items} items`
  const { kind, until, name, workflow, provider, external_id } = (waiting ?? {}) as JsonObject
  const limit = typeof until === "number" ? ` until ${time(until)}` : ""
  if (kind === "timer") return `waits${limit}`
  if (kind === "signal") return `waits for signal ${name}${limit}`
  if (kind === "child") return `waits for a child job of ${workflow}`
  return kind === "external" ? `waits for operation ${external_id} of provider ${provider}${limit}` : "waits"
}

const info = (message: string): EngineLine => ({ level: "info", message })

const time = (at: unknown) => (typeof at === "number" ? isoTime(at) : "an unknown time")

function duration({ duration_ms: ms }: JsonObject): string {
  return typeof ms === "number" ? ` after ${ms} ms` : ""
}

function via({ via: how }: JsonObject): string {
  return typeof how === "string" ? ` (${how})` : ""
}

function faultText({ fault }: JsonObject): string {
  const { code, message } = (fault ?? {}) as JsonObject
  return `${code} ${message}`
}
