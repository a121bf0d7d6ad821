/** Workflows and their aliases, as JSON for people and programs. */
import { isoTime } from "../engine/clock.ts"
import type { WorkflowRow } from "../journal/port/journal.ts"
import type { AliasMove, AliasRow, AliasTarget, VersionRow } from "../journal/port/registry.ts"

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

function weights(targets: readonly AliasTarget[]): Record<string, number> {
  return Object.fromEntries(targets.map(({ version, weight }) => [String(version), weight]))
}
