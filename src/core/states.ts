/** The one table of job and node states (J1, J2). A transition that is not listed here is refused and changes nothing. */

export const jobTransitions = {
  PENDING: ["QUEUED", "CANCELLED", "EXPIRED"],
  QUEUED: ["DISPATCHING", "CANCELLED", "EXPIRED"],
  DISPATCHING: ["PROCESSING", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED"],
  PROCESSING: ["PREVIEW", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED"],
  PREVIEW: ["PROCESSING", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED"],
  COMPLETED: ["DELETED"],
  FAILED: ["QUEUED", "DELETED"],
  CANCELLED: ["QUEUED", "DELETED"],
  EXPIRED: ["QUEUED", "DELETED"],
  DELETED: [],
} as const satisfies Record<string, readonly string[]>

export type JobStatus = keyof typeof jobTransitions

export const nodeTransitions = {
  // COMPLETED and WAITING: a fork takes over its result, or those of some of its items.
  PENDING: ["QUEUED", "COMPLETED", "WAITING", "SKIPPED", "FAILED", "CANCELLED"],
  QUEUED: ["RUNNING", "SKIPPED", "FAILED", "CANCELLED"],
  RUNNING: ["COMPLETED", "WAITING", "QUEUED", "FAILED", "CANCELLED"],
  WAITING: ["COMPLETED", "QUEUED", "FAILED", "CANCELLED"],
  COMPLETED: [],
  SKIPPED: [],
  FAILED: ["PENDING", "QUEUED"],
  CANCELLED: ["PENDING", "QUEUED"],
} as const satisfies Record<string, readonly string[]>

export type NodeStatus = keyof typeof nodeTransitions

export const jobStatuses = Object.keys(jobTransitions) as JobStatus[]

export function jobMayBecome(from: JobStatus, to: JobStatus): boolean {
  return (jobTransitions[from] as readonly JobStatus[]).includes(to)
}

export function nodeMayBecome(from: NodeStatus, to: NodeStatus): boolean {
  return (nodeTransitions[from] as readonly NodeStatus[]).includes(to)
}

const ended: ReadonlySet<JobStatus> = new Set<JobStatus>([
  "COMPLETED",
  "FAILED",
  "CANCELLED",
  "EXPIRED",
  "DELETED",
])

export function jobHasEnded(status: JobStatus): boolean {
  return ended.has(status)
}
