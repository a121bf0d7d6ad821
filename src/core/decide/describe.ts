import type { Command, Describe, Refusal } from "../commands.ts"
import type { Fact, JobDescribed, JobPaused } from "../facts.ts"
import { isDelayed, type JobState, RUNNING, type TaskRef } from "../state.ts"
import { refuse } from "./backoff.ts"

/** Commands of people that concern the job as a whole: pause, resume, labels, note. */

export function pause(
  state: JobState,
  { by, reason, kept = [] }: Extract<Command, { type: "pause" }>,
  at: number,
): readonly Fact[] | Refusal {
  // A job that waits with its workflow is paused for itself: the end of that pause does not concern it any more.
  if (state.paused !== null && !state.paused.ofWorkflow) return refuse("unchanged")
  const fact: JobPaused = {
    type: "job_paused",
    by,
    reason: reason === undefined || reason.trim() === "" ? undefined : reason,
    kept: kept.length === 0 ? undefined : kept.map(keptTask),
  }
  const stopped = stoppedNodes(state, kept)
  if (stopped.length === 0) return [{ ...fact, at }]
  return [
    { ...fact, at },
    { type: "tasks_lost", at, nodes: stopped, handed_over: true },
  ]
}

/**
 * Nodes that the owner of the job runs itself (pipelines, bulk operations) are stopped by the pause, also after their start
 * was recorded. They are held, and continue in another attempt: reports of the one that was stopped are stale.
 */
function stoppedNodes(state: JobState, kept: readonly TaskRef[]): number[] {
  const stopped: number[] = []
  for (const [node, { resumes }] of state.graph.nodes.entries())
    if (resumes === true && state.nodeStatus[node] === RUNNING && !kept.some(task => task.node === node))
      stopped.push(node)
  return stopped
}

function keptTask({ node, item }: { readonly node: number; readonly item?: number | undefined }) {
  return item === undefined ? { node } : { node, item }
}

export function resume(
  state: JobState,
  { by, ofWorkflow }: Extract<Command, { type: "resume" }>,
  at: number,
): readonly Fact[] | Refusal {
  if (state.paused === null || (ofWorkflow === true && !state.paused.ofWorkflow)) return refuse("unchanged")
  return [{ type: "job_resumed", at, by }]
}

/** Also for a job that has ended. */
export function describe(state: JobState, command: Describe, at: number): readonly Fact[] | Refusal {
  const isNew = state.status === "PENDING" && !isDelayed(state)
  if (isNew || state.status === "DELETED") return refuse("job_final")
  const { by, labels, note } = command
  const fact: JobDescribed = {
    type: "job_described",
    by,
    labels: labels === undefined || isSame(labels, state.labels) ? undefined : labels,
    note: note === (state.note?.text ?? null) ? undefined : note,
  }
  return fact.labels !== undefined || fact.note !== undefined ? [{ ...fact, at }] : refuse("unchanged")
}

type Labels = JobState["labels"]

function isSame(a: Labels, b: Labels): boolean {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every(name => a[name] === b[name])
}
