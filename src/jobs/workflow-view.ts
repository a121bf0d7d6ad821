/** Workflows and their aliases, as JSON for people and programs. */
import { isoTime } from "../engine/clock.ts"
import type { WorkflowRow } from "../journal/port/journal.ts"
import type { AliasMove, AliasRow, AliasTarget, VersionRow, WorkflowPause } from "../journal/port/registry.ts"

export function summaryView(name: string, { version, hash, createdAt, pushedBy }: VersionRow) {
  return { name, version, hash, created_at: isoTime(createdAt), pushed_by: pushedBy }
}

export function versionView(row: WorkflowRow) {
  return { ...summaryView(row.name, row), definition: JSON.parse(row.definition) }
}

export function moveView({ at, by, from, to }: AliasMove) {
  return { at: isoTime(at), by, from: from && weights(from), to: to && weights(to) }
}

export function aliasView({ alias, targets, movedAt, movedBy }: AliasRow) {
  return {
    alias,
    weights: weights(targets),
    moved_at: isoTime(movedAt),
    moved_by: movedBy,
  }
}

/** null: new jobs begin. */
export function pausedView(pause: WorkflowPause | undefined) {
  if (pause === undefined || pause.resumedAt !== null) return null
  return { at: isoTime(pause.pausedAt), by: pause.pausedBy, reason: pause.reason }
}

function weights(targets: readonly AliasTarget[]): Record<string, number> {
  return Object.fromEntries(targets.map(({ version, weight }) => [String(version), weight]))
}
