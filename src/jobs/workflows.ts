/** Stored workflows, their versions and aliases, as the API shows them; for the server and for commands on the store. */
import { isoTime } from "../engine/clock.ts"
import { noSuchWorkflow } from "../engine/versions.ts"
import type { WorkflowRow } from "../journal/port/journal.ts"
import type {
  AliasKey,
  AliasMove,
  AliasRow,
  AliasTarget,
  Registry,
  VersionRow,
} from "../journal/port/registry.ts"

type Query<List extends "listWorkflows" | "listVersions"> = Parameters<Registry[List]>[0]

const MANY_MOVES = 1000

/** By name, each with its latest version. */
export async function workflowPage(registry: Registry, query: Query<"listWorkflows">) {
  const found = await registry.listWorkflows({ ...query, limit: query.limit + 1 })
  const { page, next } = cutPage(found, query.limit, ({ name }) => name)
  return { workflows: page.map(row => summaryView(row.name, row)), next }
}

/** Newest first. */
export async function versionPage(registry: Registry, query: Query<"listVersions">) {
  const { name, before, limit } = query
  const found = await registry.listVersions({ ...query, limit: limit + 1 })
  if (found.length === 0 && before === undefined) throw noSuchWorkflow(name)
  const { page, next } = cutPage(found, limit, ({ version }) => version)
  return { versions: page.map(row => summaryView(name, row)), next }
}

interface Workflows {
  readonly registry: Registry
  /** Without a version: the latest. */
  workflow(key: VersionKey): Promise<WorkflowRow | null>
}

interface VersionKey {
  readonly owner: string
  readonly name: string
  readonly version?: number | undefined
}

export async function storedWorkflow(workflows: Pick<Workflows, "workflow">, key: VersionKey) {
  const row = await workflows.workflow(key)
  if (row !== null && row.deletedAt === null) return row
  throw noSuchWorkflow(key.version === undefined ? key.name : `${key.name}@${key.version}`)
}

export async function workflowWithAliases(workflows: Workflows, key: VersionKey) {
  const row = await storedWorkflow(workflows, key)
  return { ...versionView(row), aliases: (await workflows.registry.listAliases(key)).map(aliasView) }
}

export async function deleteWorkflow(
  registry: Registry,
  workflow: Omit<Parameters<Registry["deleteWorkflow"]>[0], "at">,
): Promise<void> {
  if (!(await registry.deleteWorkflow({ ...workflow, at: Date.now() }))) throw noSuchWorkflow(workflow.name)
}

/** Newest first. */
export async function aliasHistory(registry: Registry, key: AliasKey) {
  const moves = await registry.listAliasMoves({ ...key, limit: MANY_MOVES })
  if (moves.length === 0) throw noSuchWorkflow(`${key.name}@${key.alias}`)
  return { moves: moves.map(moveView) }
}

/** `found` has one row more than the page has room for if there is another page. */
export function cutPage<Row, Cursor>(found: readonly Row[], limit: number, cursor: (row: Row) => Cursor) {
  const page = found.slice(0, limit)
  return { page, next: found.length > limit ? cursor(page.at(-1)!) : null }
}

function summaryView(name: string, { version, hash, createdAt, pushedBy }: VersionRow) {
  return { name, version, hash, created_at: isoTime(createdAt), pushed_by: pushedBy }
}

export function versionView(row: WorkflowRow) {
  return { ...summaryView(row.name, row), definition: JSON.parse(row.definition) }
}

function moveView({ at, by, from, to }: AliasMove) {
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
