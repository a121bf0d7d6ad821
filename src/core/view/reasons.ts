import type { JobExpired } from "../facts.ts"
import { cut } from "../faults.ts"
import { findTask, type JobState } from "../state.ts"
import type { NodeStatus } from "../states.ts"

/** Why a job ended before its work was done, and why an attempt is no longer wanted, in sentences for people. */

/** For a job that was cancelled without a reason. */
export const noReason = "no reason was given"

/** For a job that expired before 0.2: its row does not contain which time limit was exceeded. */
export const unknownExpiry = "It was not done in its time."

/** Why a child is cancelled with its parent. `parent`: after its end. */
export function parentReason(id: string, parent: Reasons): string {
  const { endedAs, endReason } = parent
  switch (endedAs) {
    case "CANCELLED":
      return cut(`Its parent job ${id} was cancelled: ${endReason}`, MAX_CHARACTERS)
    case "EXPIRED":
      return cut(`Its parent job ${id} expired. ${endReason}`, MAX_CHARACTERS)
    case "FAILED":
      return cut(`Its parent job ${id} failed. ${failureReason(parent)}`, MAX_CHARACTERS)
    default:
      return `Its parent job ${id} has ended.`
  }
}

/** A reason is passed on to children: for deep families it stays short. */
const MAX_CHARACTERS = 1000

/** `state`: before the fact. */
export function expiryReason(state: JobState, { node, item }: JobExpired): string {
  if (node === undefined) return timeReason(state)
  const place = findTask(state, { node, item })
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

/** Why an attempt of the job is aborted. `state`: after the fact that did so. */
export function abortReason(state: Reasons): string {
  const { endedAs, endReason } = state
  switch (endedAs) {
    case "CANCELLED":
      return `The job was cancelled: ${endReason}`
    case "EXPIRED":
      return `The job expired. ${endReason}`
    case "FAILED":
      return failureReason(state)
    default:
      return "The attempt was superseded by another one."
  }
}

/** For a node or an item that was CANCELLED with its job; otherwise nothing. */
export function reasonField(job: JobState, status: NodeStatus): { readonly reason?: string } {
  return status === "CANCELLED" ? { reason: abortReason(job) } : {}
}

function failureReason({ fault, graph }: Reasons): string {
  if (fault?.node === undefined) return `The job failed: ${fault?.fault.message}`
  return `${capital(placeName({ graph } as JobState, fault.node, fault.item))} failed: ${fault.fault.message}`
}

type Reasons = Pick<JobState, "endedAs" | "endReason" | "fault" | "graph">

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
