/** The differences between two versions of a workflow. */
import { isDeepStrictEqual } from "node:util"
import type { z } from "zod"
import type { Work } from "../turns.ts"
import type { diff } from "./schemas/workflow.ts"

type Keys = Record<string, unknown>
type Differences = Omit<z.output<typeof diff>, "name" | "from" | "to">

interface Changes {
  readonly added: string[]
  readonly removed: string[]
  readonly changed: [name: string, keys: string[]][]
}

/** Both are canonical, except for values of `retry` that were written although they are the default. */
export function* diffOf(before: string, after: string): Work<Differences> {
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
