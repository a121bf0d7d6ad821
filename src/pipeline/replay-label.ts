import type { JobRow } from "../journal/port/journal.ts"

/** The label that names the job whose dead letters this one begins with. */
export const replayLabel = "replay_of"

/** The job whose dead letters this one begins with; null: it begins with the messages of its definition. */
export function replayedJob({ labels }: Pick<JobRow, "labels">): string | null {
  if (labels === null) return null
  const all = JSON.parse(labels) as { readonly [label: string]: string }
  return Object.hasOwn(all, replayLabel) ? all[replayLabel]! : null
}
