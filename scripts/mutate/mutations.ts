/**
 * Finds the places of a source file where a small mistake could stand, and what the mistake would look like.
 * Types, imports, names of fields and texts for people (with a space, or in a template literal) are left alone:
 * a mistake there is found by the compiler, or is a matter of wording.
 */
import { everyNode, lineAt, parse, type SyntaxNode } from "../../test/shape/syntax.ts"

/** One place, and every mistake that could be made there. */
export interface Site {
  readonly file: string
  readonly line: number
  readonly start: number
  readonly end: number
  /** `statement`: the mistake is that the statement is missing. */
  readonly kind: "expression" | "statement"
  readonly replacements: readonly string[]
  /** An expression with which a statement of a block begins: written in parentheses it needs a semicolon before it. */
  readonly beginsStatement: boolean
}

export interface Mutation extends Omit<Site, "replacements"> {
  readonly replacement: string
}

interface Place {
  readonly node: Located
  readonly parent: Located | null
  readonly key: string
}

/** What the parser says of every node. */
type Located = SyntaxNode & { readonly end: number }

const COMPARISONS: Readonly<Record<string, readonly string[]>> = {
  "<": ["<=", ">="],
  "<=": ["<", ">"],
  ">": [">=", "<="],
  ">=": [">", "<"],
  "===": ["!=="],
  "!==": ["==="],
}

const OPERATORS: Readonly<Record<string, readonly string[]>> = {
  ...COMPARISONS,
  "+": ["-"],
  "-": ["+"],
  "*": ["/"],
  "/": ["*"],
  "%": ["*"],
  "&": ["|"],
  "|": ["&"],
  "&&": ["||"],
  "||": ["&&"],
  "+=": ["-="],
  "-=": ["+="],
}

const METHODS: Readonly<Record<string, string>> = {
  some: "every",
  every: "some",
  min: "max",
  max: "min",
  floor: "ceil",
  ceil: "floor",
  startsWith: "endsWith",
  endsWith: "startsWith",
}

const CONDITIONAL = new Set(["IfStatement", "ConditionalExpression"])
const LOOPS = new Set(["WhileStatement", "ForStatement", "DoWhileStatement"])
const JUMPS = new Set(["ReturnStatement", "ThrowStatement", "ContinueStatement", "BreakStatement"])
const BLOCKS = new Set(["BlockStatement", "Program", "SwitchCase", "StaticBlock"])
/** Syntax of TypeScript that holds an expression; everything else of its kind is a type. */
const TYPED_EXPRESSIONS = new Set(["TSAsExpression", "TSNonNullExpression", "TSSatisfiesExpression"])

export function sitesOf(file: string, text: string): readonly Site[] {
  const found: Site[] = []
  const starts = new Set<number>()
  for (const place of places(parse(file, text) as Located)) {
    const { node, parent } = place
    if (node.type === "ExpressionStatement" && parent !== null && BLOCKS.has(parent.type))
      starts.add(node.start)
    const replacements = replacementsOf(place, (from, to) => text.slice(from, to))
    const { start, end } = node
    const at = { file, line: lineAt(text, start), start, end }
    if (isRemovable(place)) {
      found.push({ ...at, kind: "statement", replacements: [""], beginsStatement: false })
    } else if (replacements.length > 0) {
      const beginsStatement = starts.has(start)
      found.push({ ...at, kind: "expression", replacements, beginsStatement })
    }
  }
  return found
}

/** Every node that is executed: no types, no imports. */
function* places(program: Located): Generator<Place> {
  let skipTo = 0
  for (const { node, parent, key } of everyNode(program)) {
    const located = node as Located
    if (located.start < skipTo && located.end <= skipTo && located !== program) continue
    if (isSkipped(located, key)) skipTo = Math.max(skipTo, located.end)
    else yield { node: located, parent: parent as Located | null, key }
  }
}

function isSkipped({ type }: Located, key: string): boolean {
  if (type.startsWith("TS")) return !TYPED_EXPRESSIONS.has(type)
  return type === "ImportDeclaration" || type === "ExportAllDeclaration" || key === "source"
}

/** Statements whose absence nothing but a test would notice: an effect, and an early exit. */
function isRemovable({ node, parent }: Place): boolean {
  if (parent === null || !BLOCKS.has(parent.type)) return false
  if (node.type === "ExpressionStatement") return node.directive === undefined || node.directive === null
  return node.type === "IfStatement" && isJump(node.consequent as Located) && !node.alternate
}

function isJump(node: Located): boolean {
  if (node.type !== "BlockStatement") return JUMPS.has(node.type)
  const body = node.body as Located[]
  return body.length > 0 && JUMPS.has(body.at(-1)!.type)
}

function replacementsOf(place: Place, slice: (from: number, to: number) => string): readonly string[] {
  const { node, parent, key } = place
  const text = slice(node.start, node.end)
  const changes = changesOf(place, text, slice)
  if (key !== "test" || parent === null) return changes
  if (CONDITIONAL.has(parent.type)) return [...changes, `!(${text})`, "true", "false"]
  return LOOPS.has(parent.type) ? [...changes, "false"] : changes
}

function changesOf({ node, parent, key }: Place, text: string, slice: Slice): readonly string[] {
  switch (node.type) {
    case "BinaryExpression":
    case "LogicalExpression":
    case "AssignmentExpression":
      return operatorChanges(node, slice)
    case "UnaryExpression":
      return node.operator === "!" || node.operator === "-" ? [slice(argumentOf(node), node.end)] : []
    case "UpdateExpression":
      return [text.includes("++") ? text.replace("++", "--") : text.replace("--", "++")]
    case "CallExpression":
      return methodChanges(node, slice)
    case "Literal":
      return isName(parent, key) ? [] : literalChanges(node.value)
    default:
      return []
  }
}

type Slice = (from: number, to: number) => string

const argumentOf = (node: Located): number => (node.argument as Located).start

function operatorChanges(node: Located, slice: Slice): readonly string[] {
  const [left, right] = [node.left as Located, node.right as Located]
  const operator = String(node.operator)
  const [first, last] = [slice(node.start, left.end), slice(right.start, node.end)]
  if (operator === "??") return [`(${last})`]
  return (OPERATORS[operator] ?? []).map(other => `${first} ${other} ${last}`)
}

function methodChanges(node: Located, slice: Slice): readonly string[] {
  const callee = node.callee as Located
  const property = callee.property as Located | undefined
  if (callee.type !== "MemberExpression" || callee.computed === true || property === undefined) return []
  const other = METHODS[String(property.name)]
  if (other === undefined) return []
  return [`${slice(node.start, property.start)}${other}${slice(property.end, node.end)}`]
}

function literalChanges(value: unknown): readonly string[] {
  if (typeof value === "number") return [String(value + 1), value === 0 ? "-1" : String(value - 1)]
  if (typeof value === "boolean") return [String(!value)]
  return typeof value === "string" && value !== "" && !value.includes(" ") ? ['""'] : []
}

/** A literal that is the key of a property, or an argument of `new …Error`, whose text is for people. */
function isName(parent: Located | null, key: string): boolean {
  if (parent === null) return true
  if (key === "key") return true
  return parent.type === "NewExpression" && /Error$/.test(String((parent.callee as Located).name))
}
