/** The facts that the time slider marks: failures, retries, signals, take-overs, and how the job was ended or paused. */
import type { CompiledGraph, FactRecord } from "../../../src/core/index.ts"

export type MarkKind = "failure" | "retry" | "signal" | "takeover" | "command"

export interface Mark {
  readonly kind: MarkKind
  /** The number of facts up to it, with it. */
  readonly index: number
  readonly at: number
  readonly text: string
}

interface Detail {
  readonly fault?: { readonly code: string; readonly message: string }
  readonly retry_at?: number
  readonly name?: string
  readonly reason?: string
  readonly nodes?: readonly number[]
  readonly items?: readonly number[]
  readonly handed_over?: true
}

export function toMark(record: FactRecord, graph: CompiledGraph): Mark | null {
  const told = describeFact(record, graph)
  return told === null ? null : { kind: told[0], text: told[1], index: record.index, at: record.at }
}

function describeFact(record: FactRecord, graph: CompiledGraph): readonly [MarkKind, string] | null {
  const { fault, retry_at, name, reason, nodes, items } = record as Detail
  const place = formatPlace(record, graph)
  switch (record.type as string) {
    case "node_failed":
    case "item_failed":
      return retry_at === undefined
        ? ["failure", `${place} failed: ${fault?.code}`]
        : ["retry", `${place} will be retried after ${fault?.code}`]
    case "job_failed":
      return ["failure", `The job failed: ${fault?.code}`]
    case "job_expired":
      return ["failure", "The job expired"]
    case "job_cancelled":
      return ["command", `The job was cancelled${reason === undefined ? "" : `: ${reason}`}`]
    case "job_paused":
      return ["command", "The job was paused"]
    case "job_resumed":
      return ["command", "The job was resumed"]
    case "job_started":
      return ["command", "The start time of the job came"]
    case "job_rescheduled":
      return ["command", "The start of the job was moved"]
    case "job_retried":
      return ["retry", "The job was retried"]
    case "signal_received":
      return ["signal", `Signal ${name} arrived`]
    case "tasks_lost":
      return ["takeover", `${nodes?.length ?? 0} running, their process ended`]
    case "items_lost":
      return ["takeover", `${items?.length ?? 0} items of ${place} running, their process ended`]
    default:
      return null
  }
}

export function formatPlace({ node, item }: Pick<FactRecord, "node" | "item">, graph: CompiledGraph): string {
  if (node === undefined) return "The job"
  const id = graph.nodes[node]?.id ?? `node ${node}`
  return item === undefined ? id : `${id}[${item}]`
}
