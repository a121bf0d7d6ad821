/** Checks the shape of a document against the schema. Every deviation is an E101 with our own text. */
import { isTemplate } from "../../template/index.ts"
import { checkShape, isMapping, type ShapeContext, type ShapeWords, without } from "../document/issues.ts"
import { idWords, reservedIds } from "../names.ts"
import type { DocumentPath } from "../problem.ts"
import { headSchema, type NodeDefinition, nodeSchema, type WorkflowDefinition } from "./schema.ts"

const words: ShapeWords = {
  document: "workflow",
  entries: { nodes: "node" },
  expected: {
    id: idWords,
    config: "a mapping",
    input: "a mapping, the JSON Schema of the job's input",
    nodes: "a list of nodes",
    dependencies: "a list of node ids",
    "dependencies[]": "the id of a node, as text",
    retry: "a mapping",
    when: "true, false or a template",
    for_each: "a list or a template",
  },
}

/** Names that could not be told from a reference (`name@3`, `name@stable`) or from a segment of a URL path. */
const unclearName = /^(\.\.?|.+@(\d{1,9}|[A-Za-z_][A-Za-z0-9_-]{0,62}))$/s

/** Invisible characters, and characters that reorder text or break lines. */
const unseenName =
  /^[\p{White_Space}\p{Default_Ignorable_Code_Point}\p{Cf}]+$|[\p{Bidi_Control}\p{Zl}\p{Zp}]/u

export function checkName(name: unknown, problems: ShapeContext["problems"]): void {
  if (typeof name !== "string") return
  if (unseenName.test(name)) {
    const message = `${JSON.stringify(name)} is not a valid name: it is blank, or has a character that reorders text or breaks the line. Choose another.`
    problems.add("E101", ["name"], message)
  }
  if (!unclearName.test(name)) return
  const message = `"${name}" is not a valid name: "." and ".." are segments of a path, and "@" is followed by a version or an alias. Choose another.`
  problems.add("E101", ["name"], message)
}

/** The document's own keys. `checkNodeShape` checks the nodes one by one. */
export function checkHead(source: unknown, context: ShapeContext): Partial<WorkflowDefinition> | undefined {
  if (!isMapping(source, 'A workflow must be a mapping with "name" and "nodes"', [], context))
    return undefined
  const seen = Array.isArray(source.nodes) ? { ...source, nodes: [] } : source
  checkShape({ schema: headSchema, source: seen, path: [], words }, context)
  return source as Partial<WorkflowDefinition>
}

/** The valid part of a node: a wrong field is reported and left out, the others are still checked. */
export type SoundNode = { readonly [K in keyof NodeDefinition]?: NodeDefinition[K] }

export function checkNodeShape(
  source: unknown,
  position: number,
  context: ShapeContext,
): SoundNode | undefined {
  const path = ["nodes", position]
  if (!isMapping(source, 'A node must be a mapping with "id" and "handler"', path, context)) return undefined
  const issues = checkShape({ schema: nodeSchema, source, path, words }, context)
  const node: SoundNode = without(source, issues, ["dependencies"])
  checkId(node.id, path, context)
  for (const key of ["max_parallel", "fail_fast"] as const) {
    if (node[key] == null || source.for_each != null) continue
    const message = `"${key}" has no effect without "for_each". Remove it.`
    context.problems.add("E101", [...path, key], message, { key: true })
  }
  checkIsTemplate(node, path, context)
  return node
}

/** `what` is the word for such names: "id", "queue". */
export function checkLength(
  what: string,
  name: string,
  path: DocumentPath,
  { problems, limits }: Pick<ShapeContext, "problems" | "limits">,
): void {
  if (name.length <= limits.idLength) return
  const message = `The ${what} has ${name.length} characters; at most ${limits.idLength} are allowed (limit idLength).`
  problems.add("E101", path, message)
}

function checkId(id: unknown, path: DocumentPath, { problems, limits }: ShapeContext): void {
  if (typeof id !== "string") return
  const idPath = [...path, "id"]
  checkLength("id", id, idPath, { problems, limits })
  if (reservedIds.has(id)) {
    problems.add(
      "E101",
      idPath,
      `The id "${id}" would hide a built-in name of templates. Choose another, such as "${id}_node".`,
    )
  }
}

function checkIsTemplate(node: SoundNode, path: DocumentPath, { problems }: ShapeContext): void {
  for (const key of ["when", "for_each"] as const) {
    const text = node[key]
    if (typeof text !== "string" || isTemplate(text)) continue
    const yields = key === "when" ? "true or false" : "a list"
    const message =
      text.trim() === ""
        ? `"${key}" is empty. Write an expression that yields ${yields}, "{{ … }}", or leave "${key}" out.`
        : `"${key}" is text without a template, so its value would never change. Write "{{ ${text.trim().slice(0, 80)} }}".`
    problems.add("E101", [...path, key], message)
  }
}
