/** What may be written at a place of a workflow's YAML: keys by the schema of documents, names of handlers, ids of nodes. */
import documentSchema from "../../../schema/workflow.schema.json" with { type: "json" }

export interface Completion {
  readonly label: string
  readonly detail: string
  readonly insert: string
}

export interface Found {
  /** Where the text begins that a completion replaces. */
  readonly from: number
  readonly list: readonly Completion[]
}

type Node = { readonly [keyword: string]: unknown }

const handlers: readonly (readonly [string, string])[] = [
  ["transform", "computes a value"],
  ["call_external_service", "sends an HTTP request"],
  ["llm_service", "calls a language model"],
  ["sleep", "waits for a time"],
  ["wait_for_signal", "waits for a person or a program"],
  ["workflow", "runs another workflow"],
  ["pipeline", "runs a pipeline"],
]

/** Keys of the config of built-in handlers. */
const configs: { readonly [handler: string]: readonly string[] } = {
  transform: ["value"],
  sleep: ["seconds", "until"],
  wait_for_signal: ["signal", "timeout_seconds", "default", "schema"],
  workflow: ["workflow", "input"],
  pipeline: ["pipeline", "input"],
}

/** null: nothing is known about this place. */
export function completionsAt(text: string, at: number, ids: readonly string[]): Found | null {
  const begin = text.lastIndexOf("\n", at - 1) + 1
  const line = text.slice(begin, at)
  const template = /\{\{[^}]*?([A-Za-z_][\w-]*)?$/.exec(line)
  if (template !== null && !/\.\w*$/.test(line)) return found(at, template[1] ?? "", roots(ids))
  const above = text.slice(0, begin).split("\n")
  above.pop()
  const key = /^(\s*(?:- +)?)([A-Za-z_$][\w$]*)?$/.exec(line)
  if (key !== null) {
    const path = pathAbove(above, key[1]!.length)
    return found(at, key[2] ?? "", keysAt(path, above, key[1]!.length))
  }
  const value = /^\s*(?:- +)?([a-z_]+):\s+\[?(?:[\w-]+,\s*)*([\w-]*)$/.exec(line)
  if (value === null) return null
  return found(at, value[2]!, listValues(value[1]!, text, ids))
}

function found(at: number, prefix: string, all: readonly Completion[]): Found {
  const list = all.filter(({ label }) => label.startsWith(prefix) && label !== prefix)
  return { from: at - prefix.length, list }
}

function roots(ids: readonly string[]): Completion[] {
  return [
    { label: "input", detail: "the job's input", insert: "input" },
    ...ids.map(id => ({
      label: id,
      detail: "output of the node",
      insert: /-/.test(id) ? `nodes["${id}"]` : id,
    })),
    { label: "secrets", detail: "a secret by its name", insert: "secrets" },
    { label: "item", detail: "of for_each", insert: "item" },
    { label: "index", detail: "of for_each", insert: "index" },
  ]
}

/** Keys of the mappings around a line with this indent, from the outermost. */
function pathAbove(above: readonly string[], indent: number): string[] {
  const path: string[] = []
  let depth = indent
  for (let n = above.length - 1; n >= 0 && depth > 0; n--) {
    const [, own = "", dash = "", key] = /^(\s*)(- +)?("?[\w$]+"?)?\s*:?/.exec(above[n]!) ?? []
    if (key === undefined || above[n]!.trim() === "") continue
    const column = own.length + dash.length
    if (column < depth) {
      path.unshift(key.replaceAll('"', ""))
      depth = column
      if (dash !== "") depth = own.length === 0 ? 1 : own.length
    }
  }
  return path
}

function keysAt(path: readonly string[], above: readonly string[], indent: number): Completion[] {
  if (path.at(-1) === "config") {
    const handler = handlerAbove(above, indent)
    return (configs[handler ?? ""] ?? []).map(label => ({ label, detail: handler!, insert: `${label}: ` }))
  }
  const root = above.some(line => /^routes:/.test(line)) ? documentSchema.then : documentSchema.else
  let schema: Node | null = root as Node
  for (const key of path) schema = schema === null ? null : inside(schema, key)
  const properties = schema === null ? undefined : findProperties(schema)
  return Object.entries(properties ?? {}).flatMap(([label, value]) =>
    label === "$schema"
      ? []
      : [
          {
            label,
            detail: findDescription(value as Node),
            insert: isNested(value as Node) ? `${label}:` : `${label}: `,
          },
        ],
  )
}

function handlerAbove(above: readonly string[], indent: number): string | undefined {
  for (let n = above.length - 1; n >= 0; n--) {
    const [, own = "", name] = /^(\s*)(?:- +)?handler:\s*"?([\w-]+)/.exec(above[n]!) ?? []
    if (name !== undefined && own.length < indent) return name
  }
  return undefined
}

/** The branches of a schema: `null` is always allowed in documents, and of no interest here. */
function branches(schema: Node): Node[] {
  const list = (schema.anyOf ?? schema.oneOf) as readonly Node[] | undefined
  return list === undefined ? [schema] : list.flatMap(branches)
}

function findProperties(schema: Node): Node | undefined {
  for (const branch of branches(schema)) {
    const list = branch.items as Node | undefined
    if (branch.properties !== undefined) return branch.properties as Node
    const inner = list === undefined ? undefined : findProperties(list)
    if (inner !== undefined) return inner
  }
  return undefined
}

function inside(schema: Node, key: string): Node | null {
  return (findProperties(schema)?.[key] as Node | undefined) ?? null
}

function isNested(schema: Node): boolean {
  return branches(schema).some(({ type }) => type === "object" || type === "array")
}

function findDescription(schema: Node): string {
  const own = schema.description ?? branches(schema).find(({ description }) => description)?.description
  return typeof own === "string" ? own : ""
}

function listValues(key: string, text: string, ids: readonly string[]): Completion[] {
  const plain = (label: string, detail = "") => ({ label, detail, insert: label })
  switch (key) {
    case "handler": {
      const used = [...text.matchAll(/^\s*(?:- +)?handler:\s*"?([\w.-]+)/gm)].map(([, name]) => name!)
      const known = new Map<string, string>([...used.map(name => [name, "used here"] as const), ...handlers])
      return [...known].map(([name, detail]) => plain(name, detail))
    }
    case "dependencies":
      return ids.map(id => plain(id, "node"))
    case "fail_fast":
    case "when":
      return [plain("true"), plain("false")]
    default:
      return []
  }
}
