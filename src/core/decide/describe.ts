import type { Command, Describe, Refusal } from "../commands.ts"
import type { Fact, JobDescribed, JobPaused } from "../facts.ts"
import { type JobState, RUNNING } from "../state.ts"
import { refuse } from "./backoff.ts"

/** Commands of people that concern the job as a whole: pause, resume, labels, note. */

export function pause(
  state: JobState,
  { by, reason, kept = [], suspended = [] }: Extract<Command, { type: "pause" }>,
  at: number,
): readonly Fact[] | Refusal {
  // A job that waits with its workflow is paused for itself: the end of that pause does not concern it any more.
  if (state.paused !== null && !state.paused.ofWorkflow) return refuse("unchanged")
  const fact: JobPaused = {
    type: "job_paused",
    ...(by === undefined ? {} : { by }),
    ...(reason === undefined || reason.trim() === "" ? {} : { reason }),
    ...(kept.length === 0 ? {} : { kept: kept.map(keptTask) }),
  }
  // A recorded start would count as running: the attempt is handed over to the one that follows the pause.
  const nodes = suspended.filter(node => state.nodeStatus[node] === RUNNING)
  if (nodes.length === 0) return [{ ...fact, at }]
  return [
    { ...fact, at },
    { type: "tasks_lost", at, nodes, handed_over: true },
  ]
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
  return [{ type: "job_resumed", at, ...(by === undefined ? {} : { by }) }]
}

/** Also for a job that has ended. */
export function describe(state: JobState, command: Describe, at: number): readonly Fact[] | Refusal {
  if (state.status === "PENDING" || state.status === "DELETED") return refuse("job_final")
  const { by, labels, note } = command
  const fact: JobDescribed = {
    type: "job_described",
    ...(by === undefined ? {} : { by }),
    ...(labels === undefined || isSame(labels, state.labels) ? {} : { labels }),
    ...(note === undefined || note === (state.note?.text ?? null) ? {} : { note }),
  }
  return "labels" in fact || "note" in fact ? [{ ...fact, at }] : refuse("unchanged")
}

type Labels = JobState["labels"]

function isSame(a: Labels, b: Labels): boolean {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every(name => a[name] === b[name])
}
