/** Does the document have the shape that the schema states? Every deviation is an E101 in words of our own. */
import type { z } from "zod"
import { isTemplate } from "../template/index.ts"
import { isObject, valueAt } from "./json-value.ts"
import type { DefinitionLimits } from "./limits.ts"
import { reservedIds } from "./names.ts"
import { type DocumentPath, formatPath, type ProblemList } from "./problem.ts"
import { headSchema, type NodeDefinition, nodeSchema, retryKeys, type WorkflowDefinition } from "./schema.ts"
import type { Suggester } from "./suggest.ts"

export interface ShapeContext {
  readonly problems: ProblemList
  readonly suggest: Suggester
  readonly limits: DefinitionLimits
}

/** The document's own keys. The nodes are looked at one by one, by `checkNodeShape`. */
export function checkHead(source: unknown, context: ShapeContext): Partial<WorkflowDefinition> | undefined {
  if (!isObject(source)) {
    const message = `A workflow is a mapping with "name" and "nodes"; this is ${describe(source)}.`
    context.problems.add("E101", [], message)
    return undefined
  }
  const parsed = headSchema.safeParse(Array.isArray(source.nodes) ? { ...source, nodes: [] } : source)
  if (!parsed.success) reportIssues(parsed.error.issues, source, [], context)
  return source as Partial<WorkflowDefinition>
}

/** What of a node has the right shape: a wrong field is reported and left out, the others are still looked at. */
export type SoundNode = { readonly [K in keyof NodeDefinition]?: NodeDefinition[K] }

export function checkNodeShape(
  source: unknown,
  position: number,
  context: ShapeContext,
): SoundNode | undefined {
  const path = ["nodes", position]
  if (!isObject(source)) {
    const message = `A node is a mapping with "id" and "handler"; this is ${describe(source)}.`
    context.problems.add("E101", path, message)
    return undefined
  }
  const parsed = nodeSchema.safeParse(source)
  if (!parsed.success) reportIssues(parsed.error.issues, source, path, context)
  const node = parsed.success ? (source as SoundNode) : without(source, parsed.error.issues)
  checkId(node.id, path, context)
  for (const key of ["max_parallel", "fail_fast"] as const) {
    if (node[key] == null || source.for_each != null) continue
    const message = `"${key}" has no meaning without "for_each". Remove it.`
    context.problems.add("E101", [...path, key], message, { key: true })
  }
  checkIsTemplate(node, path, context)
  return node
}

function without(source: Record<string, unknown>, issues: readonly Issue[]): SoundNode {
  const sound = { ...source }
  // A list of dependencies with one wrong item still names the others.
  for (const { path } of issues)
    if (path[0] !== "dependencies" || path.length === 1) delete sound[String(path[0])]
  return sound
}

function checkId(id: unknown, path: DocumentPath, { problems, limits }: ShapeContext): void {
  if (typeof id !== "string") return
  const idPath = [...path, "id"]
  if (id.length > limits.idLength) {
    problems.add(
      "E101",
      idPath,
      `The id has ${id.length} characters; at most ${limits.idLength} are allowed (limit idLength).`,
    )
  }
  if (reservedIds.has(id)) {
    problems.add(
      "E101",
      idPath,
      `The id "${id}" would hide a name that templates know. Choose another, such as "${id}_node".`,
    )
  }
}

function checkIsTemplate(node: SoundNode, path: DocumentPath, { problems }: ShapeContext): void {
  for (const key of ["when", "for_each"] as const) {
    const text = node[key]
    if (typeof text !== "string" || isTemplate(text)) continue
    const message = `"${key}" is text without a template, so it would always mean the same. Write "{{ ${text.slice(0, 80)} }}".`
    problems.add("E101", [...path, key], message)
  }
}

type Issue = z.core.$ZodIssue

function reportIssues(
  issues: readonly Issue[],
  source: unknown,
  base: DocumentPath,
  context: ShapeContext,
): void {
  // What a misspelt key was meant to be: that it is missing follows from the misspelling.
  const meant = new Set<string | undefined>()
  for (const issue of issues) {
    if (issue.code !== "unrecognized_keys") continue
    const path = [...base, ...(issue.path as (string | number)[])]
    for (const key of issue.keys) meant.add(reportUnknownKey([...path, key], context))
  }
  for (const issue of issues) {
    const inner = issue.path as (string | number)[]
    const path = [...base, ...inner]
    if (issue.code === "unrecognized_keys") continue
    if (valueAt(source, inner) === undefined) {
      if (inner.length === 1 && meant.has(String(inner[0]))) continue
      const owner = base.length === 0 ? "The workflow" : "The node"
      context.problems.add(
        "E101",
        path,
        `${owner} has no "${String(inner.at(-1))}". Add it: ${expected(issue, inner)}.`,
      )
    } else {
      const found = describe(valueAt(source, inner))
      const what = formatPath(inner.slice(inner.findLastIndex(part => typeof part === "string")))
      context.problems.add("E101", path, `"${what}" is ${found}; expected ${expected(issue, inner)}.`)
    }
  }
}

/** Answers with the key that was probably meant. */
function reportUnknownKey(path: DocumentPath, { problems, suggest }: ShapeContext): string | undefined {
  const key = String(path.at(-1))
  const owner = path.at(-2)
  const known =
    owner === undefined
      ? headSchema.keyof().options
      : owner === "retry"
        ? retryKeys
        : nodeSchema.keyof().options
  const nearest = suggest.nearest(key, known)
  const advice = nearest === undefined ? `Known are ${known.join(", ")}.` : `Did you mean "${nearest}"?`
  problems.add("E101", path, `Unknown key ${JSON.stringify(key)}. ${advice}`, { key: true })
  return nearest
}

const words: Readonly<Record<string, string>> = {
  id: "letters, digits, _ and -, not beginning with a digit or -",
  config: "a mapping",
  input: "a mapping, the JSON Schema of the job's input",
  nodes: "a list of nodes",
  dependencies: "a list of node ids",
  retry: "a mapping",
  when: "true, false or a template",
  for_each: "a list or a template",
}

const kinds: Readonly<Record<string, string>> = { int: "a whole number", number: "a number", string: "text" }

function expected(issue: Issue, inner: readonly PropertyKey[]): string {
  if (inner[0] === "dependencies" && inner.length > 1) return "the id of a node, as text"
  const known = words[String(inner.at(-1))]
  if (known !== undefined) return known
  if (issue.code === "invalid_type") return kinds[issue.expected] ?? `a ${issue.expected}`
  if (issue.code === "too_small") {
    if (issue.origin === "string") return "text that is not empty"
    return `${issue.inclusive ? "at least" : "more than"} ${issue.minimum}`
  }
  if (issue.code === "too_big")
    return `at most ${issue.maximum}${issue.origin === "string" ? " characters" : ""}`
  return issue.message.replace(/^Invalid input: expected /, "")
}

/** What was found, in words short enough for a message. */
function describe(value: unknown): string {
  if (value === null) return "nothing (null)"
  if (Array.isArray(value)) return "a list"
  if (typeof value === "object") return "a mapping"
  if (typeof value === "string") return value.length > 40 ? `"${value.slice(0, 40)}…"` : JSON.stringify(value)
  return String(value)
}
