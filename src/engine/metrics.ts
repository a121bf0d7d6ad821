import type { Broker } from "../broker/port.ts"
import { type JobState, nodeStatuses } from "../core/state.ts"
import type { JobStatus, NodeStatus } from "../core/states.ts"
import { shownStatus as shownNodeStatus } from "../core/view/view.ts"
import type { FireRow } from "../journal/port/schedules.ts"
import { MetricHistogram, secondsBounds } from "../metrics.ts"
import { type LiveJob, runningAttempts } from "./owner/live-job.ts"
import { shownStatus } from "./owner/snapshot.ts"

/** Counters of an engine since the process started. */
export class EngineMetrics {
  jobsSubmitted = 0
  /** Failed attempts that are retried. */
  retries = 0
  /** Jobs without progress for which the engine found no reason: defects of the engine. */
  jobsWithoutReason = 0
  readonly jobsEnded = new Map<JobStatus, number>()
  /** From submission, or the start time of a delayed job, to end. */
  readonly jobSeconds = new MetricHistogram([...secondsBounds, 300, 1800, 7200])
  /** Facts of one append. */
  readonly appendFacts = new MetricHistogram([1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000])
  /** From sending an append to its result. */
  readonly appendSeconds = new MetricHistogram(secondsBounds)

  /** Ticks, runs and backfills of schedules, by kind and outcome. */
  readonly fires = new Map<string, number>()
  /** From the time at which a tick is to fire until its job is stored; not of ticks that waited for another job. */
  readonly fireSeconds = new MetricHistogram([...secondsBounds, 300, 1800, 7200])

  fired({ kind, outcome, count }: Pick<FireRow, "kind" | "outcome" | "count">): void {
    const labels = `${kind.split(":")[0]} ${outcome}`
    this.fires.set(labels, (this.fires.get(labels) ?? 0) + count)
  }

  jobEnded({ status, createdAt, startAt, finishedAt }: JobState): void {
    this.jobsEnded.set(status, (this.jobsEnded.get(status) ?? 0) + 1)
    const begin = startAt ?? createdAt
    this.jobSeconds.add(Math.max(0, (finishedAt ?? begin) - begin) / 1000)
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

/**
 * The number of jobs in memory, and of their nodes, in each state as people see it: RUNNING is a node whose handler runs.
 * Counted on demand: some ms for 100,000 jobs, tens of ms if all of them are with workers.
 */
export function countStates(jobs: Iterable<LiveJob>, broker: Broker, now: number): States {
  const byJob: Record<string, number> = {}
  const nodes = Object.fromEntries(nodeStatuses.map(status => [status, 0])) as Record<NodeStatus, number>
  for (const job of jobs) {
    const { state } = job
    const status = shownStatus(job)
    byJob[status] = (byJob[status] ?? 0) + 1
    const running =
      job.running.size === 0 ? none : new Set(runningAttempts(job, broker).map(({ node }) => node))
    // Only recorded starts and lists are shown otherwise than they are recorded.
    const isPlain = state.started.size === 0 && state.lists.size === 0
    for (let node = 0; node < state.nodeStatus.length; node++) {
      const recorded = nodeStatuses[state.nodeStatus[node]!]!
      nodes[running.has(node) ? "RUNNING" : isPlain ? recorded : shownNodeStatus(state, node, now)]++
    }
  }
  return { jobs: byJob, nodes }
}

const none: ReadonlySet<number> = new Set()
