/**
 * Resolves names, keys and indices. Own enumerable properties of mappings, indices of lists and strings, fields of `loop`
 * and of namespaces: nothing else is reachable.
 */
import type { Json } from "../../core/json.ts"
import type { Expression, Item, Member, Name } from "../parse/ast.ts"
import { Fault, type Run } from "../run.ts"
import {
  characters,
  isList,
  isMapping,
  Loop,
  Missing,
  Namespace,
  owns,
  put,
  typeName,
  type Value,
} from "./values.ts"

/** A miss searches all scopes: it costs as much as a few other steps. */
const MISSING = 6

const groups = new WeakSet<object>()

/** Marks a pair made by `groupby`, which has `.grouper` and `.list`. */
export function markGroup<T extends Json[]>(pair: T): T {
  groups.add(pair)
  return pair
}

/** The value of a key, `undefined` if there is none. */
export function child(run: Run, value: Value, key: string | number): Value | undefined {
  if (isMapping(value)) {
    const name = String(key)
    return owns(value, name) ? value[name] : undefined
  }
  if (typeof key === "number") {
    const items = isList(value) ? value : typeof value === "string" ? characters(run, value) : []
    return items[key < 0 ? key + items.length : key]
  }
  if (isList(value))
    return groups.has(value) ? value[key === "grouper" ? 0 : key === "list" ? 1 : 2] : undefined
  if (value instanceof Namespace) return value.values.get(key)
  return value instanceof Loop ? value.get(key) : undefined
}

/** A name that is read from outside the template. */
const isOuter = (expression: Expression, frame: Frame | null): expression is Name =>
  expression.kind === "name" && frame?.get(expression.name) === undefined

/** Is the expression the mapping of all nodes: `nodes`, unless a name hides it? */
const isNodes = (run: Run, expression: Expression, frame: Frame | null): boolean =>
  isOuter(expression, frame) && expression.name === "nodes" && !owns(run.scope.names, "nodes")

/** Is it the output of one node: `n`, `nodes.n`, `nodes["n"]`? */
function isNode(run: Run, expression: Expression, frame: Frame | null): boolean {
  if (expression.kind === "member" || expression.kind === "item")
    return isNodes(run, expression.object, frame)
  return isOuter(expression, frame) && expression.name !== "nodes" && !owns(run.scope.names, expression.name)
}

export function readName(run: Run, expression: Name, frame: Frame | null): Value {
  const { name } = expression
  const local = frame?.get(name)
  if (local !== undefined) return local
  const { scope } = run
  if (owns(scope.names, name)) return scope.names[name] as Json
  if (name === "nodes") return allNodes(run)
  const output = scope.node(name)
  if (output !== undefined) return output
  run.step(MISSING)
  return new Missing(() =>
    missing(name, "available are", [...Object.keys(scope.names), "nodes", ...scope.nodeIds()]),
  )
}

function allNodes(run: Run): Json {
  const ids = run.scope.nodeIds()
  run.items(ids.length * 2)
  const outputs: Record<string, Json> = {}
  for (const id of ids) {
    const output = run.scope.node(id)
    if (output !== undefined) put(outputs, id, output)
  }
  return outputs
}

/** `object.key` or `object[key]`; `read` evaluates the object, except all nodes, of which only one is read. */
export function readChild(
  run: Run,
  expression: Member | Item,
  key: string | number,
  frame: Frame | null,
  read: (object: Expression) => Value,
): Value {
  const { object } = expression
  if (isNodes(run, object, frame)) {
    const output = run.scope.node(String(key))
    if (output !== undefined) return output
    return new Missing(() =>
      missing(path(run, expression, key), "nodes that can be read here are", run.scope.nodeIds()),
    )
  }
  const value = read(object)
  if (value instanceof Missing) return value
  const found = child(run, value, key)
  if (found !== undefined) return found
  // `n.output` is `n` unless the output has a key of that name.
  if (key === "output" && isNode(run, object, frame)) return value
  run.step(MISSING)
  return new Missing(() => missing(path(run, expression, key), ...whatIsThere(run, object, value)))
}

function whatIsThere(run: Run, object: Expression, value: Value): [string, readonly string[]] {
  const name = path(run, object)
  if (isList(value)) return [`${name} is a list of ${value.length}`, []]
  if (!isMapping(value))
    return [`${name} is a ${value instanceof Namespace ? "namespace" : typeName(value as Json)}`, []]
  // Keys may be computed from a secret, except those of `secrets` itself.
  const show = !run.discreet || object.kind === "name"
  return [`${name} has`, show ? Object.keys(value) : []]
}

/** The number of names shown in a message. */
const SHOWN = 20

function missing(name: string, there: string, names: readonly string[]): Fault {
  const available = names.slice(0, SHOWN)
  const more = names.length > SHOWN ? ` and ${names.length - SHOWN} more` : ""
  const listed = there.endsWith("has") || there.endsWith("are")
  const what = listed ? `${there} ${available.length === 0 ? "nothing" : available.join(", ")}${more}` : there
  return new Fault("E201", `"${name}" is missing: ${what}`, name, available)
}

/** The expression as written in a template. A computed key is shown unless it may be secret. */
function path(run: Run, expression: Expression, key?: string | number): string {
  switch (expression.kind) {
    case "name":
      return expression.name
    case "member":
      return `${path(run, expression.object)}.${expression.key}`
    case "item": {
      const constant = expression.key.kind === "constant" ? expression.key.value : undefined
      const shown = constant ?? (run.discreet ? undefined : key)
      return `${path(run, expression.object)}[${shown === undefined ? "…" : JSON.stringify(shown)}]`
    }
    default:
      return "(…)"
  }
}

/** Names that a template has set. Loops and block bodies have their own frames, so their names do not leak. */
export class Frame {
  readonly #parent: Frame | null
  readonly #values = new Map<string, Value>()

  constructor(parent: Frame | null) {
    this.#parent = parent
  }

  get(name: string): Value | undefined {
    const value = this.#values.get(name)
    if (value !== undefined || this.#parent === null) return value
    return this.#parent.get(name)
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value)
  }
}
