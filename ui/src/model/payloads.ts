/** Payloads of facts: a value, or a reference to one that is too large for its fact. */
import type { FactRecord, PayloadRef } from "../../../src/core/index.ts"
import type { JsonValue } from "./json/document.ts"
import type { Timeline } from "./timeline.ts"

export interface Payload {
  readonly seq: number
  readonly field: string
  /** undefined: it must be read (`ref`). */
  readonly value?: JsonValue
  readonly ref?: PayloadRef["$payload"]
}

/** The payload of a fact; null: it has none. */
export function readPayload(record: FactRecord | undefined, field: string): Payload | null {
  if (record === undefined) return null
  const value = record[field] as JsonValue | PayloadRef | undefined
  if (value === undefined) return null
  const { seq } = record
  if (typeof value === "object" && value !== null && "$payload" in value)
    return { seq, field, ref: (value as unknown as PayloadRef).$payload }
  return { seq, field, value: value as JsonValue }
}

/** The fact that completed a node, or an item of it, up to a moment; undefined: there is none. */
export function completedBy(
  timeline: Timeline,
  node: number,
  index: number,
  item?: number,
): FactRecord | undefined {
  const places = timeline.factsByNode.get(node) ?? []
  const isList = timeline.graph.nodes[node]!.for_each
  for (let n = places.length - 1; n >= 0; n--) {
    const record = timeline.facts[places[n]!]!
    if (places[n]! >= index) continue
    if (item === undefined && isList) return undefined
    if (record.item !== item) continue
    if (record.type === "node_completed" || record.type === "item_completed") return record
    if (record.type === "signal_received") return record
  }
  return undefined
}

/** The job's output: in the fact that completed it. */
export function jobOutput(timeline: Timeline, index: number): Payload | null {
  for (let n = index - 1; n >= 0; n--) {
    const found = readPayload(timeline.facts[n], "job_output")
    if (found !== null) return found
    if (timeline.facts[n]!.type === "job_retried") return null
  }
  return null
}
