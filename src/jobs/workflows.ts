/** Stored workflows, their versions and aliases, as the API shows them; for the server and for commands on the store. */
import { isDeepStrictEqual } from "node:util"
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
  WorkflowPause,
} from "../journal/port/registry.ts"
import { inTurns, type Work } from "../turns.ts"
import { checkPause } from "./arguments.ts"

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
  const [aliases, pauses] = [await workflows.registry.listAliases(key), await workflows.registry.listPauses()]
  const pause = pauses.find(({ owner, name }) => owner === key.owner && name === key.name)
  return { ...versionView(row), aliases: aliases.map(aliasView), paused: pausedView(pause) }
}

export async function deleteWorkflow(
  registry: Registry,
  workflow: Omit<Parameters<Registry["deleteWorkflow"]>[0], "at">,
): Promise<void> {
  if (!(await registry.deleteWorkflow({ ...workflow, at: Date.now() }))) throw noSuchWorkflow(workflow.name)
}

/** `changed`: called when the pause is stored. A workflow that is paused already stays as it is. */
export async function pauseWorkflow(
  registry: Registry,
  { owner, name, by = null, reason = null }: WorkflowPauseRequest,
  changed: () => void | Promise<void>,
): Promise<void> {
  checkPause(by, reason)
  if ((await registry.readLatest({ owner, name })) === null) throw noSuchWorkflow(name)
  await registry.pauseWorkflow({ owner, name, at: Date.now(), by, reason })
  await changed()
}

export interface WorkflowPauseRequest {
  readonly owner: string
  readonly name: string
  readonly by?: string | null | undefined
  readonly reason?: string | null | undefined
}

export async function resumeWorkflow(
  registry: Registry,
  key: { readonly owner: string; readonly name: string },
  changed: () => void | Promise<void>,
): Promise<void> {
  const isKnown = await registry.resumeWorkflow({ ...key, at: Date.now() })
  // A deleted workflow may have jobs that wait.
  if (!isKnown && (await registry.readLatest(key)) === null) throw noSuchWorkflow(key.name)
  await changed()
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

/** null: new jobs begin. */
function pausedView(pause: WorkflowPause | undefined) {
  if (pause === undefined || pause.resumedAt !== null) return null
  return { at: isoTime(pause.pausedAt), by: pause.pausedBy, reason: pause.reason }
}

function weights(targets: readonly AliasTarget[]): Record<string, number> {
  return Object.fromEntries(targets.map(({ version, weight }) => [String(version), weight]))
}

/** The differences between two versions of a workflow, by key. */
export interface WorkflowDiff {
  readonly name: string
  readonly from: number
  readonly to: number
  readonly nodes_added: string[]
  readonly nodes_removed: string[]
  readonly nodes_changed: { readonly id: string; readonly keys: string[] }[]
  readonly routes_added: string[]
  readonly routes_removed: string[]
  readonly routes_changed: { readonly name: string; readonly keys: string[] }[]
  readonly keys_changed: string[]
}

type Keys = Record<string, unknown>
type Differences = Omit<WorkflowDiff, "name" | "from" | "to">

export async function workflowDiff(
  workflows: Pick<Workflows, "workflow">,
  { from, to, ...key }: Omit<VersionKey, "version"> & { readonly from: number; readonly to: number },
): Promise<WorkflowDiff> {
  const before = await storedWorkflow(workflows, { ...key, version: from })
  const after = await storedWorkflow(workflows, { ...key, version: to })
  return {
    name: key.name,
    from,
    to,
    ...(await inTurns(compareDocuments(before.definition, after.definition))),
  }
}

interface Changes {
  readonly added: string[]
  readonly removed: string[]
  readonly changed: [name: string, keys: string[]][]
}

/** Both are canonical, except for values of `retry` that were written although they are the default. */
function* compareDocuments(before: string, after: string): Work<Differences> {
  const old = divided(before)
  yield
  const now = divided(after)
  const nodes = yield* changes(old.nodes, now.nodes)
  const routes = yield* changes(old.routes, now.routes)
  return {
    nodes_added: nodes.added,
    nodes_removed: nodes.removed,
    nodes_changed: nodes.changed.map(([id, keys]) => ({ id, keys })),
    routes_added: routes.added,
    routes_removed: routes.removed,
    routes_changed: routes.changed.map(([name, keys]) => ({ name, keys })),
    keys_changed: changedKeys(old.rest, now.rest),
  }
}

/** A document has nodes or routes; a later version may have the other. */
function divided(definition: string) {
  const {
    nodes = [],
    routes = [],
    ...rest
  } = JSON.parse(definition) as Keys & Record<"nodes" | "routes", Keys[]>
  const by = (key: string, entries: readonly Keys[]) =>
    new Map(entries.map(entry => [String(entry[key]), entry]))
  return { nodes: by("id", nodes), routes: by("name", routes), rest }
}

function* changes(old: ReadonlyMap<string, Keys>, now: ReadonlyMap<string, Keys>): Work<Changes> {
  const changed: Changes["changed"] = []
  for (const [name, entry] of now) {
    const keys = changedKeys(old.get(name) ?? entry, entry)
    if (keys.length > 0) changed.push([name, keys])
    yield
  }
  return {
    added: [...now.keys()].filter(name => !old.has(name)),
    removed: [...old.keys()].filter(name => !now.has(name)),
    changed,
  }
}

function changedKeys(before: Keys, after: Keys): string[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...keys].filter(key => !isDeepStrictEqual(before[key], after[key])).sort()
}
