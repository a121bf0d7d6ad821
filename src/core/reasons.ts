import type { JobExpired } from "./facts.ts"
import { placeOf } from "./item-list.ts"
import type { JobState } from "./state.ts"

/** Why a job ended before its work was done, and why an attempt is not wanted any more, in sentences for people. */

/** `state`: before the fact. */
export function expiryReason(state: JobState, { node, item }: JobExpired): string {
  if (node === undefined) return timeReason(state)
  const place = placeOf(state, item === undefined ? { node } : { node, item })
  const waiting = place?.state.waiting.get(place.position)
  const operation =
    waiting?.kind === "external"
      ? `Provider "${waiting.provider}" did not finish operation ${waiting.external_id}`
      : "A provider did not finish the operation"
  return `${operation} of ${placeName(state, node, item)} in its time.`
}

function timeReason({ ttlSeconds, createdAt, expiresAt, parent }: JobState): string {
  const isParents = parent !== null && (ttlSeconds === null || expiresAt! < createdAt + ttlSeconds * 1000)
  if (isParents) return "It was not done within the time that its parent's node has for it."
  return `It was not done within its time to live of ${ttlSeconds} s (ttl_seconds).`
}

function placeName({ graph }: JobState, node: number, item: number | undefined): string {
  const name = `node "${graph.nodes[node]!.id}"`
  return item === undefined ? name : `item ${item} of ${name}`
}

/** Why an attempt of the job is taken back. `state`: after the fact that did so. */
export function abortReason({ status, endReason, fault, graph }: Reasons): string {
  switch (status) {
    case "CANCELLED":
      return endReason === null ? "The job was cancelled." : `The job was cancelled: ${endReason}`
    case "EXPIRED":
      return `The job expired. ${endReason}`
    case "FAILED":
      if (fault?.node === undefined) return `The job failed: ${fault?.fault.message}`
      return `${capital(placeName({ graph } as JobState, fault.node, fault.item))} failed: ${fault.fault.message}`
    default:
      return "The attempt was superseded: another one takes its place."
  }
}

type Reasons = Pick<JobState, "status" | "endReason" | "fault" | "graph">

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
