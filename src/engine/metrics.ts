import type { JobState } from "../core/state.ts"
import { nodeStatuses } from "../core/state.ts"
import type { JobStatus, NodeStatus } from "../core/states.ts"
import { Histogram, secondsBounds } from "../metrics.ts"
import type { LiveJob } from "./owner/live-job.ts"

/** Counters of an engine since the process started. */
export class EngineMetrics {
  jobsSubmitted = 0
  /** Failed attempts that are retried. */
  retries = 0
  /** Jobs that did not go on although the engine knew no reason: defects of the engine. */
  jobsWithoutReason = 0
  readonly jobsEnded = new Map<JobStatus, number>()
  /** From submission to end. */
  readonly jobSeconds = new Histogram([...secondsBounds, 300, 1800, 7200])
  /** Facts of one append. */
  readonly appendFacts = new Histogram([1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000])
  /** From sending an append to its result. */
  readonly appendSeconds = new Histogram(secondsBounds)

  jobEnded({ status, createdAt, finishedAt }: JobState): void {
    this.jobsEnded.set(status, (this.jobsEnded.get(status) ?? 0) + 1)
    this.jobSeconds.add(((finishedAt ?? createdAt) - createdAt) / 1000)
  }
}

export interface EngineHealth {
  /** Jobs in memory. */
  readonly liveJobs: number
  readonly partitions: number
  readonly isReady: boolean
  /** An engine that takes jobs is known: this process's own, or another's. */
  readonly hasTaker: boolean
  /** There was one since the process started. */
  readonly hadTaker: boolean
  /** Attempts that have a slot, and that wait for one. */
  readonly running: number
  readonly queued: number
  /** Tasks that remote workers have rejected since the process started. */
  readonly refused: number
}

export interface States {
  readonly jobs: Record<string, number>
  readonly nodes: Record<NodeStatus, number>
}

/** The number of jobs in memory, and of their nodes, in each state. Counted on demand: a few ms for 100,000 jobs. */
export function countStates(jobs: Iterable<LiveJob>): States {
  const byJob: Record<string, number> = {}
  const byNode = new Float64Array(nodeStatuses.length)
  for (const { state } of jobs) {
    byJob[state.status] = (byJob[state.status] ?? 0) + 1
    for (const status of state.nodeStatus) byNode[status]!++
  }
  const nodes = Object.fromEntries(nodeStatuses.map((status, code) => [status, byNode[code]!]))
  return { jobs: byJob, nodes: nodes as Record<NodeStatus, number> }
}
