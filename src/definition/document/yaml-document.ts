/**
 * Converts YAML 1.2 to a JSON value, with positions. It does not use the library's `toJS`, because that searches the
 * whole document for each alias and has no positions for values that JSON cannot represent. The library's own check for
 * duplicate keys compares each key with all others (quadratic), so it is off and done here.
 */

import {
  type Alias,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  type Scalar,
  type YAMLError,
  type YAMLMap,
} from "yaml"
import type { Json, JsonObject } from "../../core/json.ts"
import { valueIn } from "../../core/maps.ts"
import type { DefinitionLimits } from "../limits.ts"
import { type DocumentPath, formatPath, type Locate, type Position, type Problem } from "../problem.ts"
import { duplicateKey, lineFinder, type ReadDocument } from "./json-document.ts"
import { isObject } from "./json-value.ts"
import { composeYaml } from "./yaml-compose.ts"

export function readYaml(text: string, limits: DefinitionLimits): ReadDocument {
  const position = lineFinder(text)
  const failed = (message: string, offset: number): ReadDocument => ({
    value: undefined,
    problems: [{ code: "E101", message, path: "", ...position(offset) }],
    locate: () => position(offset),
  })
  const composed = composeYaml(text, limits.depth)
  if (composed.document === undefined) return failed(composed.message, composed.offset)
  const { document } = composed
  const faults = firstOfLines(document.errors, position).map(
    (error): Problem => ({
      code: "E101",
      message: `Not valid YAML: ${error.message.replace(/[.\s]+$/, "")}.${adviceFor(text, error)}`,
      path: "",
      ...position(error.pos[0]),
    }),
  )
  if (faults.length > 0) return { value: undefined, problems: faults, locate: () => position(0) }
  if (document.directives?.yaml.explicit && document.directives.yaml.version !== "1.2") {
    return failed("Only YAML 1.2 is supported. Remove the %YAML line.", 0)
  }
  if (document.contents === null)
    return failed("The document is empty. A workflow needs a name and nodes.", 0)
  const converter = new JsonConverter(limits, position)
  const value = converter.value(document.contents as Node, [], 0)
  return {
    value,
    problems: converter.problems,
    unread: converter.unread,
    locate: yamlLocator(document.contents, { text, position, aliases: converter.aliases }),
  }
}

/**
 * After a fault the parser continues, and reports more faults in the rest of the line. They are removed before advice is
 * computed: that reads the whole line, so a long line with a fault at every character would take hours.
 */
function firstOfLines(
  errors: readonly YAMLError[],
  position: (offset: number) => Position,
): readonly YAMLError[] {
  let last: number | undefined
  return errors.filter(({ pos: [at] }) => {
    const { line } = position(at)
    const isFirst = line !== last
    last = line
    return isFirst
  })
}

/** Advice for the most frequent syntax errors in workflows: text that YAML parses as something else. */
function adviceFor(text: string, { pos: [at], message }: YAMLError): string {
  const line = text.slice(text.lastIndexOf("\n", at - 1) + 1, at + 1)
  if (/(?:[:-]|^)\s+\{[{%#]/.test(line))
    return ' Put a value that begins with a template in quotes: "{{ … }} …".'
  return /^Nested mappings/.test(message) ? ' Put text that contains ": " in quotes.' : ""
}

const plainTags = new Set(
  ["str", "int", "float", "bool", "null", "map", "seq"].map(name => `tag:yaml.org,2002:${name}`),
)

class JsonConverter {
  readonly problems: Problem[] = []
  readonly unread: string[] = []
  readonly aliases: AliasTargets = new Map()
  readonly #anchors = new Map<string, Node>()
  readonly #open = new Set<Node>()
  readonly #limits: DefinitionLimits
  readonly #position: (offset: number) => Position
  #aliasDepth = 0
  #aliasValues = 0
  #stopped = false

  constructor(limits: DefinitionLimits, position: (offset: number) => Position) {
    this.#limits = limits
    this.#position = position
  }

  value(node: Node | null, path: DocumentPath, depth: number): Json {
    if (node === null || this.#stopped) return null
    if (this.#aliasDepth > 0 && ++this.#aliasValues > this.#limits.aliasValues) {
      return this.#stop(
        node,
        path,
        `Aliases add more than ${this.#limits.aliasValues} values (limit aliasValues). Write fewer.`,
      )
    }
    if (depth > this.#limits.depth) {
      return this.#stop(
        node,
        path,
        `Nested more than ${this.#limits.depth} levels deep (limit depth). Flatten it.`,
      )
    }
    if (isAlias(node)) return this.#alias(node, path, depth)
    if ("anchor" in node && node.anchor !== undefined && this.#aliasDepth === 0)
      this.#anchors.set(node.anchor, node)
    if (node.tag !== undefined && !plainTags.has(node.tag)) {
      return this.#refuse(node, path, `The tag ${node.tag} is not part of JSON. Write the value without it.`)
    }
    if (isScalar(node)) return this.#scalar(node, node.value, path)
    this.#open.add(node)
    const value = isMap(node)
      ? this.#mapping(node, path, depth)
      : isSeq(node)
        ? node.items.map((item, i) => this.value(item as Node | null, [...path, i], depth + 1))
        : null
    this.#open.delete(node)
    return value
  }

  #alias(node: Alias, path: DocumentPath, depth: number): Json {
    const target = this.aliases.get(node) ?? this.#anchors.get(node.source)
    if (target === undefined)
      return this.#refuse(node, path, `There is no anchor &${node.source} before this alias.`)
    if (this.#open.has(target))
      return this.#refuse(node, path, `The alias *${node.source} is inside the value that it refers to.`)
    this.aliases.set(node, target)
    this.#aliasDepth++
    const value = this.value(target, path, depth + 1)
    this.#aliasDepth--
    return value
  }

  #mapping(node: YAMLMap, path: DocumentPath, depth: number): Json {
    const found: Record<string, Json> = {}
    const first = new Map<string, Position>()
    let merged: JsonObject | undefined
    for (const pair of node.items as Pair<Node, Node | null>[]) {
      const key = this.#key(pair, path)
      if (key === undefined) {
        merged = this.#merged(pair, path, depth) ?? merged
        continue
      }
      const memberPath = [...path, key]
      const earlier = first.get(key)
      const at = this.#position(pair.key.range?.[0] ?? 0)
      if (earlier === undefined) first.set(key, at)
      else this.problems.push(duplicateKey(memberPath, at, earlier))
      const value = this.value(pair.value, memberPath, depth + 1)
      if (key === "__proto__")
        Object.defineProperty(found, key, { value, enumerable: true, configurable: true, writable: true })
      else found[key] = value
    }
    return merged === undefined ? found : { ...merged, ...found }
  }

  /** Keys that a merge key would add: merge keys are rejected, so that these keys are missing is a consequence. */
  #merged(
    { key, value }: Pair<Node, Node | null>,
    path: DocumentPath,
    depth: number,
  ): JsonObject | undefined {
    if (!isScalar(key) || key.value !== "<<") return undefined
    const meant = this.value(value, path, depth)
    return isObject(meant) ? (meant as JsonObject) : undefined
  }

  #key(pair: Pair<Node, Node | null>, path: DocumentPath): string | undefined {
    const { key } = pair
    if (isScalar(key) && typeof key.value === "string") {
      if (key.value !== "<<" || key.type !== "PLAIN") return key.value
      this.#report(
        key,
        path,
        "Merge keys (<<) are not part of YAML 1.2. Write the keys out, or put << in quotes.",
      )
      return undefined
    }
    if (isMap(key) && key.flow) {
      this.#refuse(pair.key, path, 'A template that begins with {{ must be in quotes: "{{ … }}".')
      return undefined
    }
    const shown = isScalar(key) ? String(key.value) : "this"
    this.#report(key, path, `A key must be a string. Put ${shown} in quotes, or write a list.`)
    return undefined
  }

  #scalar(node: Node, value: unknown, path: DocumentPath): Json {
    if (value === null || typeof value === "string" || typeof value === "boolean") return value
    if (typeof value === "number" && Number.isFinite(value)) return value
    return this.#refuse(
      node,
      path,
      `${String(value)} is not a JSON value. Put it in quotes if it is meant as text.`,
    )
  }

  #refuse(node: Node, path: DocumentPath, message: string): null {
    this.#report(node, path, message)
    this.unread.push(formatPath(path))
    return null
  }

  #report(node: Node, path: DocumentPath, message: string): void {
    const at = this.#position(node.range?.[0] ?? 0)
    this.problems.push({ code: "E101", message, path: formatPath(path), ...at })
  }

  #stop(node: Node, path: DocumentPath, message: string): null {
    this.#stopped = true
    return this.#refuse(node, path, message)
  }
}

/** Maps a path to its position in YAML text, through aliases, and into strings as far as their style allows. */

type AliasTargets = Map<Alias, Node>

interface YamlSource {
  readonly text: string
  readonly position: (offset: number) => Position
  readonly aliases: AliasTargets
}

type Member = Pair<Node, Node | null>

function yamlLocator(root: Node, source: YamlSource): Locate {
  const { text, position, aliases } = source
  const members = new Map<YAMLMap, Map<string, Member>>()
  const keyName = ({ key }: Member): string => (isScalar(key) ? String(key.value) : "")
  const membersByName = (map: YAMLMap): Map<string, Member> =>
    valueIn(members, map, () => new Map((map.items as Member[]).map(pair => [keyName(pair), pair])))
  return (path, place = {}) => {
    let node: Node = root
    let key: Node = root
    for (const part of path) {
      if (isAlias(node)) node = aliases.get(node) ?? node
      const pair: Member | undefined = isMap(node) ? membersByName(node).get(String(part)) : undefined
      const next =
        isSeq(node) && typeof part === "number" ? (node.items[part] as Node | undefined) : pair?.value
      if (next === undefined || (next === null && pair === undefined)) return position(start(node))
      key = pair?.key ?? (next as Node)
      // A key without a value: there is no value to point at.
      node = next ?? key
    }
    if (place.key) return position(start(key))
    if (isAlias(node) && place.offset !== undefined) node = aliases.get(node) ?? node
    if (place.offset === undefined || !isScalar(node)) return position(start(node))
    return position(offsetInScalar(text, node, place.offset))
  }
}

const start = (node: Node): number => node.range?.[0] ?? 0

/** Exact for plain and quoted strings on one line and for `|` blocks; otherwise the start of the scalar. */
function offsetInScalar(text: string, node: Scalar, offset: number): number {
  const from = start(node)
  const raw = text.slice(from, node.range?.[1] ?? from)
  if (node.type === "BLOCK_LITERAL") return from + offsetInBlock(raw, String(node.value), offset)
  if (raw.includes("\n")) return from
  if (node.type === "PLAIN") return from + offset
  if (node.type === "QUOTE_SINGLE")
    return from + offsetInQuotes(raw, offset, at => (raw.startsWith("''", at) ? 2 : 1))
  if (node.type === "QUOTE_DOUBLE") return from + offsetInQuotes(raw, offset, at => escapeLength(raw, at))
  return from
}

function offsetInQuotes(raw: string, offset: number, lengthAt: (at: number) => number): number {
  let at = 1
  for (let i = 0; i < offset && at < raw.length - 1; i++) at += lengthAt(at)
  return at
}

const longEscapes: Readonly<Record<string, number>> = { x: 4, u: 6, U: 10 }

const escapeLength = (raw: string, at: number): number =>
  raw[at] === "\\" ? (longEscapes[raw[at + 1] ?? ""] ?? 2) : 1

/** Each line of a `|` block is a line of its value after the indentation; the first line of `raw` is the header. */
function offsetInBlock(raw: string, value: string, offset: number): number {
  const before = value.slice(0, offset)
  const line = before.split("\n").length
  const column = before.length - (before.lastIndexOf("\n") + 1)
  const rawLines = raw.split("\n")
  const wanted = rawLines[line]?.replace(/\r$/, "")
  const content = value.split("\n")[line - 1]
  if (wanted === undefined || content === undefined || !wanted.endsWith(content)) return 0
  const lineStart = rawLines.slice(0, line).reduce((sum, text) => sum + text.length + 1, 0)
  return lineStart + (wanted.length - content.length) + column
}
