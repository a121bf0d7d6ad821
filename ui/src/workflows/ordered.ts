/** A stored definition as YAML, with its keys in the order in which people write them: the server sorts them by name. */
import type { Json } from "../../../src/core/index.ts"
import { toYaml } from "../model/yaml.ts"
import type { Workflow } from "./types.ts"

const document = ["name", "description", "input", "ttl_seconds"]
const entry = [
  ...["id", "name", "handler", "provider", "from", "steps", "to", "dependencies", "when", "for_each"],
  ...["max_parallel", "fail_fast", "timeout_seconds", "heartbeat_seconds", "retry", "config"],
]
const last = ["nodes", "routes", "output"]

function inOrder(value: object, first: readonly string[], after: readonly string[] = []): object {
  const rank = (key: string) => {
    const place = first.indexOf(key)
    if (place !== -1) return place
    return after.includes(key) ? first.length + 1 + after.indexOf(key) : first.length
  }
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => rank(a) - rank(b)))
}

export function orderedDefinition({ definition }: Pick<Workflow, "definition">): Json {
  const ordered = inOrder(definition, document, last) as Record<string, Json>
  for (const key of ["nodes", "routes"])
    if (Array.isArray(ordered[key]))
      ordered[key] = (ordered[key] as Json[]).map(one => inOrder(one as object, entry) as Json)
  return ordered
}

export function workflowYaml(workflow: Pick<Workflow, "definition">): string {
  return toYaml(orderedDefinition(workflow))
}

export function nodeYaml(node: object): string {
  return toYaml(inOrder(node, entry) as Json)
}
