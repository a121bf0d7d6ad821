/** Workflows, their aliases and the differences between versions, as JSON for people and programs. */
import { isDeepStrictEqual } from "node:util"
import type { WorkflowRow } from "../journal/port.ts"
import type { AliasMove, AliasRow, AliasTarget, VersionRow } from "../journal/registry.ts"

const iso = (time: number): string => new Date(time).toISOString()

export function summaryView(name: string, { version, hash, createdAt }: VersionRow) {
  return { name, version, hash, created_at: iso(createdAt) }
}

export function versionView(row: WorkflowRow) {
  return { ...summaryView(row.name, row), definition: JSON.parse(row.definition) }
}

export function moveView({ at, by, from, to }: AliasMove) {
  return { at: iso(at), by, from: from && weightsOf(from), to: to && weightsOf(to) }
}

export function aliasView({ alias, targets, movedAt, movedBy }: AliasRow) {
  return {
    alias,
    weights: weightsOf(targets),
    moved_at: iso(movedAt),
    moved_by: movedBy,
  }
}

function weightsOf(targets: readonly AliasTarget[]): Record<string, number> {
  return Object.fromEntries(targets.map(({ version, weight }) => [String(version), weight]))
}

type Keys = Record<string, unknown>

/** Both are canonical: what means the same is written the same. */
export function diffOf(before: string, after: string) {
  const { nodes: oldNodes, ...oldRest } = JSON.parse(before) as Keys & { nodes: (Keys & { id: string })[] }
  const { nodes: newNodes, ...newRest } = JSON.parse(after) as Keys & { nodes: (Keys & { id: string })[] }
  const [old, now] = [byId(oldNodes), byId(newNodes)]
  return {
    nodes_added: [...now.keys()].filter(id => !old.has(id)),
    nodes_removed: [...old.keys()].filter(id => !now.has(id)),
    nodes_changed: [...now].flatMap(([id, node]) => {
      const keys = changedKeys(old.get(id) ?? node, node)
      return keys.length === 0 ? [] : [{ id, keys }]
    }),
    keys_changed: changedKeys(oldRest, newRest),
  }
}

function byId(nodes: readonly (Keys & { id: string })[]): Map<string, Keys> {
  return new Map(nodes.map(node => [node.id, node]))
}

function changedKeys(before: Keys, after: Keys): string[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...keys].filter(key => !isDeepStrictEqual(before[key], after[key])).sort()
}
