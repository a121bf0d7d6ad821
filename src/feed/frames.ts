/** The format of events (Server-Sent Events): `event`, `id` and one line of `data` each. */
import type { Change } from "./changes.ts"
import { jobPositionText, positionText } from "./position.ts"

export type EndReason = "job_ended" | "job_deleted" | "server_stopping"
export type ResetReason = "too_far_behind" | "unknown_position"

export function frame(event: string, data: unknown, id?: string): string {
  return text(event, JSON.stringify(data), id)
}

function text(event: string, data: string, id?: string): string {
  return `event: ${event}\n${id === undefined ? "" : `id: ${id}\n`}data: ${data}\n\n`
}

export function jobFrames(changes: readonly Change[]): string {
  return changes.map(change => text(change.kind, change.data, jobPositionText(change))).join("")
}

/** A change of one of an owner's jobs, and the position after it. */
export interface OwnerChange extends Change {
  readonly partition: number
  readonly seqs: readonly number[]
}

export function ownerFrames(store: string, changes: readonly OwnerChange[]): string {
  return changes.map(change => text("job", change.data, positionText({ store, ...change }))).join("")
}
