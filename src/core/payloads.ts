import type { ArtifactMention } from "./artifacts.ts"
import type { Fact, FactType } from "./facts.ts"
import type { Json } from "./json.ts"

/**
 * Fact records: facts as the API gives them, with large payloads replaced by references.
 *
 * 1. A record is the fact itself, so `apply` takes it. A payload is data of the user: no rule of a job reads it, except
 *    the length of a list.
 * 2. Payloads that a graph shows (a preview, the default of a signal) are references there too.
 */
export type FactRecord = {
  /** Its position among the facts of the job, from 1. */
  readonly index: number
  readonly seq: number
  readonly type: FactType
  /** When it was decided, in milliseconds since 1970. */
  readonly at: number
  /** Positions of the node in the document and of the item in its list. */
  readonly node?: number
  readonly item?: number
  readonly attempt?: number
  readonly worker?: string
  /** The code of its fault. */
  readonly code?: string
} & { readonly [field: string]: Json }

/** Stands in a fact for a payload that is longer than `WHOLE_BYTES`. */
export interface PayloadRef {
  readonly $payload: {
    readonly seq: number
    readonly field: PayloadField
    /** The length of its JSON text in UTF-8. */
    readonly bytes: number
    /** sha256 of that text, in hexadecimal. */
    readonly hash: string
    /** The beginning of that text. */
    readonly preview: string
    /** For a list: the number of its items. */
    readonly count?: number
    /** Artifacts that it refers to, the first ones. */
    readonly artifacts?: readonly ArtifactMention[]
    /** How many references it has, if these are not all. */
    readonly artifact_count?: number
  }
}

/** Payloads up to this size are given whole. */
export const WHOLE_BYTES = 1024

export type PayloadField =
  | "input"
  | "output"
  | "job_output"
  | "items"
  | "pinned"
  | "data"
  | "waiting.output"
  | "waiting.default"

const result = ["output", "job_output"] as const
const wait = ["waiting.output", "waiting.default"] as const

const fieldsByType: { readonly [type in FactType]?: readonly PayloadField[] } = {
  job_submitted: ["input", "pinned", "job_output"],
  node_completed: result,
  item_completed: result,
  node_skipped: ["job_output"],
  node_waiting: wait,
  item_waiting: wait,
  node_expanded: ["items", "job_output"],
  preview_published: ["data"],
  signal_received: ["data", "job_output"],
}

/** The fields of a fact of this type that are payloads. A type that this release does not know has none. */
export function payloadFields(type: string): readonly PayloadField[] {
  return Object.hasOwn(fieldsByType, type) ? fieldsByType[type as FactType]! : []
}

/** A list, or the items that its reference replaces: their number is known, their values are null. */
export function readItems(items: readonly Json[] | PayloadRef): readonly Json[] {
  if (!("$payload" in items)) return items
  return new Array<null>(items.$payload.count ?? 0).fill(null)
}

/** The fact of a record. */
export function toFact(record: FactRecord): Fact {
  return record as unknown as Fact
}
